"""koine bench in the hands of another program: --weights and --input in, --dump out, all compared with plain Python.

usage: exchange.py KOINE HOUSE_TESTS
"""
import functools
import math
import os

from koine import CLASSES, TINY, WIDTH, add, case, expect, koine, numbers_of, read_safetensors, run_cases, write
from koine import write_safetensors

HIDDEN, BATCH, BATCHES = 16, 4, 3
SIZES = {"linear1.weight": (HIDDEN, WIDTH), "linear1.bias": (HIDDEN,), "logits.weight": (CLASSES, HIDDEN),
         "logits.bias": (CLASSES,)}


def start():
    """{name: numbers} that are exact in single precision."""
    return {name: [n / 2 for n in numbers_of(math.prod(size), seed)] for seed, (name, size) in
            enumerate(SIZES.items(), 5)}


def files(folder, samples=BATCH * BATCHES):
    """Writes tiny.koine, w.safetensors and xy.safetensors; returns the parameters, the samples and their classes."""
    write(folder, "tiny.koine", TINY)
    parameters, x = start(), numbers_of(samples * WIDTH, 3)
    x = [x[i * WIDTH:(i + 1) * WIDTH] for i in range(samples)]
    y = [i % CLASSES for i in range(samples)]
    write_safetensors(os.path.join(folder, "w.safetensors"),
                      {name: ("F32", SIZES[name], numbers) for name, numbers in parameters.items()})
    write_safetensors(os.path.join(folder, "xy.safetensors"),
                      {"y": ("I64", (samples,), y), "x": ("F32", (samples, WIDTH), [n for row in x for n in row])})
    return parameters, x, y


def layer(parameters, name, inputs):
    weight, bias = parameters[name + ".weight"], parameters[name + ".bias"]
    width = len(inputs)
    return [bias[i] + sum(weight[i * width + j] * inputs[j] for j in range(width)) for i in range(len(bias))]


def forward(parameters, row):
    hidden = [max(n, 0) for n in layer(parameters, "linear1", row)]
    return hidden, layer(parameters, "logits", hidden)


def step(parameters, moments, x, y):
    """The loss of a batch; parameters and moments become those after it (SGD, momentum 0.9, 0.01)."""
    gradients, loss = {name: [0.0] * len(numbers) for name, numbers in parameters.items()}, 0.0
    for row, label in zip(x, y):
        hidden, logits = forward(parameters, row)
        total = sum(math.exp(n) for n in logits)
        loss -= math.log(math.exp(logits[label]) / total) / len(x)
        out = [(math.exp(n) / total - (i == label)) / len(x) for i, n in enumerate(logits)]
        weight = parameters["logits.weight"]
        back = [sum(out[i] * weight[i * HIDDEN + j] for i in range(CLASSES)) if hidden[j] > 0 else 0.0
                for j in range(HIDDEN)]
        for name, above, below in (("logits", out, hidden), ("linear1", back, row)):
            for i, slope in enumerate(above):
                gradients[name + ".bias"][i] += slope
                for j, number in enumerate(below):
                    gradients[name + ".weight"][i * len(below) + j] += slope * number
    for name, gradient in gradients.items():
        for i, slope in enumerate(gradient):
            moments[name][i] = 0.9 * moments[name][i] + slope
            parameters[name][i] -= 0.01 * moments[name][i]
    return loss


@case
def logits_of_what_is_timed(folder):
    parameters, x, _ = files(folder)
    found = koine("bench", "tiny.koine", "--mode", "infer", "--batch", str(BATCH), "--weights", "w.safetensors",
                  "--input", "xy.safetensors", "--dump", "out.safetensors", "--seconds", "0", "--json",
                  folder=folder).needs(0)
    expect(found.objects()[0]["batch"] == BATCH, f"{found}")
    tensors = read_safetensors(os.path.join(folder, "out.safetensors"))
    expect(list(tensors) == ["logits"], f"found {list(tensors)}")
    kind, shape, logits = tensors["logits"]
    expect((kind, shape) == ("F32", [BATCH * BATCHES, CLASSES]), f"found {kind} {shape}")
    for i, row in enumerate(x):
        wanted = forward(parameters, row)[1]
        got = logits[i * CLASSES:(i + 1) * CLASSES]
        expect(all(abs(a - b) < 1e-5 for a, b in zip(wanted, got)), f"sample {i}: {got}, expected {wanted}")


@case
def losses_of_what_is_timed(folder):
    parameters, x, y = files(folder)
    moments = {name: [0.0] * len(numbers) for name, numbers in parameters.items()}
    found = koine("bench", "tiny.koine", "--batch", str(BATCH), "--weights", "w.safetensors", "--input",
                  "xy.safetensors", "--dump", "out.safetensors", "--seconds", "0", "--json",
                  folder=folder).needs(0).objects()[0]
    kind, shape, losses = read_safetensors(os.path.join(folder, "out.safetensors"))["losses"]
    expect((kind, shape) == ("F64", [found["n"] + 4]), f"{kind} {shape} for {found['n']} timed steps and 4 before")
    expect(math.isclose(losses[-1], found["loss"], rel_tol=1e-6), f"the last is {losses[-1]}: {found}")
    for turn in range(8):
        first = turn % BATCHES * BATCH
        wanted = step(parameters, moments, x[first:first + BATCH], y[first:first + BATCH])
        expect(abs(losses[turn] - wanted) < 1e-5, f"step {turn}: {losses[turn]}, expected {wanted}")


@case
def all_of_a_file_is_one_batch(folder):
    files(folder)
    found = koine("bench", "tiny.koine", "--mode", "infer", "--input", "xy.safetensors", "--seconds", "0.1", "--json",
                  folder=folder)
    expect(found.needs(0).objects()[0]["batch"] == BATCH * BATCHES, f"{found}")


MISTAKES = [
    ("tiny.koine linear --dump a", 2, "to one model at a time"),
    ("tiny.koine --dump nowhere/a", 1, "'nowhere/a' cannot be written"),
    ("tiny.koine --weights nothing", 1, 'cannot open "nothing"'),
    ("tiny.koine --weights xy.safetensors", 1, "xy.safetensors: tensor 'linear1.weight' of model 'tiny' is missing"),
    ("tiny.koine --weights wrong.safetensors", 1, "wrong.safetensors: tensor 'linear1.weight' is float32 (6, 16); "
     "expected float32 (16, 6)"),
    ("tiny.koine --input nothing", 1, 'cannot open "nothing"'),
    ("tiny.koine --input w.safetensors", 1, "'w.safetensors' has no tensor 'x'; expected float32 (batch,6)"),
    ("tiny.koine --input wrong.safetensors", 1, "'wrong.safetensors': tensor 'x' is float32 (4,5); expected float32 "
     "(batch,6)"),
    ("tiny.koine --input few.safetensors", 1, "'few.safetensors': tensor 'y' is int64 (3); expected 4 samples"),
    ("tiny.koine --input alone.safetensors", 1, "'alone.safetensors' has no tensor 'y'; expected int32 (batch)"),
    ("tiny.koine --input fractions.safetensors", 1, "tensor 'y' is float32 (4); expected int32 (batch)"),
    ("tiny.koine --input xy.safetensors --batch 5", 1, "has 12 samples; expected a multiple of --batch 5"),
]


def mistake(line, status, text, folder):
    files(folder)
    x, numbers = ("F32", (4, WIDTH), numbers_of(4 * WIDTH)), numbers_of(HIDDEN * WIDTH)
    swapped = {"x": ("F32", (4, 5), numbers_of(20)), "linear1.weight": ("F32", (WIDTH, HIDDEN), numbers)}
    for name, tensors in (("wrong", swapped), ("few", {"x": x, "y": ("I64", (3,), [0, 1, 2])}), ("alone", {"x": x}),
                          ("fractions", {"x": x, "y": ("F32", (4,), [0, 1, 2, 0])})):
        write_safetensors(os.path.join(folder, name + ".safetensors"), tensors)
    koine("bench", *line.split(), folder=folder).needs(status, out="", err=("koine: ", text))


for row in MISTAKES:
    add(f"mistake: {row[0]}", functools.partial(mistake, *row))

run_cases()
