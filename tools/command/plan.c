/* koine plan: shows the plan for running a model, without allocating memory for it. */
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "bench.h"
#include "infer.h"
#include "plan_draw.h"
#include "training.h"

enum { RANKS_MOST = 1024 };
typedef struct plan_run {
    common_options common;
    training_setup setup;
    kn_context *context;
    kn_trainer *trainer; /* either a trainer or a session */
    kn_session *session;
    kn_plan_info info;
    bool training, measure, dot, svg;
    const char *programs; /* the output folder */
    const char *why;      /* the node whose kernels are explained; NULL: none */
    char switches[160];
    kn_trainer_params how;
    uint64_t batch, memory;
    uint64_t ranks;  /* UINT64_MAX: not given */
    kn_group *group; /* with --ranks: a communicator that exchanges nothing */
} plan_run;

static kn_status plan_batch(void *user, int64_t batch, uint64_t *bytes) {
    plan_run *run = user;
    kn_status status;
    run->info = (kn_plan_info){.size = sizeof run->info};
    if (run->training) {
        status = kn_trainer_compile(run->trainer, batch);
        if (status == KN_OK) status = kn_trainer_plan(run->trainer, &run->info);
    } else {
        status = batch_plan_session(run->session, batch, NULL, 0, &run->info);
    }
    *bytes = run->info.own_peak_bytes;
    return status;
}

static const char *plan_error(void *user) {
    const plan_run *run = user;
    return run->training ? kn_trainer_error(run->trainer) : kn_session_error(run->session);
}

static bool open_planned(plan_run *run) {
    kn_status status;
    if (run->training) {
        kn_trainer_params params = run->how;
        params.communicator = kn_group_communicator(run->group, 0);
        kn_session_params session = KN_SESSION_DEFAULTS;
        arithmetic_apply(&run->common.arithmetic, &session);
        session.memory_bytes = run->memory;
        session.switches = run->switches;
        params.session = &session;
        run->trainer = kn_trainer_create(run->context, run->setup.loss.value, &params);
        status = kn_trainer_status(run->trainer);
    } else {
        size_t count;
        kn_value **outputs = batch_outputs(run->setup.model, &count);
        if (!outputs) return false;
        run->session =
            batch_session(run->context, outputs, count, NULL, &run->common.arithmetic, run->switches);
        status = kn_session_status(run->session);
        free(outputs);
    }
    if (status != KN_OK) command_fail("%s", plan_error(run));
    return status == KN_OK;
}

static void print_json(const plan_run *run, int64_t batch) {
    const kn_plan_info *info = &run->info;
    const struct {
        const char *name;
        uint64_t number;
    } fields[] = {{"peak_bytes", info->peak_bytes},
                  {"state_bytes", info->state_bytes},
                  {"scratch_bytes", info->scratch_bytes},
                  {"scratch_bound_bytes", info->scratch_bound_bytes},
                  {"kept_bytes", info->kept_bytes},
                  {"device_bytes", kn_context_capabilities(run->context)->memory_bytes},
                  {"steps", (uint64_t)info->steps},
                  {"kernels", (uint64_t)info->kernels},
                  {"conversions", (uint64_t)info->conversions},
                  {"devices", (uint64_t)info->devices},
                  {"transfers", (uint64_t)info->transfers},
                  {"transfer_bytes", info->transfer_bytes},
                  {"recomputed", (uint64_t)info->recomputed},
                  {"moment_bytes", info->moment_bytes},
                  {"exchange_bytes", info->exchange_bytes},
                  {"host_bytes", info->host_bytes},
                  {"staging_bytes", info->staging_bytes}};
    printf("{\"model\": ");
    json_text(stdout, kn_model_name(run->setup.model));
    printf(", \"mode\": \"%s\", \"math\": \"%s\", \"batch\": %lld, \"device\": ",
           run->training ? "train" : "infer", run->common.arithmetic.exact ? "exact" : "fast",
           (long long)batch);
    json_text(stdout, kn_context_device(run->context)->name);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        printf(", \"%s\": ", fields[i].name);
        json_count(stdout, fields[i].number);
    }
    printf(", \"gflop\": ");
    json_measure(stdout, info->flops * 1e-9);
}

static bool print_plan(const plan_run *run) {
    char *text = run->training ? kn_trainer_plan_text(run->trainer) : kn_session_plan_text(run->session);
    const bool any = text && *text;
    if (text) fputs(text, stdout);
    if (run->training)
        kn_trainer_free_text(run->trainer, text);
    else
        kn_session_free_text(run->session, text);
    return any;
}

static void print_text(const plan_run *run) {
    char peak[32], all[32];
    print_plan(run);
    printf("  %s of %s of memory\n", bytes_text((double)run->info.own_peak_bytes, peak, sizeof peak),
           bytes_text((double)kn_context_capabilities(run->context)->memory_bytes, all, sizeof all));
}

/* Draws the steps. */
static int draw(plan_run *run) {
    size_t count = (size_t)run->info.steps;
    kn_plan_step *steps = calloc(count + 1, sizeof *steps);
    kn_status status = steps ? KN_OK : KN_ERROR_MEMORY;
    for (size_t i = 0; status == KN_OK && i < count; i++) {
        steps[i].size = sizeof *steps;
        status = run->training ? kn_trainer_plan_step_at(run->trainer, (int)i, &steps[i])
                               : kn_session_plan_step_at(run->session, (int)i, &steps[i]);
    }
    bool drawn = status == KN_OK;
    if (drawn && run->dot)
        plan_dot(steps, (int)count);
    else if (drawn)
        drawn = plan_svg(steps, (int)count);
    free(steps);
    return drawn ? EXIT_DONE : command_fail("the plan cannot be drawn: %s", kn_status_message(status));
}

/* Writes the programs and launches. */
static bool write_programs(plan_run *run) {
    if (!run->programs) return true;
    kn_status status = run->training ? kn_trainer_write_programs(run->trainer, run->programs)
                                     : kn_session_write_programs(run->session, run->programs);
    return status == KN_OK || command_error("%s", plan_error(run));
}

/* Destroy the planned context first, so that the device holds only one. */
static int measure(plan_run *run, const char *name, const char *set, int64_t batch) {
    bench_options options = {.common = run->common,
                             .training = run->training,
                             .batch = (uint64_t)batch,
                             .set = set,
                             .optimizer = &run->how.optimizer,
                             .moments = run->how.moments};
    options.common.timeline = true;
    kn_trainer_destroy(&run->trainer);
    kn_session_destroy(&run->session);
    kn_context_destroy(&run->context);
    fflush(stdout);
    return bench_model_steps(name, &options);
}

/* Nothing is fed, so all sizes must be numbers. */
static bool settle_batch(plan_run *run) {
    const int64_t fixed = setup_fixed_batch(&run->setup);
    if (run->batch == UINT64_MAX) run->batch = fixed > 0 ? (uint64_t)fixed : 64;
    return setup_batch_fits(&run->setup, run->batch) && setup_sizes_known(&run->setup);
}

static int show(plan_run *run, const char *name, const char *set) {
    batch_plans plans = {.allowed = run->memory, .user = run, .plan = plan_batch, .error = plan_error};
    int64_t batch = (int64_t)run->batch;
    if (!open_planned(run) || !batch_fit(run->context, &plans, "this is the plan of", &batch))
        return EXIT_FAILED;
    print_compile_time(run->context);
    progress_clear();
    if (!write_programs(run)) return EXIT_FAILED;
    if (run->dot || run->svg) return draw(run);
    if (run->why)
        return print_plan(run)
                   ? EXIT_DONE
                   : command_fail("no node with a choice of kernels is named '%s'; koine plan lists "
                                  "the nodes of all steps",
                                  run->why);
    if (run->common.json)
        print_json(run, batch);
    else
        print_text(run);
    int status = run->measure ? measure(run, name, set, batch) : EXIT_DONE;
    if (run->common.json) puts("}");
    return status;
}

/* ---- trained weights ------------------------------------------------------------------------------ */

static void print_weight_json(const kn_model_weight *weight) {
    printf("{\"name\": ");
    json_text(stdout, weight->name);
    printf(", \"type\": \"%s\", \"shape\": \"%s\", \"elements\": ", weight->type, weight->shape);
    json_count(stdout, weight->elements);
    printf(", \"trained\": %s, \"why\": ", weight->trained ? "true" : "false");
    json_text(stdout, weight->reason);
    printf(", \"rule\": ");
    json_text(stdout, weight->rule);
    puts("}");
}

static int show_parameters(const kn_model *model, bool json) {
    unsigned long long trained = 0, all = 0;
    int count = kn_model_weight_count(model), width = 0;
    kn_model_weight weight = KN_MODEL_WEIGHT_DEFAULTS;
    for (int i = 0; i < count && kn_model_weight_at(model, i, &weight); i++) {
        int length = (int)strlen(weight.name);
        width = length > width && length <= 60 ? length : width;
    }
    for (int i = 0; i < count && kn_model_weight_at(model, i, &weight); i++) {
        all += weight.elements;
        trained += weight.trained ? weight.elements : 0;
        if (json)
            print_weight_json(&weight);
        else
            printf("%-*s  %-8s (%s)  %s%s%s\n", width, weight.name, weight.type, weight.shape,
                   weight.trained ? "trained" : "not trained", weight.reason[0] || weight.rule[0] ? ": " : "",
                   weight.trained ? weight.rule : weight.reason);
    }
    if (!json) printf("%llu of %llu numbers are trained\n", trained, all);
    return EXIT_DONE;
}

/* ---- the command line ----------------------------------------------------------------------------- */

static bool programs_writable(const char *folder, bool replace) {
    char path[4096];
    if (!folder_writable(folder)) return false;
    if (snprintf(path, sizeof path, "%s/launches.jsonl", folder) >= (int)sizeof path)
        return command_error("'%.60s…' is too long a name for a folder", folder);
    return !path_there(path) || path_writable(path, PATH_WHOLE, replace);
}

static int check_ranks(const plan_run *run, bool training) {
    if (run->how.shard_optimizer && run->ranks == UINT64_MAX)
        return command_misuse("--shard-optimizer needs --ranks");
    if (run->ranks == UINT64_MAX) return EXIT_DONE;
    if (run->ranks < 2 || run->ranks > RANKS_MOST)
        return command_misuse("--ranks is %llu; expected 2 to %d", (unsigned long long)run->ranks,
                              RANKS_MOST);
    if (!training || run->measure || run->common.pin)
        return command_misuse("--ranks and %s exclude each other", !training      ? "--mode infer"
                                                                   : run->measure ? "--measure"
                                                                                  : "--pin");
    return EXIT_DONE;
}

/* The communicator of --ranks, which plans a single rank. */
static bool open_group(plan_run *run) {
    if (run->ranks == UINT64_MAX) return true;
    return kn_group_create((int)run->ranks, NULL, &run->group) == KN_OK || command_error("out of memory");
}

static int run(int count, char **arguments) {
    static const char *const modes[] = {"train", "infer"};
    plan_run run = {.batch = UINT64_MAX, .ranks = UINT64_MAX, .how = KN_TRAINER_DEFAULTS};
    const char *mode = "train", *optimizer = "adam", *moments = "float32", *set = NULL, *lora = NULL;
    uint64_t length = 0;
    lora_options adapter = {.given = false};
    bool parameters = false, sharded = false, offload = false;
    const option options[] = {
        HEADING("model"),
        {"batch", OPTION_COUNT, "N", "samples at a time (64)", &run.batch},
        {"mode", OPTION_TEXT, "MODE", "train or infer (train)", &mode},
        {"optimizer", OPTION_TEXT, "NAME", "optimizer of koine train (adam)", &optimizer},
        {"optimizer-dtype", OPTION_TEXT, "TYPE",
         "store the optimizer state as float32, bfloat16 or 8bit (float32)", &moments},
        {"offload-optimizer", OPTION_FLAG, NULL, "keep the optimizer state in host memory between updates",
         &offload},
        {"ranks", OPTION_COUNT, "N", "plan of the first of N devices or processes that share each batch",
         &run.ranks},
        {"shard-optimizer", OPTION_FLAG, NULL, "with --ranks: split the optimizer state among them",
         &sharded},
        SET_OPTION(set),
        {"input", OPTION_TEXT, "FILE",
         "safetensors file with inputs of an ONNX file, for the sizes that it leaves open", &run.setup.input},
        LORA_OPTION(lora),
        {"length", OPTION_COUNT, "N", "tokens per sample of a language model (the model's, at most 2048)",
         &length},
        HEADING("output"),
        {"measure", OPTION_FLAG, NULL, "run the plan, and print the time of each step", &run.measure},
        {"parameters", OPTION_FLAG, NULL,
         "list the weights instead: which are trained, and why others are not", &parameters},
        {"why", OPTION_TEXT, "NODE",
         "explain instead why this node uses its kernels, and what else it could use", &run.why},
        {"dot", OPTION_FLAG, NULL, "print the graph of the steps for Graphviz", &run.dot},
        {"svg", OPTION_FLAG, NULL, "print it as an SVG image", &run.svg},
        {"programs", OPTION_TEXT, "DIR", "also write the OpenCL programs and their launches into a folder",
         &run.programs},
        OVERWRITE_OPTION(run.common),
        HEADING("device"),
        {"target", OPTION_TEXT, "FILE",
         "plan for the device that a file describes, which need not be present", &run.common.target},
        {"memory", OPTION_BYTES, "BYTES", "limit of device memory, such as 2GB (all of it)", &run.memory},
        RECOMPUTE_OPTION(run.common),
        PIN_OPTION(run.common),
        MATH_OPTIONS(run.common),
        ACTIVATIONS_OPTION(run.common),
        KERNEL_OPTIONS(run.common),
        COMMON_OPTIONS(run.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_plan, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if ((status = kernel_options_check(&run.common)) != EXIT_DONE ||
        (status = math_options_check(&run.common)) != EXIT_DONE ||
        (status = settings_check(set)) != EXIT_DONE || (status = lora_check(lora, &adapter)) != EXIT_DONE ||
        (status = pin_option_check(&run.common)) != EXIT_DONE)
        return status;
    if (length > INT32_MAX)
        return command_misuse("--length is %llu; expected at most %d", (unsigned long long)length, INT32_MAX);
    if (!word_count)
        return command_misuse("plan needs a model: a name such as lenet, a text model, or a saved file");
    if (run.batch != UINT64_MAX && (!run.batch || run.batch > INT32_MAX))
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)run.batch, INT32_MAX);
    int chosen = option_choice("mode", mode, modes, 2);
    if (chosen < 0) return EXIT_USAGE;
    if ((status = setting_take(&run.how, "optimizer", "optimizer", optimizer)) ||
        (status = setting_take(&run.how, "optimizer-dtype", "moments", moments)))
        return status;
    run.how.offload_optimizer = offload;
    run.how.shard_optimizer = sharded;
    if ((status = check_ranks(&run, chosen == 0)) != EXIT_DONE) return status;
    if (run.dot + run.svg + ((run.dot || run.svg) && (run.measure || run.common.json)) > 1)
        return command_misuse("give one of --dot, --svg%s", run.measure ? " and --measure" : " and --json");
    if (run.common.target && (run.measure || run.common.pin || run.common.device))
        return command_misuse("--target and %s exclude each other: the file describes the device",
                              run.measure      ? "--measure"
                              : run.common.pin ? "--pin"
                                               : "--device");
    if (run.setup.input && !path_is_onnx(words[0])) return command_misuse("--input is for ONNX files");
    if (run.why && (run.measure || run.dot || run.svg || run.common.json))
        return command_misuse("--why excludes --measure, --dot, --svg and --json");
    if (run.why && (!*run.why || strchr(run.why, ',') ||
                    snprintf(run.switches, sizeof run.switches, "programs=none,why=%s", run.why) >=
                        (int)sizeof run.switches))
        return command_misuse("--why '%.60s' is not the name of a node", run.why);
    if (!run.why) snprintf(run.switches, sizeof run.switches, "programs=none");
    if (run.programs && !programs_writable(run.programs, run.common.overwrite)) return EXIT_FAILED;
    run.training = chosen == 0;
    status = EXIT_FAILED;
    progress_setup(&run.common);
    run.setup.lora = adapter.given ? &adapter.params : NULL;
    if (length) run.setup.settings[run.setup.setting_count++] = (kn_model_setting){"window", (int64_t)length};
    bool opened = setup_settings(&run.setup, set);
    run.setup.batch = run.batch == UINT64_MAX ? 64 : (int64_t)run.batch;
    run.setup.any_sizes = parameters;
    if ((!run.training || parameters) && path_is_onnx(words[0])) /* no loss may match its outputs */
        opened = opened && setup_bare_model(&run.setup, words[0]);
    else
        opened = opened && setup_model(&run.setup, words[0], NULL);
    if (opened && parameters)
        status = show_parameters(run.setup.model, run.common.json);
    else if (opened && settle_batch(&run) && open_group(&run) && (run.context = context_open(&run.common)) &&
             devices_join(run.context, &run.common, run.setup.model))
        status = show(&run, words[0], set);
    kn_trainer_destroy(&run.trainer);
    kn_session_destroy(&run.session);
    kn_group_destroy(&run.group);
    setup_finish(&run.setup);
    kn_context_destroy(&run.context);
    return status;
}

const command command_plan = {
    "plan",
    "show the steps, kernels and memory of a model",
    "MODEL [--batch N] [--mode train|infer] [--OPTION …]",
    "batch mode measure parameters svg memory target device",
    "koine plan lenet --batch 64\n"
    "koine plan lenet --mode infer --measure\n"
    "koine plan lenet --svg > plan.svg\n"
    "koine plan net.onnx --parameters\n"
    "koine plan resnet50 --batch 32 --memory 2GB\n"
    "koine plan smollm2.gguf --lora rank=16 --length 512 --batch 4\n"
    "koine plan resnet50 --batch 128 --optimizer adamw --ranks 4 --shard-optimizer\n"
    "koine plan resnet50 --batch 32 --target gfx1100.target --programs programs\n"
    "koine plan lenet --pin 'linear*=cpu,logits=cpu'",
    "Prints each step of a run with its kernel, shapes and work, and the peak memory. Allocates nothing on\n"
    "the device, unless --measure runs the plan; then it prints time, GFLOP/s, GB/s and the fraction of the\n"
    "device's limit for each step. Work is counted by the direct methods, and each byte once. If the batch\n"
    "does not fit into the device's memory or --memory, activations are recomputed; if that is not enough,\n"
    "prints the plan of the largest batch that fits. --pin adds the steps of each device and the transfers\n"
    "between devices; --ranks shows the steps of the first of several workers, and the memory per worker.\n"
    "\n"
    "--target plans for a device that a text file describes (docs/targets.md); it need not be present. The\n"
    "plan assumes that every kernel works there, and uses the default choice of kernels.",
    run};
