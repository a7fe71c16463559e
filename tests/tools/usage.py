"""The command line of koine: help, mistakes (status 2), failures (status 1) and their messages.

usage: usage.py KOINE HOUSE_TESTS
"""
import functools
import os
import re
import shutil
import subprocess

from koine import CLASSES, SAMPLES, TINY, add, bytes_of, case, expect, koine, numbers_of, problem, read_safetensors, run_cases, train, write
from koine import write_npy

COMMANDS = ("devices", "doctor", "train", "eval", "infer", "generate", "serve", "convert", "plan", "bench", "bench-gemm",
            "bench-operators", "bench-crossover", "bench-plan", "tune", "verify", "report", "models", "datasets", "tokens", "version")
TRAIN_OPTIONS = ("device epochs steps seconds batch validation optimizer lr momentum weight-decay schedule clip seed "
                 "loss no-shuffle drop-last in-sequence patience ema accumulate groups amsgrad clip-value milestones init "
                 "log save resume find-nan memory json quiet help").split()

# ---- help


def help_of(command, folder):
    found = koine(command, "--help").needs(0, out=(f"usage: koine {command}", "--help", "  koine " + command), err="")
    expect("  -q, --quiet " in found.out, f"{command} has no --quiet")
    brief = koine(command, "-h").needs(0, out=(f"usage: koine {command}", f"koine {command} --help explains all"), err="").out
    lines = brief.splitlines()
    expect(len(lines) <= 25, f"{len(lines)} lines: {brief}")
    expect(lines[2].startswith("  koine "), f"examples do not come first: {brief}")
    expect(koine("help", command).out == found.out, "koine help COMMAND says something else")
    for columns, most in ((None, 80), ("60", 60), ("40", 60), ("1000", 100), ("no number", 80), ("-1", 80)):
        lines = koine(command, "--help", environment={"COLUMNS": columns} if columns else None).out.splitlines()
        long = [line for line in lines if len(line) > most]
        expect(not long, f"COLUMNS={columns}: longer than {most}: {long}")
        expect(columns != "1000" or max(map(len, lines)) > 80, "the room of the terminal is not used")


for name in COMMANDS:
    add(f"help of {name}", functools.partial(help_of, name))


@case
def help_of_all(folder):
    found = koine("--help").needs(0, out=COMMANDS, err="")
    expect(koine("help").out == found.out and koine("-h").out == found.out, "help and -h differ")
    koine().needs(2, out="", err=found.out)
    version = koine("--version").needs(0, out="koine ", err="").out
    expect(koine("-V").out == version, "-V and --version differ")
    found = koine("version", "--json").needs(0, err="").objects("version", "commit", "loader", "compiler", "options")[0]
    expect(version == f"koine {found['version']}\n" and "MPI" in found["options"], f"found {found}")
    koine("version").needs(0, out=("version   ", "commit    ", "loader    ", "options   "), err="")


@case
def help_of_train_names_its_options(folder):
    koine("train", "--help").needs(0, out=[f"--{option}" for option in TRAIN_OPTIONS])


@case
def help_has_options_in_groups(folder):
    groups = dict(re.findall(r"^([a-z ]+):\n((?:  .*\n)+)", koine("train", "--help").out, flags=re.M))
    for group, options in (("data", "data validation"), ("model", "loss set init"), ("training", "epochs batch check"),
                           ("optimizer", "optimizer lr clip freeze"), ("learning rate schedule", "schedule warmup"),
                           ("output", "save report overwrite"), ("checkpoints", "checkpoints resume"),
                           ("device", "memory pin device no-cache"), ("messages", "json quiet help")):
        for option in options.split():
            expect(f" --{option}" in groups.get(group, ""), f"--{option} is not in the group {group}: {groups.keys()}")
    page = koine("train", "--help=man").out
    expect(all(f".SS {group}\n" in page for group in groups if group not in ("options", "examples")), "the man page lacks a group")
    koine("train", "lenet", "--=1", "--data", "digits").needs(2, out="", err="train has no option --")


@case
def long_examples_in_the_help_go_on_as_a_shell_reads_them(folder):
    found = koine("train", "--help", environment={"COLUMNS": "50"}).out
    expect("--augment flip,crop=4,cutout=8 \\\n      --report report.html\n" in found, found)


def check_page(folder, page):
    """A man page in ASCII, with the sections that one has, lines that are filled, and nothing that groff warns of."""
    sections = re.findall(r"^\.SH (.*)$", page, flags=re.M)
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"):
        expect(section in sections, f"there is no section {section}: {sections}")
    expect(page.isascii(), f"not ASCII: {[line for line in page.splitlines() if not line.isascii()]}")
    expect(".SH DESCRIPTION\n.PP\n" in page, f"the description is not filled: {page}")
    expect(page.count(".nf\n") == page.count(".fi\n"), "a .nf without .fi")
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", write(folder, "page.1", page)], capture_output=True, text=True)
        expect(done.returncode == 0 and not done.stderr, f"groff: {done.stderr}")


@case
def completion_and_man_pages(folder):
    options = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", koine("train", "--help").out, flags=re.M)) - {"--help"}
    for shell in ("bash", "zsh", "fish"):
        script = koine("help", f"--shell={shell}").needs(0, out=COMMANDS, err="").out
        for option in options:
            expect((f"-l {option[2:]} " if shell == "fish" else option) in script, f"{shell} does not know {option}")
        interpreter = shutil.which(shell)
        if interpreter:
            path = write(folder, "script", script)
            done = subprocess.run([interpreter, "-n", path], capture_output=True, text=True)
            expect(done.returncode == 0 and not done.stderr, f"{shell}: {done.stderr}")
    for name in COMMANDS:
        told = re.findall(r"^  (?:-\w, )?(--[\w-]+)", koine(name, "--help").out, flags=re.M)
        expect(len(told) == len(set(told)), f"{name} tells an option twice: {told}")
        page = koine(name, "--help=man").needs(0, out=(".TH KOINE-" + name.upper(), ".SH OPTIONS"), err="").out
        expect(name != "train" or all(option.replace("-", "\\-") in page for option in options), "options are missing")
        check_page(folder, page)
    check_page(folder, koine("--help=man").out)
    expect(".BR koine\\-models (1)" in koine("train", "--help=man").out.partition(".SH SEE ALSO")[2], "models is not related")
    koine("--help=man").needs(0, out=(".TH KOINE 1", *(f".BR koine\\-{name} (1)" for name in COMMANDS)), err="")
    koine("help", "--shell=cmd").needs(2, out="", err="--shell is 'cmd'; expected bash, zsh or fish")
    koine("train", "--help=html").needs(2, out="", err="--help is 'html'; expected man")


@case
def help_wins_over_mistakes(folder):
    koine("train", "--epocs", "--help").needs(0, out="usage: koine train", err="")


# ---- command lines that make no sense: status 2, one line, nothing on standard output

MISTAKES = [
    ("trian", "did you mean 'train'"),
    ("frobnicate", "koine --help lists them"),
    ("help nothing", "there is no command 'nothing'"),
    ("train", "train needs a model"),
    ("train lenet", "--data digits"),
    ("train lenet more --data digits", "unexpected argument 'more'"),
    ("train lenet --data digits --epocs 2", "did you mean --epochs?"),
    ("train lenet --data digits --xyzzyxyzzy 2", "koine train --help lists them"),
    ("train lenet --data", "--data needs a value: --data DATA"),
    ("train lenet --data --epochs 2", "--data needs a value: --data DATA"),
    ("train lenet --data digits --quiet=yes", "--quiet takes no value"),
    ("train lenet --data digits --epochs two", "--epochs is 'two'; expected an integer of at least 0"),
    ("train lenet --data digits --epochs -1", "expected an integer"),
    ("train lenet --data digits --epochs 99999999999999999999", "expected an integer"),
    ("train lenet --data digits --epochs 0", "--epochs is 0; expected at least 1"),
    ("train lenet --data digits --steps 0", "--steps is 0; expected at least 1"),
    ("train lenet --data digits --seconds 0", "--seconds is 0; expected a number above 0"),
    ("train lenet --data digits --batch 0", "--batch is 0; expected 1 to"),
    ("train lenet --data digits --in-sequence --validation 0.1", "leaves no neighbours for --in-sequence"),
    ("train lenet --data digits --batch 4294967296", "--batch is 4294967296; expected 1 to"),
    ("train lenet --data digits --lr fast", "--lr is 'fast'; expected a number"),
    ("train lenet --data digits --lr nan", "--lr is 'nan'; expected a number"),
    ("train lenet --data digits --lr -1", "--lr is '-1'; expected a number of at least 0"),
    ("train lenet --data digits --optimizer sgd --momentum 1", "--momentum is '1'; expected a number of at least 0 and below 1"),
    # Lists of optimizers may grow at their ends.
    ("train lenet --data digits --momentum 0.5", "--momentum applies to --optimizer sgd"),
    ("train lenet --data digits --optimizer lion --epsilon 1", "--epsilon applies to --optimizer adam, adamw, "
     "rmsprop, adagrad, adadelta"),
    ("train lenet --data digits --optimizer lion --centered", "--centered applies to --optimizer rmsprop, but it is lion"),
    ("train lenet --data digits --optimizer rmsprop --beta2 1", "--beta2 is '1'; expected a number of at least 0 and below 1"),
    ("train lenet --data digits --ema 1", "--ema is '1'; expected a number of at least 0 and below 1"),
    ("train lenet --data digits --accumulate 0", "--accumulate is '0'; expected an integer of at least 1"),
    ("train lenet --data digits --schedule multi-step", "--schedule multi-step needs --milestones"),
    ("train lenet --data digits --schedule multi-step --milestones 3,2", "--milestones is '3,2'; expected"),
    ("train lenet --data digits --schedule step --step-every 2 --power 2",
     "--power applies to --schedule polynomial, but it is step"),
    ("train lenet --data digits --power 2", "--power applies to --schedule polynomial, but it is cosine"),
    ("train lenet --data digits --epochs 1 --milestones 3", "--milestones applies to --schedule multi-step, but it is cosine"),
    ("train lenet --data digits --schedule exponential", "--schedule exponential needs --step-every"),
    ("train lenet --data digits --schedule cosine-restarts", "needs --restart-every"),
    ("train lenet --data digits --schedule one-cycle --seconds 1", "give --epochs or --steps as well"),
    ("train lenet --data digits --groups conv1.*", "--groups is 'conv1.*'; expected PATTERN:WORDS"),
    ("train lenet --data digits --groups a:lr=x", "--groups is 'a:lr=x'; expected"),
    ("train lenet --data digits --optimizer sgd --momentum 0 --nesterov", "Nesterov momentum needs a momentum above 0"),
    ("train lenet --data digits --weight-decay -1", "--weight-decay is '-1'"),
    ("train lenet --data digits --clip -1", "--clip is '-1'"),
    ("train lenet --data digits --validation 1", "--validation is 1; expected a fraction"),
    ("train lenet --data digits --optimizer sdg", "--optimizer is 'sdg'; expected sgd, adam, adamw"),
    ("train lenet --data digits --schedule linear", "--schedule is 'linear'; expected constant, step, cosine"),
    ("train lenet --data digits --schedule step", "--schedule step needs --step-every N"),
    ("train lenet --data digits --schedule cosine --seconds 1", "give --epochs or --steps as well"),
    ("train lenet --data digits --math slow", "--math is 'slow'; expected exact or fast"),
    ("train lenet --data digits --loss mean", "expected cross-entropy, nll, mse, l1, huber"),
    ("train lenet --data digits --memory much", "--memory is 'much'; expected a number of bytes such as 512MB"),
    ("train lenet --data digits --memory 0", "--memory is '0'"),
    ("train lenet --data digits --resume a --init b", "omit --init"),
    ("eval", "eval needs a saved model"),
    ("eval a.safetensors", "--data digits"),
    ("eval a.safetensors --data digits --batch 0", "--batch is 0"),
    ("eval a.safetensors --data digits --loss x", "--loss is 'x'"),
    ("infer", "infer needs a saved model"),
    ("infer a.safetensors --output y.npy", "infer needs input"),
    ("infer a.safetensors x.npy --input y.npy", "--input is 'y.npy', but files follow the model as well"),
    ("infer a.safetensors x.npy --data digits", "--data and files exclude each other"),
    ("infer a.safetensors x.npy --limit 3", "--limit applies to --data"),
    ("train lenet --data digits -x", "train has no option -x; koine train --help lists them"),
    ("train lenet --data digits -b", "--batch needs a value: --batch N"),
    ("train lenet --data digits -b0", "--batch is 0; expected 1 to"),
    ("train lenet --data digits -epochs 2", "train has no option -epochs; did you mean --epochs?"),
    ("infer a.safetensors --input x.npy --format xml", "--format is 'xml'; expected text, json, csv or npy"),
    ("infer a.safetensors --input x --on-bad-sample pass", "fail or skip"),
    ("infer a.onnx x.npy --weights w.safetensors", "--weights is not for ONNX files"),
    ("infer a.safetensors --input x.npy --output y.npy --batch 0", "--batch is 0"),
    ("plan", "plan needs a model"),
    ("plan lenet --batch 0", "--batch is 0"),
    ("plan lenet --mode both", "--mode is 'both'; expected train or infer"),
    ("plan lenet --optimizer x", "--optimizer is 'x'"),
    ("plan lenet --kernels narrow", "--kernels is 'narrow'; expected gpu or cpu"),
    ("plan lenet --math slow", "--math is 'slow'; expected exact or fast"),
    ("plan lenet --activations int4", "--activations is 'int4'; expected float32 or int8"),
    ("bench", "bench needs a model"),
    ("bench lenet --math slow", "--math is 'slow'"),
    ("eval a.safetensors --data digits --math slow", "--math is 'slow'"),
    ("infer a.safetensors --input x.npy --output y.npy --math slow", "--math is 'slow'"),
    ("bench lenet --mode both", "--mode is 'both'"),
    ("bench lenet --seconds -1", "--seconds is -1; expected a number of at least 0"),
    ("bench lenet --batch 0", "--batch is 0; expected 1 to"),
    ("bench-plan --sizes 0", "--sizes is 0; expected 1 to 8"),
    ("bench-crossover lenet", "unexpected argument 'lenet'"),
    ("bench-crossover --operators relu", "expected some of matmul, conv2d, train"),
    ("bench-crossover --sizes 0", "--sizes is 0; expected 1 to"),
    ("bench-gemm --price 0", "--price is 0; expected a number above 0"),
    ("bench lenet --price 0", "--price is 0; expected a number above 0"),
    ("bench-gemm --m 0", "a size is 0; expected 1 to 32768"),
    ("bench-gemm --size 0", "a size is 0; expected 1 to 32768"),
    ("verify relu", "unexpected argument 'relu'"),
    ("devices all", "unexpected argument 'all'"),
    ("models --text", "--text needs a model"),
    ("models lenet --text --json", "exclude each other"),
]


def mistake(line, text, folder):
    found = koine(*line.split(), folder=folder).needs(2, out="", err=("koine: ", text))
    expect(len(found.err.splitlines()) == 1, f"expected one line: {found}")


for row in MISTAKES:
    add(f"mistake: {row[0]}", functools.partial(mistake, *row))

# ---- what fails: status 1, and a newcomer knows why

FAILURES = [
    ("train lenot --data digits", "did you mean 'lenet'?"),
    ("train lenet --data nothing", "expected digits"),
    ("train lenet --data npy:x.npy", "expected two files"),
    ("train lenet --data npy:no.npy,y.npy", 'cannot open "no.npy": No such file'),
    ("train lenet --data idx:nowhere", "the folder does not exist"),
    ("train lenet --data npy:x.npy,y.npy", "'x' is float32 (batch,6) in the data, but the model expects float32 "
     "(batch,1,28,28)"),
    ("train tiny.koine --data npy:x.npy,y.npy --loss mse", "which the loss cross-entropy is for"),
    ("train tiny.koine --data npy:x.npy,x.npy", "which --loss mse is for"),
    ("train two.koine --data npy:x.npy,y.npy", "has 3 classes, but the output 'linear1' of the model 'two' has 2: "
     "its last layer should have 3 outputs"),
    ("train wide.koine --data digits:test", "a line `flatten` before the last `linear` makes it one per sample"),
    ("train large.koine --data digits:test", "large.koine:4:1: conv2d 'conv1.product': x is float32 (batch,1,28,28), "
     "and its height with padding is 28; expected at least the window's 33"),
    ("train typing.koine --data digits:test", "typing.koine:4:1: found 'convv'"),
    ("train tiny.koine --data npy:x.npy,y.npy --device nonsense", "usable here: 0: "),
    ("train tiny.koine --data npy:x.npy,y.npy --device 99", "usable here: 0: "),
    ("train tiny.koine --data npy:x.npy,y.npy --save nowhere/a", "'nowhere/a' cannot be written: nowhere: the folder "
     "does not exist"),
    ("train tiny.koine --data npy:x.npy,y.npy --save .", "'.' is a folder"),
    ("train tiny.koine --data npy:x.npy,y.npy --log nowhere/a", "'nowhere/a' cannot be written"),
    ("train tiny.koine --data npy:x.npy,y.npy --init nothing", "'nothing' cannot be read: No such file"),
    ("train tiny.koine --data npy:x.npy,y.npy --resume nothing", "'nothing' cannot be read: No such file"),
    ("train tiny.koine --data npy:x.npy,y.npy --patience 2", "set some aside with --validation 0.1"),
    ("train tiny.koine --data npy:x.npy,y.npy --drop-last --batch 101", "leaves nothing to train on"),
    ("train tiny.koine --data npy:x.npy,y.npy --in-sequence --batch 101", "--in-sequence leaves nothing to train on"),
    ("train tiny.koine --data npy:x.npy,y.npy --memory 1kB", "too large for the device, even with a batch of 1"),
    ("eval tiny.koine --data npy:x.npy,y.npy", "has no weights: expected"),
    ("eval nothing.safetensors --data digits", "no such file: 'nothing.safetensors'"),
    ("eval junk.safetensors --data npy:x.npy,y.npy", "junk.safetensors"),
    ("infer tiny.koine --input x.npy --output z.npy", "has no weights: expected a file"),
    ("plan nothing", "found 'nothing', expected a file or a model name"),
    ("bench tiny.koine nothing", "found 'nothing', expected a file or a model name"),
    ("verify --operators nothing", "no operator or kernel has that name"),
    ("models nothing", "found 'nothing', expected a file or a model name"),
    ("devices --device nonsense", "usable here: 0: "),
]


def failure(line, text, folder):
    problem(folder)
    write(folder, "two.koine", TINY.replace("logits = linear 3", "linear 2").replace("linear 16\nrelu\n", "")
          .replace("model tiny", "model two"))
    write(folder, "wide.koine", "koine 1\nmodel wide\ninput x 1x28x28\nconv 4 3\nlinear 10\n")
    write(folder, "large.koine", "koine 1\nmodel large\ninput x 1x28x28\nconv 32 33\nflatten\nlinear 10\n")
    write(folder, "typing.koine", "koine 1\nmodel typing\ninput x 1x28x28\nconvv 32 3\nflatten\nlinear 10\n")
    write(folder, "junk.safetensors", "junk" * 100)
    before = sorted(os.listdir(folder))
    found = koine(*line.split(), folder=folder).needs(1, err=("koine: ", text))
    expect(line.startswith("devices") or not found.out, f"expected nothing on standard output: {found}")
    expect(sorted(os.listdir(folder)) == before, f"files were left: {sorted(os.listdir(folder))}")


for row in FAILURES:
    add(f"failure: {row[0]}", functools.partial(failure, *row))


@case
def no_device(folder):
    empty = {"OCL_ICD_VENDORS": os.path.join(folder, "nothing"), "OCL_ICD_FILENAMES": ""}
    koine("devices", environment=empty).needs(1, err="pocl-opencl-icd")
    problem(folder)
    koine("train", "tiny.koine", "--data", "npy:x.npy,y.npy", folder=folder, environment=empty).needs(
        1, out="", err=("no usable OpenCL device", "koine doctor"))
    koine("devices", "--device", "gpu", environment=empty).needs(1, err="koine doctor")
    koine("plan", "tiny.koine", "--device", "gpu", folder=folder, environment=empty).needs(1, out="", err="koine doctor")


@case
def what_needs_no_device(folder):
    empty = {"OCL_ICD_VENDORS": os.path.join(folder, "nothing"), "OCL_ICD_FILENAMES": ""}
    koine("train", *problem(folder), "--steps", "1", "--save", "t.safetensors", folder=folder).needs(0)
    for line in ("models", "models lenet", "models t.safetensors", "datasets", "datasets digits",
                 "datasets npy:x.npy,y.npy", "convert t.safetensors t.onnx", "convert t.onnx back.safetensors",
                 "convert t.safetensors half.safetensors --dtype float16", "convert t.safetensors t.koine", "models t.onnx",
                 "convert tiny.koine again.onnx --weights back.safetensors", "convert t.onnx same.onnx"):
        koine(*line.split(), folder=folder, environment=empty).needs(0)
    koine("convert", "t.safetensors", "s.safetensors", "--type", "Q8_0", folder=folder, environment=empty).needs(2, err="--type")
    koine("convert", "t.safetensors", "s.koine", "--merge", "adapter", folder=folder, environment=empty).needs(2, err="--merge")
    koine("convert", "t.safetensors", "s.safetensors", "--merge", "adapter", folder=folder, environment=empty).needs(1, err="adapter")
    koine("convert", "t.safetensors", "s.gguf", "--type", "Q8_0", folder=folder, environment=empty).needs(1, err="GGUF")
    weights, back = (read_safetensors(os.path.join(folder, name)) for name in ("t.safetensors", "back.safetensors"))
    expect(back["logits.weight"] == weights["logits.weight"], "the weights differ")


@case
def device_from_the_environment(folder):
    koine("devices", environment={"KOINE_DEVICE": "nonsense"}).needs(1, err='from KOINE_DEVICE: no OpenCL device '
                                                                     'matches "nonsense"')
    koine("devices", "--device", "0", environment={"KOINE_DEVICE": "nonsense"}).needs(0, out="selected, as requested")
    koine("devices", environment={"KOINE_DEVICE": "0"}).needs(0, out="selected, as requested", err="")
    koine("devices", environment={"KOINE_DEVICE": ""}).needs(0, out="selected by default", err="")


@case
def kernels_from_a_folder(folder):
    problem(folder)
    environment = {"KOINE_KERNEL_DIR": folder, "KOINE_DEVICE": "0"}
    koine("plan", "tiny.koine", "--no-cache", folder=folder, environment=environment).needs(
        1, out="", err=f'from KOINE_KERNEL_DIR: cannot open "{folder}')


@case
def an_output_that_cannot_be_written(folder):
    with open(os.devnull, "rb") as closed:
        found = koine("models", "lenet", stdout=closed, stderr=-1)
    found.needs(1, err="standard output could not be written")


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


@case
def short_options(folder):
    found = train(folder, "--steps", "1", "-b", "50", "-o", "a.safetensors", "-q", out="saved to a.safetensors")
    train(folder, "--steps", "1", "-b50", "-o=b.safetensors", "--learning-rate", "0.001", out="saved to b.safetensors")
    expect(bytes_of(os.path.join(folder, "a.safetensors")) == bytes_of(os.path.join(folder, "b.safetensors")), f"found {found}")
    koine("models", "-q").needs(0, out="lenet", err="")


@case
def options_from_a_file(folder):
    """--run writes what --config reads; the command line takes precedence."""
    train(folder, "--steps", "3", "--seed", "7", "-b", "20", "--lr", "0.02", "--no-shuffle", "--run", "a", out="done after 3 steps")
    found = read(folder, "a/options.txt")
    expect(all(f"\n{line}\n" in found for line in ("model = tiny.koine", "data = npy:x.npy,y.npy", "steps = 3", "seed = 7", "batch = 20",
                                                   "lr = 0.02", "no-shuffle = yes")) and "run =" not in found, f"found {found}")
    koine("train", "--config", "a/options.txt", "--run", "b", folder=folder).needs(0, out="done after 3 steps")
    weights = [read_safetensors(os.path.join(folder, name, "model.safetensors")) for name in ("a", "b")]
    expect(weights[0] == weights[1], "the second run has different weights")
    expect(read(folder, "b/options.txt") == found, "the second run has different options")
    koine("train", "--steps", "1", "--config=a/options.txt", "--save", "c", folder=folder).needs(0, out="done after 1 steps")
    for text, status, error in (("seed 7", 2, "expected NAME = VALUE"), ("seeed = 7", 2, "no option --seeed; did you mean --seed?"),
                                ("no-shuffle = 1", 2, "expected yes or no"), ("# nothing\n\n", 2, "train needs a model")):
        write(folder, "o.txt", text)
        koine("train", "--config", "o.txt", "--data", "digits", folder=folder).needs(status, out="", err=error)
    koine("train", "--config", "none.txt", folder=folder).needs(1, out="", err="'none.txt' cannot be read")


@case
def options_with_an_equals_sign(folder):
    train(folder, "--steps=1", "--save=other.safetensors", out="saved to other.safetensors")


@case
def words_after_two_dashes(folder):
    problem(folder)
    os.rename(os.path.join(folder, "tiny.koine"), os.path.join(folder, "--tiny"))
    koine("models", "--json", "--", "--tiny", folder=folder).needs(0, out='"name": "tiny"', err="")


@case
def labels_beyond_the_classes_of_a_loss(folder):
    problem(folder)
    write_npy(os.path.join(folder, "y.npy"), "<i4", (SAMPLES,), [CLASSES] * SAMPLES)
    koine("train", "tiny.koine", "--data", "npy:x.npy,y.npy", folder=folder).needs(1, out="", err="has 4 classes")


@case
def a_number_in_the_data_that_is_none(folder):
    problem(folder)
    write_npy(os.path.join(folder, "x.npy"), "<f4", (SAMPLES, 6), [float("nan")] + numbers_of(SAMPLES * 6 - 1))
    koine("train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--no-shuffle", folder=folder).needs(
        1, out="", err="the loss of step 1 is NaN. Nothing was saved. --find-nan")
    expect("tiny.safetensors" not in os.listdir(folder), "a model was saved")


run_cases()
