/* The options of koine train, and its help. */
#include <math.h>

#include "train.h"

enum { BATCH = 64, LORA_BATCH = 8 };

static int check_numbers(const train_options *own) {
    if (!(own->crew.timeout >= 0 && own->crew.timeout <= 1e9))
        return command_misuse("--timeout is %g; expected seconds, or 0 for never", own->crew.timeout);
    if (own->length > INT32_MAX)
        return command_misuse("--length is %llu; expected at most %d", (unsigned long long)own->length,
                              INT32_MAX);
    if (!own->batch || (own->batch > INT32_MAX && own->batch != UINT64_MAX))
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)own->batch, INT32_MAX);
    if (own->validate_samples == 0)
        return command_misuse("--validate-samples is 0; expected at least 1, or --validation 0 for none");
    if (own->validate_samples != UINT64_MAX && own->validation == 0)
        return command_misuse("--validation 0 leaves nothing to validate: omit --validate-samples");
    if (!(isnan(own->validation) || (own->validation >= 0 && own->validation < 1)))
        return command_misuse("--validation is %g; expected a fraction of at least 0 and below 1",
                              own->validation);
    if (own->seconds <= 0) return command_misuse("--seconds is %g; expected a number above 0", own->seconds);
    if (own->workers > 16)
        return command_misuse("--workers is %llu; expected at most 16", (unsigned long long)own->workers);
    if (own->epochs == 0) return command_misuse("--epochs is 0; expected at least 1");
    if (own->steps == 0) return command_misuse("--steps is 0; expected at least 1");
    return EXIT_DONE;
}

static int check_words(train_options *own, train_checkpoints *checkpoints) {
    if (own->loss && option_choice("loss", own->loss, loss_words, loss_word_count) < 0) return EXIT_USAGE;
    static const char *const weights[] = {"balanced", "none"};
    if (own->class_weights && option_choice("class-weights", own->class_weights, weights, 2) < 0)
        return EXIT_USAGE;
    static const char *const counted[] = {"answers", "all"};
    if (own->loss_on && option_choice("loss-on", own->loss_on, counted, 2) < 0) return EXIT_USAGE;
    int status = bad_sample_check(own->bad, &own->skip_bad);
    if (status == EXIT_DONE) status = lora_check(own->lora, &own->adapter);
    kn_augmentation unused;
    if (status == EXIT_DONE) status = train_augment_check(own->augment, &unused);
    if (status == EXIT_DONE) status = checkpoints_check(own, checkpoints);
    if (status != EXIT_DONE) return status;
    if (own->resume && own->init && !train_resumes_by_itself(own))
        return command_misuse("--resume loads the weights: omit --init");
    if (own->outputs.run && (own->outputs.save || own->outputs.log || own->outputs.report))
        return command_misuse("--run names the files of model, log and report: omit --%s",
                              own->outputs.save  ? "save"
                              : own->outputs.log ? "log"
                                                 : "report");
    if (own->resume && path_is_onnx(own->resume))
        return command_misuse("--resume has an ONNX file, which has weights but no training state: name it "
                              "as the model, or resume from one of --checkpoints");
    if (own->adapter.given && own->outputs.save && path_is_onnx(own->outputs.save))
        return command_misuse(
            "--lora saves adapters, which ONNX files do not have: --save needs a folder, or a "
            ".safetensors or .gguf file");
    if (option_choice("batch-norm", own->batch_norm, bn_words, BN_WORDS) < 0) return EXIT_USAGE;
    if (own->oversample && (own->no_shuffle || own->in_sequence))
        return command_misuse(
            "--oversample draws samples at random, but %s keeps their order: omit one of them",
            own->in_sequence ? "--in-sequence" : "--no-shuffle");
    if (own->in_sequence && own->validation > 0)
        return command_misuse("--validation draws samples at random, which leaves no neighbours for "
                              "--in-sequence: omit one of them");
    status = settings_check(own->set);
    if (status != EXIT_DONE) return status;
    return config_check(&own->config,
                        own->epochs != UINT64_MAX || own->steps != UINT64_MAX || isnan(own->seconds));
}

/* Absent options are UINT64_MAX or NaN, to distinguish them from an explicit 0. */
static void settle(train_options *own) {
    bool endless = own->epochs == UINT64_MAX && own->steps == UINT64_MAX && isnan(own->seconds);
    if (own->epochs == UINT64_MAX) own->epochs = endless ? 10 : 0;
    if (own->steps == UINT64_MAX) own->steps = 0;
    if (isnan(own->seconds)) own->seconds = 0;
    if (own->batch == UINT64_MAX) own->batch = own->adapter.given ? LORA_BATCH : BATCH;
    own->unvalidated = own->validation == 0;
    if (isnan(own->validation)) own->validation = 0;
    own->drop_last = own->drop_last || own->in_sequence;
    if (own->check) { /* the full learning rate, and an update in each step */
        own->config.cosine = false;
        own->config.params.schedule = KN_SCHEDULE_CONSTANT;
        own->config.params.warmup_steps = 0;
        own->config.params.accumulate = 1;
        own->config.params.average = 0;
        own->config.params.sync_every = 0;
    }
}

static int run(int count, char **arguments) {
    train_options own = {.epochs = UINT64_MAX,
                         .steps = UINT64_MAX,
                         .batch = UINT64_MAX,
                         .seconds = NAN,
                         .validation = NAN,
                         .validate_samples = UINT64_MAX,
                         .seed = 1,
                         .outputs.keep = UINT64_MAX,
                         .crew.shards = UINT64_MAX,
                         .crew.timeout = 600,
                         .batch_norm = "batch"};
    train_checkpoints checkpoints = {.files = NULL};
    const option head[] = {
        HEADING("data"),
        {"data", OPTION_TEXT, "DATA", "training data, such as digits or text:FILE; see koine datasets",
         &own.data},
        {"validation", OPTION_NUMBER, "F",
         "fraction of the data to set aside for validation (the data's test part); 0: do not validate",
         &own.validation},
        {"validate-samples", OPTION_COUNT, "N",
         "validate on at most N samples, drawn evenly from all classes (all)", &own.validate_samples},
        {"augment", OPTION_TEXT, "LIST",
         "random changes of the training samples, see above; none: ignore the model's `augment` line",
         &own.augment},
        {"class-weights", OPTION_TEXT, "HOW",
         "balanced: weight the loss of each class by its rarity, in validation too (none)",
         &own.class_weights},
        {"oversample", OPTION_FLAG, NULL, "draw samples of all classes equally often", &own.oversample},
        {"no-shuffle", OPTION_FLAG, NULL, "keep the order of the samples", &own.no_shuffle},
        {"drop-last", OPTION_FLAG, NULL, "drop an incomplete last batch", &own.drop_last},
        {"in-sequence", OPTION_FLAG, NULL,
         "continue each sample in the next batch, for stateful layers; implies --drop-last, no shuffling",
         &own.in_sequence},
        {"workers", OPTION_COUNT, "N", "threads that prepare batches, at most 16 (automatic)", &own.workers},
        BAD_SAMPLE_OPTION(own.bad),
        CACHE_OPTION(own.cache),
        HEADING("model"),
        {"loss", OPTION_TEXT, "NAME",
         "cross-entropy, mse, huber …, see koine models --grammar (the model's own)", &own.loss},
        {"batch-norm", OPTION_TEXT, "MODE",
         "batch: statistics of the batch; frozen: running statistics, which do not change (batch)",
         &own.batch_norm},
        SET_OPTION(own.set),
        LORA_OPTION(own.lora),
        {"length", OPTION_COUNT, "N",
         "tokens per sample of a language model (its own, at most 2048; at most 512 with --lora)",
         &own.length},
        {"loss-on", OPTION_TEXT, "WHICH",
         "answers, or all: tokens of chat: and jsonl: that the loss covers (answers)", &own.loss_on},
        {"init", OPTION_TEXT, "FILE", "initialize matching weights from a saved model", &own.init},
        HEADING("training"),
        {"epochs", OPTION_COUNT, "N", "passes over the data (10, unless --steps or --seconds is given)",
         &own.epochs},
        {"steps", OPTION_COUNT, "N", "stop after N batches, including those before --resume", &own.steps},
        {"seconds", OPTION_NUMBER, "S", "stop after S seconds", &own.seconds},
        {"batch", OPTION_COUNT, "N", "samples per step (64; 8 with --lora)", &own.batch},
        {"seed", OPTION_COUNT, "N", "random seed for weights, data order and dropout (1)", &own.seed},
        {"patience", OPTION_COUNT, "N",
         "stop after N epochs without a lower validation loss, and save the best epoch", &own.patience},
        {"check", OPTION_FLAG, NULL,
         "overfit one batch and inspect the gradients; reports whether training can succeed", &own.check},
        {"find-nan", OPTION_FLAG, NULL, "if a loss is not finite, name the operator that caused it",
         &own.find_nan},
        {.name = NULL}};
    const option lists[] = {
        {"groups", OPTION_TEXT, "GROUPS",
         "settings of some parameters: 'PATTERN:lr=0.1,decay=0;PATTERN:frozen'; lr is a factor",
         &own.config.groups},
        {"freeze", OPTION_TEXT, "PATTERNS",
         "do not train these parameters: comma-separated names with * and ?", &own.config.freeze},
        {.name = NULL}};
    const option milestones[] = {{"milestones", OPTION_TEXT, "N,N,...",
                                  "updates at which the rate is reduced", &own.config.milestones},
                                 {.name = NULL}};
    const option body[] = {
        HEADING("output"),
        {"save", OPTION_TEXT, "FILE",
         "the saved model; with --lora also a folder for PEFT, or a GGUF file (the file of --resume, else "
         "MODEL.safetensors, or MODEL-2.safetensors … if that "
         "exists)",
         &own.outputs.save},
        {"run", OPTION_TEXT, "DIR", "folder for model, log, report and options; created if missing",
         &own.outputs.run},
        {"config", OPTION_TEXT, "FILE",
         "read options from a file such as options.txt of --run; the command line takes precedence",
         &own.file},
        {"log", OPTION_TEXT, "FILE", "write a JSON object per step and one at the end; --resume appends",
         &own.outputs.log},
        {"report", OPTION_TEXT, "FILE.html", "self-contained page with curves, mistakes, times and the plan",
         &own.outputs.report},
        {"tensorboard", OPTION_TEXT, "DIR", "event files for TensorBoard: losses, rates, weights, filters",
         &own.outputs.tensorboard},
        TRACE_OPTION(own.outputs.trace),
        OVERWRITE_OPTION(own.common),
        HEADING("checkpoints"),
        {"checkpoints", OPTION_TEXT, "DIR", "folder for training states: the newest ones and the best",
         &own.outputs.checkpoints},
        {"checkpoint-every", OPTION_TEXT, "N", "number of steps, or a time such as 30s or 10m (each epoch)",
         &own.outputs.every},
        {"keep", OPTION_COUNT, "N", "number of newest checkpoints to keep, besides the best (3)",
         &own.outputs.keep},
        {"resume", OPTION_TEXT, "FILE",
         "resume a saved training run, bit for bit; auto: from the last of --checkpoints, if any",
         &own.resume},
        HEADING("device"),
        {"memory", OPTION_BYTES, "BYTES", "limit of device memory, such as 2GB (all of it)", &own.memory},
        RECOMPUTE_OPTION(own.common),
        MATH_OPTIONS(own.common),
        PIN_OPTION(own.common),
        COMMON_DEVICE_OPTIONS(own.common),
        HEADING("several devices or processes"),
        {"devices", OPTION_TEXT, "LIST", "train on several devices, such as gpu:0,gpu:1,cpu, or all",
         &own.crew.devices},
        {"shards", OPTION_COUNT, "N",
         "parts of each batch, a power of two: the same bits for any number of devices", &own.crew.shards},
        {"shard-counts", OPTION_TEXT, "N,N,…",
         "number of shards per device, of all processes (as in the file of --resume, or by speed)",
         &own.crew.dealt},
        {"timeout", OPTION_NUMBER, "S", "stop if a device or process is silent for S seconds (600; 0: never)",
         &own.crew.timeout},
        {"all-reduce", OPTION_TEXT, "HOW",
         "tree: add gradients in the order of the shards; mpi: by MPI_Allreduce, whose bits depend on the "
         "number of processes (tree)",
         &own.crew.sum_word},
        {.name = NULL}};
    const option messages[] = {MESSAGE_OPTIONS(own.common), {.name = NULL}};
    option options[OPTIONS_MOST];
    size_t rows = 0;
    options_add(options, &rows, head);
    options[rows++] = (option)HEADING("optimizer");
    rows += config_rows(&own.config, KN_SETTING_GROUP_OPTIMIZER, options + rows);
    options_add(options, &rows, lists);
    options[rows++] = (option)HEADING("learning rate schedule");
    rows += config_rows(&own.config, KN_SETTING_GROUP_SCHEDULE, options + rows);
    options_add(options, &rows, milestones);
    options_add(options, &rows, body);
    rows += config_rows(&own.config, KN_SETTING_GROUP_WORKERS, options + rows);
    options_add(options, &rows, messages);
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_train, options, count, arguments, words, &word_count, 1, &status))
        return status;
    const char *model = word_count ? words[0] : train_resumes_by_itself(&own) ? NULL : own.resume;
    if (!model && !own.resume)
        return command_misuse("train needs a model: a name such as lenet, a text model, or a saved file");
    if (!own.data) return command_misuse("train needs --data, such as --data digits");
    /* Train weights from other programs exactly as the command line says. */
    own.config.constant = model && path_is_onnx(model);
    if ((status = check_numbers(&own)) || (status = check_words(&own, &checkpoints)) ||
        (status = math_options_check(&own.common)) || (status = pin_option_check(&own.common)) ||
        (status = workers_check(&own)))
        return status;
    settle(&own);
    own.arguments = arguments;
    own.argument_count = count;
    return train_with_options(&own, model, &checkpoints);
}

const command command_train = {
    "train",
    "train a model on a dataset and save it",
    "MODEL --data DATA [--OPTION …]",
    "data epochs batch lr check save run resume device",
    "koine train lenet --data digits --epochs 2\n"
    "koine train lenet --data digits --epochs 4 --resume lenet.safetensors\n"
    "koine train lenet --data digits --check\n"
    "koine train lenet --data digits --lr 0.002 --run runs/faster\n"
    "koine train --config runs/faster/options.txt --run runs/repeated\n"
    "koine train cifar-cnn --data images:photos --augment flip,crop=4,cutout=8 --report report.html\n"
    "koine train lenet --data images:letters --init lenet.safetensors --freeze 'conv*' --save "
    "letters.safetensors\n"
    "koine train mlp,width=64 --data npy:xs.npy,ys.npy --validation 0.1 --patience 5\n"
    "koine train unet,size=64 --data figures --steps 200 --batch 4\n"
    "koine train table --data csv:wind.csv,target=speed --validation 0.1\n"
    "koine train char-rnn --data text:book.txt --steps 2500 --batch 32\n"
    "koine train net.onnx --data npy:xs.npy,ys.npy --save trained.onnx\n"
    "koine train smollm2.gguf --data text:poems.txt --lora rank=16,alpha=32 --lr 2e-4 --save poems\n"
    "koine train smollm2.gguf --data chat:talk.jsonl --lora rank=16 --epochs 2",
    "MODEL is a name (koine models lists them), a text model, a saved model, whose training continues with\n"
    "its weights, an ONNX file (koine plan --parameters lists its trainable weights), or a Caffe net,\n"
    "deploy.prototxt, with --init net.caffemodel. Sizes follow a name: lenet,classes=26.\n"
    "\n"
    "DATA is a source (koine datasets describes them): Koine generates digits, shapes, figures, wind, text\n"
    "and tones, and reads images:DIR, wav:DIR, csv:FILE,target=COLUMN, text:FILE, cifar10:DIR, idx:DIR,\n"
    "npy:X.npy,Y.npy and npz:FILE. Generated images are enlarged to the model's input size. unet classifies\n"
    "pixels, as in figures; table and table-classes read csv:FILE; gpt and char-rnn read text; keyword "
    "reads\n"
    "sounds.\n"
    "\n"
    "Learning rate schedules, all after the warm-up, in updates:\n"
    "\n"
    "  constant           unchanged\n"
    "  step               times --step-factor every --step-every updates\n"
    "  multi-step         times --step-factor at each of --milestones\n"
    "  exponential        times --step-factor over --step-every updates, smoothly\n"
    "  cosine             half a cosine down to --lr-end times the rate at the end\n"
    "  cosine-restarts    cosines of --restart-every updates, each --restart-factor times as long as the "
    "last\n"
    "  one-cycle          up for the fraction --cycle-rise, from 1 / --cycle-divisor of the rate, then down\n"
    "  polynomial         down to --lr-end times the rate, by the power --power of the remaining fraction\n"
    "  plateau            times --step-factor if the validation loss did not fall for --plateau-patience "
    "epochs\n"
    "\n"
    "--augment changes training samples, never validation samples, at random by --seed. Its value is a\n"
    "comma-separated list of the following; a model's text may have the same list in a line `augment`:\n"
    "\n"
    "  flip               mirror left to right, with probability 1/2\n"
    "  crop=N shift=N     move images by up to N pixels, sounds by N samples; zeros are shifted in\n"
    "  rotate=DEGREES scale=S shear=DEGREES    about the centre, by up to this much\n"
    "  brightness=B contrast=C saturation=S hue=DEGREES\n"
    "  cutout=N           set a square of N pixels to 0\n"
    "  noise=N            add noise with this standard deviation\n"
    "  mix-up=A           mix each sample and its class with another one of the batch, in a ratio from "
    "Beta(A,A)\n"
    "  cut-mix=A          the same with a rectangle; with both, each is used for half of the batches\n"
    "\n"
    "--lora adds adapters to a language model or any other model: the result y of a linear layer becomes\n"
    "y + alpha/rank * (x A^T) B^T, and only A and B are trained and saved. targets=attn_q,attn_v selects\n"
    "layers by the last parts of their names, with * and ?; all: all except those that make outputs. rslora\n"
    "scales by alpha/sqrt(rank).\n"
    "\n"
    "--devices splits each batch among several devices; --shards 16 gives the same bits for any number of\n"
    "them. mpirun -n N koine train … trains with N processes, which share the --devices of a machine. On\n"
    "slow links, --sync-every 100 averages the weights of the devices every 100 local steps, which gives a\n"
    "different result.\n"
    "\n"
    "--device auto times a few steps on each device, including transfers, and selects the fastest.\n"
    "\n"
    "The saved model contains its text, its weights and the state that --resume needs. Ctrl-C finishes the\n"
    "step, saves, and prints how to resume. Existing files are not replaced: without --save the model gets\n"
    "a free name, which is printed at the end; named files need --overwrite, or --resume of the same\n"
    "training run. --run writes all options to DIR/options.txt; --config reads such a file, and options on\n"
    "the command line take precedence over it.",
    run};
