"""Existing files: none is replaced without --overwrite, unless the same training resumes.

usage: writing.py KOINE HOUSE_TESTS
"""
import json
import os
import re
import signal
import subprocess

from koine import KOINE, ENVIRONMENT, bytes_of, case, expect, koine, problem, run_cases, write

DATA = ["--data", "npy:x.npy,y.npy"]
TAKEN = "exists: replace it with --overwrite"


def train(folder, *more, status=0, **needs):
    found = koine("train", "tiny.koine", *DATA, "--batch", "10", *more, folder=folder)
    return found if status is None else found.needs(status, **needs)


def read(folder, name):
    return bytes_of(os.path.join(folder, name))


def models(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))


@case
def a_trained_model_stays(folder):
    problem(folder)
    train(folder, "--steps", "9", out="saved to tiny.safetensors\n")
    first = read(folder, "tiny.safetensors")
    train(folder, "--steps", "1", out="saved to tiny-2.safetensors\n")
    found = train(folder, "--steps", "2", "--json", "--quiet").objects()[0]
    expect(found["saved"] == "tiny-3.safetensors", f"found {found}")
    koine("train", "tiny-2.safetensors", *DATA, "--init", "tiny.safetensors", "--steps", "1", folder=folder).needs(
        0, out="saved to tiny-4.safetensors\n")
    expect(read(folder, "tiny.safetensors") == first, "the first one was replaced")
    train(folder, "--steps", "1", "--overwrite", out="saved to tiny.safetensors\n")
    expect(read(folder, "tiny.safetensors") == read(folder, "tiny-2.safetensors") != first, "it was not replaced")


@case
def a_link_to_nothing(folder):
    """It has the name, and what it leads to is not made without being asked for."""
    problem(folder)
    for name in ("tiny.safetensors", "log"):
        os.symlink("elsewhere", os.path.join(folder, name))
    train(folder, "--steps", "1", out="saved to tiny-2.safetensors\n")
    train(folder, "--steps", "1", "--log", "log", status=1, out="", err=f"koine: 'log' {TAKEN}")
    expect(not os.path.exists(os.path.join(folder, "elsewhere")), f"found {os.listdir(folder)}")


@case
def a_name_that_was_given(folder):
    problem(folder)
    os.mkdir(os.path.join(folder, "sub.d"))
    for option, name in (("--save", "sub.d/mine"), ("--log", "log"), ("--report", "page.html"), ("--trace", "t.json")):
        write(folder, name, "mine")
        found = train(folder, "--steps", "1", option, name, status=1, out="", err=f"koine: '{name}' {TAKEN}")
        expect("training tiny" not in found.err, f"it was reported after the training began: {found}")
        expect(read(folder, name) == b"mine" and not models(folder), f"{option}: {os.listdir(folder)}")
        train(folder, "--steps", "1", option, name, "--overwrite", "--quiet")
        expect(read(folder, name) != b"mine", f"{option} was not replaced")
        if option != "--save":
            os.remove(os.path.join(folder, "tiny.safetensors"))


@case
def pipes_and_devices(folder):
    """Files that are renamed into place cannot be written there; streams can."""
    problem(folder)
    os.mkfifo(os.path.join(folder, "pipe"))
    train(folder, "--steps", "1", "--quiet")
    for name in ("pipe", "/dev/null"):
        for option in ("--save", "--report"):
            found = train(folder, "--steps", "1", option, name, "--overwrite", status=1, out="", err=f"koine: '{name}' is a pipe or a device")
            expect("training tiny" not in found.err, f"it was told after the training began: {found}")
        koine("infer", "tiny.safetensors", "x.npy", "--output", name, "--overwrite", folder=folder).needs(1, out="", err="or a device")
        koine("convert", "tiny.safetensors", name, folder=folder).needs(2)
    os.symlink("/dev/null", os.path.join(folder, "null.csv"))
    koine("infer", "tiny.safetensors", "x.npy", "--output", "null.csv", folder=folder).needs(1, out="", err="or a device")
    train(folder, "--steps", "1", "--log", "/dev/null", "--trace", "/dev/null", "--quiet")


@case
def results_and_conversions(folder):
    problem(folder)
    train(folder, "--steps", "1")
    model = read(folder, "tiny.safetensors")
    koine("convert", "tiny.safetensors", "tiny.onnx", folder=folder).needs(0)
    koine("plan", "tiny.koine", "--mode", "infer", folder=folder).needs(0)
    write(folder, "taken.npy", "mine")
    for words in (["infer", "tiny.safetensors", "x.npy", "--output", "tiny.safetensors"],
                  ["infer", "tiny.safetensors", "x.npy", "--output", "taken.npy"],
                  ["infer", "tiny.onnx", "--input", "x.npy", "--output", "taken.npy"],
                  ["infer", "tiny.safetensors", "x.npy", "--trace", "taken.npy"],
                  ["convert", "tiny.onnx", "tiny.safetensors"], ["convert", "tiny.safetensors", "tiny.onnx"],
                  ["convert", "tiny.safetensors", "tiny.koine"],
                  ["bench", "tiny.koine", "--dump", "taken.npy"], ["bench", "tiny.koine", "--trace", "taken.npy"],
                  ["bench-crossover", "--plot", "taken.npy"]):
        koine(*words, folder=folder).needs(1, out="", err=TAKEN)
    expect(read(folder, "tiny.safetensors") == model and read(folder, "taken.npy") == b"mine", "something was replaced")
    koine("infer", "tiny.safetensors", "x.npy", "--output", "taken.npy", "--overwrite", folder=folder).needs(0)
    expect(read(folder, "taken.npy")[:6] == b"\x93NUMPY", "it was not replaced")
    koine("convert", "tiny.safetensors", "tiny.onnx", "--overwrite", folder=folder).needs(0)


@case
def the_same_training_goes_on(folder):
    problem(folder)
    fixed = ["--schedule", "constant", "--quiet"]
    train(folder, "--steps", "4", *fixed, "--save", "whole")
    train(folder, "--steps", "2", *fixed, "--save", "part")
    train(folder, "--steps", "2", *fixed, "--save", "other", "--seed", "2")
    other = read(folder, "other")
    # Into its own file, named or not, but not into that of another training.
    train(folder, "--steps", "3", *fixed, "--resume", "part", "--log", "log", out="saved to part\n")
    train(folder, "--steps", "4", *fixed, "--resume", "part", "--save", "part", "--log", "log", out="saved to part\n")
    expect(read(folder, "part") == read(folder, "whole"), "other bits")
    expect(read(folder, "log").count(b"lr") == 2, "the log was not added to")
    train(folder, "--steps", "5", *fixed, "--resume", "part", "--save", "other", status=1, out="", err=f"'other' {TAKEN}")
    expect(read(folder, "other") == other, "another training was replaced")
    # A shorter one is not the place of what has learnt longer.
    train(folder, "--steps", "2", *fixed, "--save", "short")
    train(folder, "--steps", "3", *fixed, "--resume", "short", "--save", "whole", status=1, err=f"'whole' {TAKEN}")


@case
def report_and_trace_of_another_training(folder):
    """--resume replaces those of the training that goes on, and no others."""
    problem(folder)
    outputs = ["--report", "page.html", "--trace", "t.json"]
    train(folder, "--steps", "1", "--save", "one", *outputs)
    train(folder, "--steps", "1", "--save", "two", "--seed", "2")
    pages = [read(folder, name) for name in ("page.html", "t.json")]
    json.loads(pages[1])
    for option, name in (outputs[:2], outputs[2:]):
        found = train(folder, "--steps", "2", "--resume", "two", "--seed", "2", option, name, status=1, out="",
                      err=f"koine: '{name}' {TAKEN}")
        expect("training tiny" not in found.err, f"it was told after the training began: {found}")
    expect([read(folder, name) for name in ("page.html", "t.json")] == pages, "one was replaced")
    train(folder, "--steps", "2", "--resume", "one", *outputs, out="done after 2 steps")
    expect(all(read(folder, name) != page for name, page in zip(("page.html", "t.json"), pages)), "one was not replaced")
    train(folder, "--steps", "2", "--resume", "two", "--seed", "2", *outputs, "--overwrite", out="done after 2 steps")


@case
def two_outputs_of_one_name(folder):
    problem(folder)
    os.mkdir(os.path.join(folder, "sub"))
    for first, second in (("--save a", "--log a"), ("--log a", "--report ./a"), ("--report sub/a", "--trace sub//../sub/a")):
        found = train(folder, "--steps", "1", *first.split(), *second.split(), status=2, out="")
        told = f"koine: {first.split()[0]} and {second.split()[0]} would both write '{second.split()[1]}'"
        expect(told in found.err, f"no {told} in {found}")
    train(folder, "--steps", "1", "--log", "tiny.safetensors", status=1, out="", err="koine: the model and --log would both write")
    train(folder, "--steps", "1", "--run", "sub/run", "--trace", "sub/run/log.jsonl", status=2, err="--log and --trace")
    expect(not models(folder) and not os.listdir(os.path.join(folder, "sub", "run")), "something was written")
    train(folder, "--steps", "1")
    koine("infer", "tiny.safetensors", "x.npy", "--output", "a.csv", "--trace", "a.csv", folder=folder).needs(
        2, out="", err="koine: --output and --trace would both write 'a.csv'")
    koine("bench", "tiny.koine", "--dump", "a.npy", "--trace", "a.npy", folder=folder).needs(2, out="", err="--trace and --dump")
    os.symlink("log", os.path.join(folder, "link"))
    write(folder, "log", "mine")
    train(folder, "--steps", "1", "--log", "log", "--trace", "link", "--overwrite", status=2, err="would both write 'link'")
    expect(read(folder, "log") == b"mine", "the log was begun")


@case
def checkpoints_go_on(folder):
    problem(folder)
    fixed = ["--schedule", "constant", "--quiet", "--checkpoints"]
    train(folder, "--steps", "2", *fixed, "other", "--seed", "2", out="saved to tiny.safetensors\n")
    train(folder, "--steps", "2", *fixed, "some", "--save", "named", "--log", "log")
    for steps in ("3", "4"):
        train(folder, "--steps", steps, *fixed, "some", "--save", "named", "--log", "log", "--resume", "auto",
              out="saved to named\n")
    expect(read(folder, "log").count(b"lr") == 4, "the log was not added to")
    # Without a name: never where another one is, and always where this one was.
    train(folder, "--steps", "5", *fixed, "some", "--resume", "auto", out="saved to tiny-2.safetensors\n")
    train(folder, "--steps", "6", *fixed, "some", "--resume", "auto", out="saved to tiny-2.safetensors\n")
    train(folder, "--steps", "7", *fixed, "some", "--save", "tiny.safetensors", "--resume", "auto", status=1, err=TAKEN)
    last = os.path.join("some", "step-000000000006.safetensors")
    before = read(folder, last)
    train(folder, "--steps", "7", "--schedule", "constant", "--resume", last, out="saved to tiny-2.safetensors\n")
    expect(read(folder, last) == before, "a checkpoint was replaced")
    # A log that was begun before the first checkpoint is added to.
    write(folder, "begun", "mine\n")
    train(folder, "--steps", "1", *fixed, "new", "--log", "begun", "--resume", "auto")
    expect(read(folder, "begun").startswith(b"mine\n"), "the log was replaced")


@case
def a_run_in_a_folder(folder):
    problem(folder)
    files = ["command.txt", "log.jsonl", "model.safetensors", "options.txt", "report.html"]
    run, there = ["--run", "runs/first", "--schedule", "constant"], os.path.join(folder, "runs", "first")
    train(folder, "--steps", "2", *run, "--freeze", "none of'them", status=1, err="matches none")
    train(folder, "--steps", "2", *run, out="saved to runs/first/model.safetensors\n", err="report in runs/first/report.html")
    expect(sorted(os.listdir(there)) == files and not models(folder), f"found {os.listdir(there)}")
    line = "koine train tiny.koine --data npy:x.npy,y.npy --batch 10 --steps 2 --run runs/first --schedule constant\n"
    expect(read(there, "command.txt") == line.encode(), f"found {read(there, 'command.txt')}")
    before = {name: read(there, name) for name in files}
    train(folder, "--steps", "3", *run, status=1, out="", err="koine: --run: 'runs/first' already has a run (model.safetensors): ")
    expect({name: read(there, name) for name in files} == before, "it was changed all the same")
    train(folder, "--steps", "3", *run, "--resume", "runs/first/model.safetensors", out="done after 3 steps")
    expect(read(there, "command.txt").count(b"\n") == 2 and read(there, "log.jsonl").count(b"lr") == 3, "it did not go on")
    train(folder, "--steps", "4", *run, "--overwrite", "--loss", "cross-entropy", out="done after 4 steps")
    expect(read(there, "command.txt").count(b"\n") == 1 and read(there, "log.jsonl").count(b"lr") == 4, "it was not replaced")
    # The folder of an interrupted run is a run; an empty folder is not.
    os.remove(os.path.join(there, "model.safetensors"))
    train(folder, "--steps", "1", *run, status=1, err="already has a run (log.jsonl)")
    os.mkdir(os.path.join(folder, "empty"))
    train(folder, "--steps", "1", "--run", "empty", "--check", status=None)
    expect(not os.listdir(os.path.join(folder, "empty")), "--check left something")
    train(folder, "--steps", "1", "--run", "empty", "--quiet", "--seed", "7")
    expect(sorted(os.listdir(os.path.join(folder, "empty"))) == files, f"found {os.listdir(os.path.join(folder, 'empty'))}")
    for option in ("save", "log", "report"):
        train(folder, "--run", "none", "--" + option, "a", status=2, err=f"omit --{option}")
    write(folder, "file", "")
    train(folder, "--run", "file/in", status=1, out="", err="koine: --run: cannot create the folder 'file/in': Not a directory")
    train(folder, "--run", "file", status=1, out="", err="file")


@case
def models_of_onnx(folder):
    problem(folder)
    train(folder, "--steps", "1")
    koine("convert", "tiny.safetensors", "net.onnx", folder=folder).needs(0)
    words = ["train", "net.onnx", *DATA, "--batch", "10", "--quiet"]
    koine(*words, "--steps", "1", folder=folder).needs(0, out="saved to net-trained.onnx\n")
    koine(*words, "--steps", "1", folder=folder).needs(0, out="saved to net-trained-2.onnx\n")
    for steps in ("1", "2", "3"):
        koine(*words, "--steps", steps, "--checkpoints", "some", "--resume", "auto", "--save", "named.onnx",
              folder=folder).needs(0, out="saved to named.onnx\n")


@case
def a_name_that_is_taken_meanwhile(folder):
    problem(folder)
    child = subprocess.Popen([KOINE, "train", "tiny.koine", *DATA, "--steps", "1000000000", "--log", "/dev/stdout"], cwd=folder,
                             env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=-1, stderr=subprocess.DEVNULL, text=True)
    child.stdout.readline()
    write(folder, "tiny.safetensors", "mine")
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate()
    expect(re.search(r"^saved to tiny-2\.safetensors$", out, re.M), f"found {out[-300:]}")
    expect(read(folder, "tiny.safetensors") == b"mine", "it was replaced")


run_cases()
