"""koine train --check: what stands against a training is told, and nothing is saved.

usage: check.py KOINE HOUSE_TESTS
"""
import os

from koine import SAMPLES, TINY, WIDTH, case, expect, koine, numbers_of, problem, run_cases, strict, write, write_npy


def check(folder, *more, model="tiny.koine", status=0, data=True):
    if data:
        problem(folder)
    before = sorted(os.listdir(folder))
    found = koine("train", model, "--data", "npy:x.npy,y.npy", "--check", "--json", "--batch", "10", *more, folder=folder)
    found.needs(status)
    expect(sorted(os.listdir(folder)) == before, f"something was written: {os.listdir(folder)}")
    lines = [strict(line) for line in found.out.splitlines()]
    expect(all(list(line) == ["kind", "check", "what", "fix"] for line in lines), f"found {found}")
    expect(status == any(line["kind"] == "problem" for line in lines), f"the status does not fit: {found}")
    return lines


def needs(lines, kind, about, *words):
    expect(any(line["kind"] == kind and line["check"] == about and all(word in line["what"] for word in words)
               for line in lines), f"no {kind} about {about} with {words}: {lines}")


@case
def a_sound_training(folder):
    lines = check(folder, "--lr", "0.05", "--epochs", "3")
    expect(all(line["kind"] == "ok" for line in lines), f"found {lines}")
    needs(lines, "ok", "data", "'x' has the mean")
    needs(lines, "ok", "gradient", "norms from", "logits")
    needs(lines, "ok", "loss", "chance level is 1.099")
    needs(lines, "ok", "learning", "can be overfitted")
    needs(lines, "ok", "time", "all 30 about")
    text = koine("train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--check", "--batch", "10", "--lr", "0.05",
                 folder=folder)
    text.needs(0, out=("ok       learning: ", "no problems found"))


@case
def rates_that_are_wrong(folder):
    needs(check(folder, "--optimizer", "sgd", "--lr", "1e-7", status=1), "problem", "learning", "not even one batch", "low")
    lines = check(folder, "--optimizer", "sgd", "--lr", "1e30", status=1)
    needs(lines, "problem", "learning", "no longer finite")


@case
def a_softmax_that_is_applied_twice(folder):
    text = TINY.replace("logits = linear 3", "linear 3\nsure = softmax\nreshape 3")
    expect("softmax" in text, text)
    write(folder, "twice.koine", text)
    lines = check(folder, "--lr", "0.05", model="twice.koine")
    needs(lines, "hint", "loss", "'sure' outputs probabilities", "applies a softmax itself", "Remove the layer")
    # A softmax at the very end is left out by the loss.
    write(folder, "once.koine", text.replace("\nreshape 3", ""))
    lines = check(folder, "--lr", "0.05", model="once.koine")
    expect(not any("probabilities" in line["what"] for line in lines), f"found {lines}")


@case
def parameters_without_a_gradient(folder):
    # After a relu whose input is always negative.
    x = [-abs(number) - 0.1 for number in numbers_of(SAMPLES * WIDTH)]
    problem(folder)
    write_npy(os.path.join(folder, "x.npy"), "<f4", (SAMPLES, WIDTH), x)
    write(folder, "dead.koine", f"koine 1\nmodel dead\ninput x {WIDTH}\nrelu\nfirst = linear 8\nrelu\nlogits = linear 3\n")
    lines = check(folder, "--lr", "0.05", model="dead.koine", status=1, data=False)
    needs(lines, "problem", "gradient", "first.weight", "will not be trained")
    expect(not any("logits" in line["what"] for line in lines if line["kind"] == "problem" and line["check"] == "gradient"),
           f"found {lines}")


@case
def what_is_frozen_is_no_mistake(folder):
    write(folder, "tiny.koine", TINY)
    lines = check(folder, "--lr", "0.05", "--freeze", "logits.bias")
    needs(lines, "ok", "gradient", "frozen: logits.bias")


@case
def data_that_cannot_be_learnt(folder):
    problem(folder)
    numbers = numbers_of(SAMPLES * WIDTH)
    write_npy(os.path.join(folder, "x.npy"), "<f4", (SAMPLES, WIDTH), [1000 + 500 * number for number in numbers])
    needs(check_any(folder), "hint", "data", "subtract the mean")
    write_npy(os.path.join(folder, "x.npy"), "<f4", (SAMPLES, WIDTH), [float("nan")] + numbers[1:])
    needs(check_any(folder, "--no-shuffle"), "problem", "data", "1 of 60 numbers of 'x' are not finite")
    write_npy(os.path.join(folder, "x.npy"), "<f4", (SAMPLES, WIDTH), numbers)
    write_npy(os.path.join(folder, "y.npy"), "<i4", (SAMPLES,), [i // 50 for i in range(SAMPLES)])
    needs(check_any(folder, "--no-shuffle"), "hint", "data", "sorted by class")


def check_any(folder, *more):
    """Whatever the status is."""
    found = koine("train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--check", "--json", "--batch", "10", *more,
                  folder=folder)
    return [strict(line) for line in found.out.splitlines()]


run_cases()
