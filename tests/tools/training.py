"""koine train: what it writes, logs and goes on with.

usage: training.py KOINE HOUSE_TESTS
"""
import functools
import math
import os
import re
import signal
import subprocess
import time

from koine import CLASSES, ENVIRONMENT, KOINE, SAMPLES, Skipped, TINY, WIDTH
from koine import add, bytes_of, case, expect, koine, lines_of, numbers_of, problem, read_npy, read_safetensors, run_cases
from koine import train, write, write_npy

STEP_KEYS = ["step", "epoch", "loss", "accuracy", "lr", "samples_per_s"]
END_KEYS = ["event", "step", "loss", "train_accuracy", "validation_loss", "accuracy"]
TIME_KEYS = ["samples_per_s", "opening_s", "training_s", "waited_s"]
JSON_KEYS = END_KEYS + TIME_KEYS + ["saved"]
BATCHES = 4  # of 32 samples, the last of 4


def log_of(folder, name="log"):
    """(steps, end) of a log whose objects have just the keys they should have."""
    *steps, end = lines_of(os.path.join(folder, name))
    for step in steps:
        expect(list(step) == STEP_KEYS or (list(step) == END_KEYS and step["event"] == "end"), f"found {step}")
    expect(list(end) == END_KEYS and end["event"] == "end", f"the last object is {end}")
    return steps, end


def has(folder, name):
    return os.path.exists(os.path.join(folder, name))


# ---- results


@case
def success(folder):
    found = train(folder, "--epochs", "2", "--batch", "32", "--validation", "0.2", out=(
        "done after 6 steps: loss ", "validation loss ", "accuracy ", "saved to tiny.safetensors\n"),
        err=("training tiny (163 parameters) on 80 samples of npy:x.npy,y.npy, on ", "epoch 1/2", "epoch 2/2"))
    expect(not re.search(r"[\r\x1b]", found.err + found.out), f"what only a terminal understands: {found}")
    expect(has(folder, "tiny.safetensors"), "no model was saved")


@case
def it_learns(folder):
    train(folder, "--epochs", "60", "--batch", "10", "--lr", "0.01", "--log", "log")
    steps, _ = log_of(folder)
    first, last = (sum(step["loss"] for step in part) / 10 for part in (steps[:10], steps[-10:]))
    expect(last < first / 2, f"the loss went from {first} to {last}")
    found = koine("eval", "tiny.safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    expect(found["accuracy"] >= 0.9, f"accuracy {found['accuracy']} on what it was trained with")


@case
def adapters(folder):
    """--lora trains and saves only the adapters of a saved model, and resumes bit for bit."""
    problem(folder)
    write(folder, "two.koine", f"koine 1\nmodel two\ninput x {WIDTH}\nhidden = linear 12\nrelu\nlogits = linear {CLASSES}\n")
    data = ["--data", "npy:x.npy,y.npy", "--batch", "32", "--validation", "0", "--schedule", "constant"]
    koine("train", "two.koine", *data, "--epochs", "2", folder=folder).needs(0, out="saved to two.safetensors")
    lora = ["train", "two.safetensors", *data, "--lora", "rank=2,alpha=4,targets=hidden,logits,dropout=0.25"]
    trained = 2 * (WIDTH + 12) + 2 * (12 + CLASSES)
    koine(*lora, "--steps", "6", folder=folder).needs(0, out="saved to two-lora.safetensors", err=f"({trained} of ")
    koine(*lora, "--save", "two.onnx", folder=folder).needs(2, err="--lora saves adapters")
    koine(*lora, "--steps", "2", "--save", "two.gguf", folder=folder).needs(0, out="saved to two.gguf.safetensors", err="needs a model from a GGUF file")
    koine("convert", "two.safetensors", "two.onnx", folder=folder).needs(0)
    koine("train", "two.onnx", *data, "--lora", "rank=2", "--steps", "2", folder=folder).needs(0, out="saved to ")
    saved = read_safetensors(os.path.join(folder, "two-lora.safetensors"))
    names = sorted(name for name in saved if not name.startswith("koine.training."))
    expect(names == ["hidden.lora_a", "hidden.lora_b", "logits.lora_a", "logits.lora_b"], f"found {names}")
    expect(not any("weight" in name for name in saved), f"moments of frozen weights: {list(saved)}")
    koine(*lora, "--steps", "3", "--save", "half.safetensors", folder=folder).needs(0)
    koine(*lora, "--steps", "6", "--resume", "half.safetensors", folder=folder).needs(0, err="resuming after step 3")
    whole = read_safetensors(os.path.join(folder, "half.safetensors"))
    expect(whole == saved, "resumed training differs")
    koine("eval", "half.safetensors", "--data", "npy:x.npy,y.npy", folder=folder).needs(1, err="has an adapter but not its model")
    for given, message in (("rank=0", "rank=N"), ("rank", "rank=N"), ("alpha=0", "above 0"), ("dropout=1", "below 1"),
                           ("ranks=2", "rank=N, alpha=A, targets=NAMES")):
        koine("train", "two.safetensors", *data, "--lora", given, folder=folder).needs(2, err=message)
    koine("train", "two.safetensors", *data, "--lora", "targets=conv*", folder=folder).needs(1, err="'conv*' matches no linear layer")


@case
def tokens_in_and_out(folder):
    """A recurrent network learns that each token is followed by the next number."""
    write(folder, "walk.koine", "koine 1\nmodel walk\ninput x 6 int32\nembedding 7 8\nlstm 12\nlogits = linear 7\n")
    starts = [sample % 7 for sample in range(42)]
    for name, kind, first in (("x", "|u1", 0), ("y", "<i8", 1)):
        write_npy(os.path.join(folder, name + ".npy"), kind, (42, 6),
                  [(start + first + place) % 7 for start in starts for place in range(6)])
    koine("train", "walk.koine", "--data", "npy:x.npy,y.npy", "--epochs", "30", "--batch", "14", "--lr", "0.03",
          folder=folder).needs(0, out="saved to walk.safetensors")
    found = koine("eval", "walk.safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    expect(found["accuracy"] == 1, f"the accuracy is {found['accuracy']}")


@case
def a_length_that_only_the_data_tells(folder):
    samples, length = 24, 4
    write_npy(os.path.join(folder, "x.npy"), "<f4", (samples, length, WIDTH), numbers_of(samples * length * WIDTH))
    write_npy(os.path.join(folder, "y.npy"), "<i4", (samples, length), [n % CLASSES for n in range(samples * length)])
    data, found = ["--data", "npy:x.npy,y.npy"], {}
    for name, size in (("closed", f"{length}x{WIDTH}"), ("open", f"lengthx{WIDTH}")):
        write(folder, name + ".koine", TINY.replace("input x 6", "input x " + size))
        koine("train", name + ".koine", *data, "--steps", "3", "--batch", "10", "--validation", "0.25", "--save",
              name + ".safetensors", folder=folder).needs(0)
        found[name] = read_safetensors(os.path.join(folder, name + ".safetensors"))
    expect(found["open"] == found["closed"], "weights differ if the length is open")
    koine("convert", "open.safetensors", "open.onnx", folder=folder).needs(0)
    koine("train", "open.onnx", *data, "--steps", "2", "--batch", "10", "--save", "more.onnx", folder=folder).needs(0)
    for model in ("open.safetensors", "more.onnx"):
        koine("eval", model, *data, "--batch", "10", folder=folder).needs(0, out=f"on {samples} samples")
        koine("infer", model, "--input", "x.npy", "--output", "z.npy", "--overwrite", folder=folder).needs(0)
        shape = read_npy(os.path.join(folder, "z.npy"))[0]
        expect(shape == (samples, length, CLASSES), f"{model} gives {shape}")
    write_npy(os.path.join(folder, "y.npy"), "<i4", (samples, length + 1), [0] * samples * (length + 1))
    koine("train", "open.koine", *data, "--batch", "10", folder=folder).needs(
        1, err="input 'y' is int32 (batch,length) with batch = 10, length = 4: expected 160 bytes, got 200")


@case
def weights_of_16_bits(folder):
    write(folder, "wide.koine", TINY.replace("linear 16", "linear 600"))
    train(folder, "--epochs", "20", "--batch", "10", "--lr", "0.01", "--save", "whole.safetensors", model="wide.koine")
    whole, found = read_safetensors(os.path.join(folder, "whole.safetensors")), {}
    whole = {name: tensor for name, tensor in whole.items() if not name.startswith("koine.training.")}
    for kind in ("float16", "bfloat16"):
        koine("convert", "whole.safetensors", "small.safetensors", "--dtype", kind, "--overwrite", folder=folder).needs(0)
        small = read_safetensors(os.path.join(folder, "small.safetensors"))
        step = 2 ** -11 if kind == "float16" else 2 ** -8
        for name, (dtype, shape, numbers) in whole.items():
            expect(small[name][:2] == ({"float16": "F16", "bfloat16": "BF16"}[kind] if len(shape) > 1 else dtype, shape),
                   f"{name} is {small[name][:2]}")
            expect(all(abs(a - b) <= abs(a) * step + 1e-7 for a, b in zip(numbers, small[name][2])),
                   f"{name} was not rounded to the nearest")
        for model in ("whole", "small"):
            plan = koine("plan", model + ".safetensors", "--mode", "infer", "--json", folder=folder).objects()[0]
            evaluated = koine("eval", model + ".safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder)
            found[model] = plan["state_bytes"], evaluated.objects()[0]["accuracy"]
        expect(found["small"][0] <= 0.75 * found["whole"][0], f"bytes of states and accuracy: {found}")
        expect(abs(found["small"][1] - found["whole"][1]) <= 0.02, f"bytes of states and accuracy: {found}")
    koine("train", "small.safetensors", "--data", "npy:x.npy,y.npy", "--steps", "2", "--save", "more.safetensors",
          folder=folder).needs(0)
    more = read_safetensors(os.path.join(folder, "more.safetensors"))
    expect(all(more[name][0] == "F32" for name in whole), "weights that were trained were saved in 16 bits")
    koine("convert", "whole.safetensors", "s.safetensors", "--dtype", "int8", folder=folder).needs(2, err="--dtype")
    koine("convert", "whole.safetensors", "s.onnx", "--dtype", "float16", folder=folder).needs(2, err="--dtype")


@case
def quiet_and_json(folder):
    train(folder, "--steps", "2", "--quiet", err="", out="done after 2 steps")
    found = train(folder, "--steps", "2", "--json", "--validation", "0.5", "--quiet", err="").objects(*JSON_KEYS)
    expect(len(found) == 1 and found[0]["event"] == "end" and found[0]["step"] == 2, f"found {found}")
    expect(found[0]["waited_s"] <= found[0]["training_s"] and all(found[0][key] >= 0 for key in TIME_KEYS), f"found {found}")


@case
def the_log(folder):
    found = train(folder, "--epochs", "2", "--batch", "32", "--validation", "0.2", "--log", "log", "--schedule", "constant",
                  "--lr", "0.003")
    steps, end = log_of(folder)
    expect([(step["step"], step["epoch"]) for step in steps] == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)],
           f"found {steps}")
    expect(all(step["lr"] == 0.003 and step["samples_per_s"] > 0 for step in steps), f"found {steps}")
    mean = sum(step["loss"] * count for step, count in zip(steps[3:], (32, 32, 16))) / 80
    expect(end["step"] == 6 and math.isclose(end["loss"], mean, rel_tol=1e-6), f"found {end}, and the epoch's mean is {mean}")
    right = sum(step["accuracy"] * count for step, count in zip(steps[3:], (32, 32, 16))) / 80
    expect(math.isclose(end["train_accuracy"], right, rel_tol=1e-5) and (right * 80) % 1 < 1e-4,
           f"found {end}, and the epoch's mean is {right}")
    expect(f"done after 6 steps: loss {mean:.4f} over the last epoch, accuracy {100 * right:.2f}%, validation loss "
           in found.out, f"found {found}")
    expect(f"epoch 2/2  loss {mean:.4f}  accuracy {100 * right:.2f}%  validation loss " in found.err, f"found {found}")
    expect(0 <= end["accuracy"] <= 1 and (end["accuracy"] * 20) % 1 == 0, f"not a fraction of 20 samples: {end}")
    expect(end["validation_loss"] > 0, f"found {end}")
    for number in (steps[0]["loss"], end["validation_loss"]):
        expect(len(repr(number)) <= 12, f"more digits than a float has: {number}")


@case
def the_training_accuracy(folder):
    """With a learning rate of 0 it is the accuracy of koine eval; mixed samples have none."""
    train(folder, "--epochs", "1", "--lr", "0", "--batch", "32", "--log", "log", err="  accuracy ")
    _, end = log_of(folder)
    found = koine("eval", "tiny.safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    expect(0 < found["accuracy"] == end["train_accuracy"], f"{found} and {end}")
    found = train(folder, "--epochs", "1", "--augment", "mix-up=0.5", "--log", "mixed", "--validation", "0.2")
    *steps, end = lines_of(os.path.join(folder, "mixed"))
    expect(end["train_accuracy"] is None and "accuracy" not in steps[0], f"found {steps[0]} and {end}")
    expect(re.search(r"epoch 1/1  loss [\d.]+  validation loss", found.err), f"found {found}")


@case
def validation_is_limited_or_left_out(folder):
    train(folder, "--epochs", "1", "--validation", "0.5", "--validate-samples", "20", "--log", "some")
    train(folder, "--epochs", "1", "--validation", "0.5", "--log", "all")
    train(folder, "--epochs", "1", "--validation", "0.5", "--validate-samples", "9999", "--log", "more")
    some, all, more = (log_of(folder, name)[1]["validation_loss"] for name in ("some", "all", "more"))
    expect(some != all and more == all, f"validation losses {some}, {all} and {more}")
    found = koine("train", "mlp", "--data", "digits", "--steps", "1", "--validate-samples", "64", folder=folder)
    found.needs(0, out="validation loss ")
    expect(b'"train.validation":"0, at most 64 samples"' in bytes_of(os.path.join(folder, "mlp.safetensors")), "the limit is not in the file")
    found = koine("train", "mlp", "--data", "digits", "--steps", "1", "--validation", "0", folder=folder)
    found.needs(0)
    expect("validation" not in found.out + found.err, f"it validated: {found}")
    expect(b'"train.validation":"none"' in bytes_of(os.path.join(folder, "mlp-2.safetensors")), "the choice is not in the file")
    for words, part in ((("--validate-samples", "0"), "--validate-samples is 0"),
                        (("--validation", "0", "--validate-samples", "5"), "omit --validate-samples"),):
        koine("train", "mlp", "--data", "digits", *words, folder=folder).needs(2, err=part)
    for words, part in ((("--validation", "0", "--patience", "2"), "--validation 0 turns it off"),
                        (("--validate-samples", "5"), "needs validation data")):
        data = "digits" if "--patience" in words else "npy:x.npy,y.npy"
        koine("train", "mlp" if data == "digits" else "tiny.koine", "--data", data, *words, folder=folder).needs(1, err=part)


@case
def a_log_without_validation(folder):
    hint = "no validation data: --validation 0.1 sets a tenth of the samples aside and reports the accuracy on them"
    found = train(folder, "--steps", "1", "--log", "log", err=hint)
    expect(found.err.count(hint) == 1, f"found {found}")
    _, end = log_of(folder)
    found = train(folder, "--steps", "1", "--save", "other.safetensors", "--validation", "0.5")
    expect("no validation data" not in found.err, f"found {found}")
    expect(end["validation_loss"] is None and end["accuracy"] is None and end["loss"] > 0, f"found {end}")


@case
def the_last_batch_is_trained_unless_dropped(folder):
    train(folder, "--epochs", "1", "--batch", "32", "--log", "all")
    train(folder, "--epochs", "1", "--batch", "32", "--log", "dropped", "--drop-last")
    train(folder, "--epochs", "1", "--batch", "32", "--log", "sequence", "--in-sequence")
    counts = [len(log_of(folder, name)[0]) for name in ("all", "dropped", "sequence")]
    expect(counts == [BATCHES, BATCHES - 1, BATCHES - 1], f"found {counts} steps")


@case
def the_rate_follows_its_schedule(folder):
    def rates(*options):
        train(folder, "--steps", "8", "--lr", "1", "--optimizer", "sgd", "--clip", "0.001", "--log", "log", *options)
        return [step["lr"] for step in log_of(folder)[0]]
    expect(rates("--schedule", "step", "--step-every", "4") == [1] * 4 + [0.1] * 4, f"steps: {rates()}")
    cosine = rates()
    expect(cosine[0] == 1 and all(a > b for a, b in zip(cosine, cosine[1:])), f"cosine: {cosine}")
    expect(math.isclose(cosine[4], 0.5, rel_tol=1e-6), f"cosine half-way: {cosine}")
    expect(rates("--schedule", "constant", "--warmup", "4") == [0.25, 0.5, 0.75] + [1] * 5, "warm-up")


@case
def seconds_end_a_training(folder):
    train(folder, "--seconds", "0.3", "--steps", "1000000000", out="done after ")


@case
def patience_ends_a_training(folder):
    train(folder, "--epochs", "50", "--batch", "32", "--lr", "0", "--validation", "0.2", "--patience", "2", "--log",
          "log", out="stopped early, since the validation loss no longer falls, after 9 steps")
    steps, end = log_of(folder)
    expect(steps[-1]["step"] == 9, "one epoch is the best, two more are waited for")
    expect(end["step"] == 3, f"the end speaks of another epoch than the best: {end}")
    train(folder, "--epochs", "1", "--batch", "32", "--lr", "0", "--validation", "0.2", "--resume", "tiny.safetensors",
          out="nothing to do: 3 steps were already done")


@case
def patience_saves_the_best_epoch(folder):
    """At a rate that is far too high no epoch is as good as one of the first."""
    found = train(folder, "--epochs", "40", "--batch", "8", "--lr", "3", "--schedule", "constant", "--validation", "0.4",
                  "--patience", "6", "--json", err="epoch 1/40")
    end = found.objects(*JSON_KEYS)[0]
    losses = [float(loss) for loss in re.findall(r"validation loss ([\d.]+)", found.err)]
    expect(abs(min(losses) - end["validation_loss"]) < 1e-3 and end["step"] == 8 * (1 + losses.index(min(losses))),
           f"{end} is not the best of {losses}")
    expect(len(losses) == losses.index(min(losses)) + 7, f"another patience: {losses}")
    data = koine("eval", "tiny.safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    koine("train", "--resume", "tiny.safetensors", "--data", "npy:x.npy,y.npy", "--epochs", "1", "--batch", "8",
          "--validation", "0.4", "--quiet", folder=folder).needs(0, out="nothing to do")
    again = koine("eval", "tiny.safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    expect(again["loss"] == data["loss"], "what was saved is not what was evaluated")


@case
def options_change_the_outcome(folder):
    def weights(*options):
        train(folder, "--steps", "6", "--batch", "32", "--quiet", *options)
        return bytes_of(os.path.join(folder, "tiny.safetensors"))
    base = weights()
    expect(weights() == base, "the same seed gave other bits")
    for options in (["--seed", "2"], ["--no-shuffle"], ["--weight-decay", "0.1"], ["--clip", "0.01"], ["--lr", "0.1"],
                    ["--optimizer", "adamw", "--weight-decay", "0.1"], ["--optimizer", "sgd"],
                    ["--optimizer", "sgd", "--momentum", "0.5"], ["--optimizer", "sgd", "--nesterov"],
                    ["--schedule", "constant"], ["--batch", "16"], ["--amsgrad", "--beta2", "0.5"],
                    ["--clip-value", "0.001"], ["--accumulate", "2"], ["--ema", "0.5"],
                    ["--groups", "*.bias:lr=0.5;logits.*:frozen"]):
        expect(weights(*options) != base, f"{options} changed nothing")


# ---- TensorBoard


def event_files(folder):
    train(folder, "--epochs", "2", "--batch", "50", "--validation", "0.2", "--tensorboard", "runs/one", "--quiet")
    runs = os.path.join(folder, "runs", "one")
    return [os.path.join(runs, name) for name in os.listdir(runs)]


@case
def events_for_tensorboard(folder):
    files = event_files(folder)
    expect(len(files) == 1 and ".tfevents." in files[0], f"found {files}")
    data = bytes_of(files[0])
    for tag in ("brain.Event:2", "train/loss", "train/accuracy", "epoch/train accuracy", "epoch/validation loss", "epoch/accuracy", "weights/linear1.weight"):
        expect(tag.encode() in data, f"no {tag} in the file")
    write(folder, "file", "")
    for name in ("file", "file/in/it"):
        found = train(folder, "--tensorboard", name, status=1, out="", err=f"koine: cannot write to the folder '{name}': file")
        expect("training tiny" not in found.err, f"it was told after the training began: {found}")


@case
def events_as_tensorboard_reads_them(folder):
    try:
        from tensorboard.backend.event_processing import event_accumulator
    except ImportError:
        raise Skipped("Python's tensorboard is not installed")
    event_files(folder)
    events = event_accumulator.EventAccumulator(os.path.join(folder, "runs", "one"))
    events.Reload()
    losses = [scalar.value for scalar in events.Scalars("train/loss")]
    expect(len(losses) == 4 and all(0 < loss < 3 for loss in losses), f"found {losses}")
    histogram = events.Histograms("weights/linear1.weight")[-1].histogram_value
    expect(histogram.num == 96 and sum(histogram.bucket) == 96 and histogram.min < 0 < histogram.max, f"{histogram}")


# ---- going on


def resumed(stop, total, folder):
    """A training of `total` steps, and one that was stopped after `stop`: the same bits."""
    fixed = ["--schedule", "constant", "--batch", "32", "--validation", "0.1"]
    train(folder, "--steps", str(total), *fixed, "--save", "whole", "--log", "whole.log")
    train(folder, "--steps", str(stop), *fixed, "--save", "part", "--log", "part.log")
    train(folder, "--steps", str(total), *fixed, "--resume", "part", "--save", "part", "--log", "part.log",
          err=f"resuming after step {stop}", out=f"done after {total} steps")
    expect(bytes_of(os.path.join(folder, "whole")) == bytes_of(os.path.join(folder, "part")), "other bits")
    whole, part = ([(step["step"], step["epoch"], step["loss"]) for step in log_of(folder, name)[0] if "lr" in step]
                   for name in ("whole.log", "part.log"))
    expect(whole == part, f"the logs differ: {whole} and {part}")
    expect(log_of(folder, "whole.log")[1] == log_of(folder, "part.log")[1], "the ends differ")


add("resumed amid an epoch", functools.partial(resumed, 2, 7))
add("resumed between epochs", functools.partial(resumed, 3, 6))


@case
def resumed_with_averages_and_a_plateau(folder):
    """The averages are saved; training resumes with the weights and the state of the schedule."""
    fixed = ["--batch", "32", "--validation", "0.1", "--ema", "0.5", "--accumulate", "2", "--lr", "0.05", "--schedule",
             "plateau", "--step-factor", "0.5", "--plateau-patience", "0", "--plateau-threshold", "0.9"]
    train(folder, "--steps", "15", *fixed, "--save", "whole", "--log", "whole.log")
    for stop, options in ((7, []), (12, ["--resume", "part"]), (15, ["--resume", "part"])):
        train(folder, "--steps", str(stop), *fixed, "--save", "part", "--log", "part.log", *options)
    expect(bytes_of(os.path.join(folder, "whole")) == bytes_of(os.path.join(folder, "part")), "other bits")
    rates = [step["lr"] for step in log_of(folder, "whole.log")[0]]
    expect(rates[0] == 0.05 and rates[-1] < 0.03, f"the rate does not fall: {rates}")
    found = koine("eval", "whole", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    train(folder, "--steps", "15", *fixed[:4], "--accumulate", "2", *fixed[8:], "--save", "plain", "--quiet")
    plain = koine("eval", "plain", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    expect(found["loss"] != plain["loss"], "the averages are not what was saved")


@case
def a_plateau_needs_validation_data(folder):
    train(folder, "--schedule", "plateau", status=1, out="", err="--schedule plateau needs validation data")


@case
def groups_have_to_fit(folder):
    train(folder, "--groups", "nothing*:frozen", status=1, out="", err="group 'nothing*' matches none")


@case
def frozen_layers_stay(folder):
    """Fine-tuning: a new head on frozen layers."""
    train(folder, "--steps", "3", "--batch", "32", "--save", "base")
    write(folder, "head.koine", TINY.replace("logits = linear 3", "head = linear 3"))
    koine("train", "head.koine", "--data", "npy:x.npy,y.npy", "--init", "base", "--freeze", "linear1.*", "--lr", "0.1",
          "--steps", "3", "--save", "tuned", folder=folder).needs(0, err="loaded 2 parameters and statistics from base")
    base, tuned = (read_safetensors(os.path.join(folder, name)) for name in ("base", "tuned"))
    for name in ("linear1.weight", "linear1.bias"):
        expect(base[name] == tuned[name], f"{name} was frozen and changed")
    train(folder, "--steps", "1", "--freeze", "nothing*", status=1, out="", err="group 'nothing*' matches none")


@case
def resumed_without_naming_the_model(folder):
    train(folder, "--steps", "2")
    koine("train", "--data", "npy:x.npy,y.npy", "--resume", "tiny.safetensors", "--steps", "3", folder=folder).needs(
        0, out="done after 3 steps", err="training tiny")


@case
def resumed_when_all_is_done(folder):
    train(folder, "--steps", "2")
    train(folder, "--steps", "2", "--resume", "tiny.safetensors", out="nothing to do: 2 steps were already done")


@case
def resumed_with_other_settings(folder):
    train(folder, "--steps", "1")
    train(folder, "--steps", "2", "--resume", "tiny.safetensors", "--batch", "16", "--seed", "7", "--optimizer", "sgd",
          err=("was trained with batch 64, and now it is 16", "with seed 1, and now it is 7", "with optimizer adam",
               "with lr 0.001, and now it is 0.01", "with total-steps 1, and now it is 2"))
    train(folder, "--steps", "2", "--quiet", "--schedule", "constant")
    train(folder, "--steps", "3", "--resume", "tiny.safetensors", "--quiet", "--schedule", "constant", err="")


@case
def resumed_in_another_precision(folder):
    for precision in ("bfloat16", "float16"):
        train(folder, "--steps", "4", "--precision", precision, "--schedule", "constant", "--save", "whole.safetensors")
        train(folder, "--steps", "2", "--precision", precision, "--schedule", "constant", "--save", "half.safetensors")
        refused = ("train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--steps", "4", "--resume", "half.safetensors")
        koine(*refused, folder=folder).needs(1, err=f"was trained in {precision}: give --precision {precision}")
        train(folder, "--steps", "4", "--precision", precision, "--schedule", "constant", "--resume", "half.safetensors",
              "--save", "half.safetensors", "--quiet", err="")
        whole, half = (read_safetensors(os.path.join(folder, name + ".safetensors")) for name in ("whole", "half"))
        expect(whole == half, f"{precision}: resumed, weights or moments have other bits")
        expect(("koine.training.koine.loss_scale" in whole) == (precision == "float16"), f"states: {sorted(whole)}")


@case
def resumed_with_other_moments(folder):
    train(folder, "--steps", "4", "--optimizer-dtype", "bfloat16", "--schedule", "constant", "--save", "whole.safetensors")
    train(folder, "--steps", "2", "--optimizer-dtype", "bfloat16", "--schedule", "constant", "--save", "half.safetensors")
    refused = ("train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--steps", "4", "--resume", "half.safetensors")
    koine(*refused, folder=folder).needs(1, err="was trained with optimizer state in bfloat16: give --optimizer-dtype bfloat16")
    koine(*refused, "--optimizer-dtype", "8bit", folder=folder).needs(
        1, err="with optimizer state in bfloat16, which cannot be converted to 8bit: give --optimizer-dtype bfloat16")
    train(folder, "--steps", "4", "--optimizer-dtype", "float32", "--schedule", "constant", "--resume", "half.safetensors",
          "--save", "other.safetensors", err="with optimizer-dtype bfloat16, and now it is float32")
    train(folder, "--steps", "4", "--optimizer-dtype", "bfloat16", "--schedule", "constant", "--resume", "half.safetensors",
          "--save", "half.safetensors", "--quiet", err="")
    whole, half, other = (read_safetensors(os.path.join(folder, name + ".safetensors")) for name in ("whole", "half", "other"))
    expect(whole == half, "resumed, weights or moments have other bits")
    expect(whole.keys() == other.keys() and whole != other, f"states: {sorted(other)}")


@case
def resumed_with_another_model(folder):
    train(folder, "--steps", "1", "--save", "one")
    write(folder, "other.koine", TINY.replace("linear 16", "linear 8"))
    koine("train", "other.koine", "--data", "npy:x.npy,y.npy", "--resume", "one", folder=folder).needs(
        1, out="", err=("linear1.weight", "expected"))


@case
def begun_with_the_weights_of_another(folder):
    train(folder, "--steps", "30", "--lr", "0.05", "--batch", "100", "--save", "one", "--log", "one.log")
    write(folder, "other.koine", TINY.replace("logits = linear 3", "relu\nlinear 16\nrelu\nlogits = linear 3"))
    problem(folder)
    koine("train", "other.koine", "--data", "npy:x.npy,y.npy", "--init", "one", "--steps", "1", folder=folder).needs(
        0, err="loaded 4 parameters and statistics from one; the others are initialized")
    train(folder, "--init", "one", "--steps", "1", "--batch", "100", "--log", "two.log", out="done after 1 steps")
    write(folder, "none.koine", TINY.replace("16", "7").replace("logits = ", ""))
    koine("train", "none.koine", "--data", "npy:x.npy,y.npy", "--init", "one", folder=folder).needs(
        1, out="", err="nothing in 'one' has the name and the shape of a parameter")
    first, last = log_of(folder, "two.log")[0][0]["loss"], log_of(folder, "one.log")[0][-1]["loss"]
    expect(first <= last, f"the loss begins with {first}, and it was {last} one step before its weights were saved")


@case
def a_saved_model_is_trained_further(folder):
    train(folder, "--steps", "30", "--lr", "0.05", "--batch", "100", "--save", "one", "--log", "one.log")
    train(folder, "--steps", "1", "--batch", "100", "--log", "two.log", model="one", out="saved to tiny.safetensors")
    first, last = log_of(folder, "two.log")[0][0]["loss"], log_of(folder, "one.log")[0][-1]["loss"]
    expect(first <= last, f"the loss begins with {first}, and it was {last} one step before its weights were saved")


# ---- stopped


def interrupt(folder, sign, *more):
    """Starts a training, and sends a signal when a few steps are done."""
    child = subprocess.Popen([KOINE, "train", *problem(folder), "--batch", "1", "--log", "log", *more], cwd=folder,
                             env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True)
    path = os.path.join(folder, "log")
    while not (os.path.exists(path) and bytes_of(path).count(b"\n") > 5) and child.poll() is None:
        time.sleep(0.002)
    child.send_signal(sign)
    out, err = child.communicate()
    return child.returncode, out, err


def interrupted(sign, folder):
    steps = 3000
    status, out, err = interrupt(folder, sign, "--steps", str(steps), "--validation", "0.1")
    done, end = log_of(folder)
    expect(status == 0, f"status {status}: {err}")
    expect("finishing the step and saving; press Ctrl-C again to stop at once" in err, f"found {err}")
    expect("to resume, repeat the command with --resume tiny.safetensors" in err, f"found {err}")
    expect(f"stopped after {end['step']} steps" in out and end["step"] < steps, f"found {out}")
    # The accuracy is measured after an epoch, of 90 steps.
    expect(end["step"] == done[-1]["step"] and (end["accuracy"] is None or end["step"] % 90 == 0), f"found {end}")
    if sign != signal.SIGINT:
        return
    more = ["--steps", str(steps), "--validation", "0.1", "--batch", "1", "--quiet"]
    train(folder, *more, "--resume", "tiny.safetensors", "--save", "part")
    train(folder, *more, "--save", "whole")
    expect(bytes_of(os.path.join(folder, "whole")) == bytes_of(os.path.join(folder, "part")),
           "the resumed run differs from the uninterrupted run")


add("interrupted by Ctrl-C and resumed", functools.partial(interrupted, signal.SIGINT))
add("interrupted by SIGTERM", functools.partial(interrupted, signal.SIGTERM))

# ---- losses that are not finite


@case
def a_loss_that_is_not_finite(folder):
    train(folder, "--optimizer", "sgd", "--lr", "1e30", "--log", "log", status=1, out="",
          err=("Nothing was saved", "--find-nan names the operator", "A lower --lr"))
    steps, end = log_of(folder)
    expect(end["loss"] is None and steps[-1]["loss"] is None and end["accuracy"] is None, f"found {end}")
    expect(end["step"] == steps[-1]["step"], f"found {end}")
    expect(not has(folder, "tiny.safetensors"), "a model was saved")


@case
def the_first_operator_that_is_not_finite(folder):
    found = train(folder, "--optimizer", "sgd", "--lr", "1e30", "--find-nan", status=1, out="",
                  err=("is the first non-finite value", "Nothing was saved"))
    expect(re.search(r"'\w+[.\w]*', the result of \w+", found.err), f"no operator is named: {found}")
    expect(not has(folder, "tiny.safetensors"), "a model was saved")
    train(folder, "--optimizer", "sgd", "--lr", "1e30", "--find-nan", "--batch", "60", *too_little(folder, 40), status=1,
          err=("gradients of parts are added", "is the first non-finite value"))


@case
def a_saved_model_survives_what_fails(folder):
    train(folder, "--steps", "1")
    before = bytes_of(os.path.join(folder, "tiny.safetensors"))
    train(folder, "--optimizer", "sgd", "--lr", "1e30", status=1)
    expect(bytes_of(os.path.join(folder, "tiny.safetensors")) == before, "it was written over")


# ---- memory

PARTS = r"the gradients of parts are added, of (\d+), the largest equal ones that do"


def too_little(folder, samples):
    """--memory that suffices for this number of samples at once, by koine plan; the accuracy needs a little more."""
    plan = koine("plan", *problem(folder)[:1], "--batch", str(samples), "--json", folder=folder).objects()[0]
    return ["--memory", str(plan["peak_bytes"])]


@case
def a_batch_that_does_not_fit(folder):
    """Steps and losses are those of the batch, though its classes count differently and parts have other numbers of them."""
    memory = too_little(folder, 40)
    write_npy(os.path.join(folder, "z.npy"), "<i4", (SAMPLES,), [int(i % 8 == 0) + int(i < 20) for i in range(SAMPLES)])
    rest = ["--batch", "100", "--steps", "6", "--no-shuffle", "--optimizer", "sgd", "--lr", "0.5", "--class-weights",
            "balanced", "--overwrite", "--log"]
    logs = []
    for name, more in (("whole", []), ("parts", memory), ("again", memory)):
        found = koine("train", "tiny.koine", "--data", "npy:x.npy,z.npy", "--save", name + ".safetensors", *rest, name, *more,
                      folder=folder).needs(0)
        logs.append(log_of(folder, name))
    found.needs(0, err=("a batch of 100 does not fit: ", " are allowed; "))
    part = int(re.search(PARTS, found.err).group(1))
    expect(20 <= part <= 40, f"the largest part is {part}, and nearly 40 fit")
    for whole, parts in zip(logs[0][0], logs[1][0]):
        for key in ("loss", "accuracy"):
            expect(math.isclose(whole[key], parts[key], rel_tol=1e-5), f"{parts}; in one piece {whole}")
    expect(len(logs[1][0]) == 6, f"{len(logs[1][0])} steps")
    expect(logs[0][0][-1]["loss"] < 0.98 * logs[0][0][0]["loss"], f"nothing was learnt: {logs[0][0]}")
    expect(bytes_of(os.path.join(folder, "again.safetensors")) == bytes_of(os.path.join(folder, "parts.safetensors")),
           "the same parts give other bits")
    expect(bytes_of(os.path.join(folder, "whole.safetensors")) != bytes_of(os.path.join(folder, "parts.safetensors")),
           "parts were not added")


@case
def epochs_of_parts_that_fit(folder):
    found = train(folder, "--batch", "60", "--validation", "0.1", "--epochs", "3", *too_little(folder, 40), "--log", "log")
    expect(re.search(PARTS, found.err), f"the batch fits: {found}")
    steps, end = log_of(folder)
    expect(len([step for step in steps if "lr" in step]) == 6 and end["validation_loss"], f"found {steps}, {end}")


@case
def moments_that_do_not_fit(folder):
    """They stay in host memory if not even one sample at a time fits otherwise; the bits are the same."""
    data = problem(folder)[1:]
    layers = "".join("linear 24\ntanh\n" for _ in range(80))
    write(folder, "deep.koine", f"koine 1\ninput x {WIDTH}\n{layers}logits = linear {CLASSES}\n")

    def plan(batch, *more):
        return koine("plan", "deep.koine", "--batch", str(batch), "--json", *more, folder=folder).objects()[0]

    waiting, least = plan(8, "--offload-optimizer"), plan(1)
    expect(waiting["host_bytes"] == least["moment_bytes"] > 0, f"{waiting}, {least}")
    expect(waiting["peak_bytes"] < 0.9 * least["peak_bytes"], f"{waiting}, {least}")
    budget = str((waiting["peak_bytes"] + least["peak_bytes"]) // 2)
    how = ("train", "deep.koine", *data, "--batch", "8", "--steps", "5", "--overwrite")
    for name, more in (("plain", ()), ("asked", ("--offload-optimizer",)), ("budget", ("--memory", budget))):
        found = koine(*how, "--save", name, *more, folder=folder).needs(0)
        expect(("stay in host memory between updates" in found.err) == (name != "plain"), f"{name}: {found}")
        expect(bytes_of(os.path.join(folder, name)) == bytes_of(os.path.join(folder, "plain")), f"{name} has other bits")


@case
def a_cache_that_cannot_be_written(folder):
    file = write(folder, "file", "")
    for more, environment, told in ((["--kernel-cache", "file/x"], {}, "file/x"),
                                    ([], {"XDG_CACHE_HOME": file, "POCL_CACHE_DIR": folder}, f"{file}/koine")):
        found = koine("train", *problem(folder), "--steps", "1", "--overwrite", *more, folder=folder, environment=environment)
        found.needs(0, err=f'koine: warning: compiled kernels are not cached between runs: cannot create the folder "{told}"')
        expect(found.err.count("not cached") == 1, f"found {found}")
        expect(("--kernel-cache DIR" in found.err) == (not more), f"found {found}")


run_cases()
