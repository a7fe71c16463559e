"""The compared networks: their batch sizes, inputs and outputs."""

import collections

# `shape` of one sample; `tokens`: samples are numbers below this, each with a class; 0: they are images
# or vectors of fractions, with one class for all of a sample.
Case = collections.namedtuple("Case", "name shape classes tokens optimizer convolutions dropout")

CASES = {
    case.name: case
    for case in (
        Case("mlp", (1, 28, 28), 10, 0, "sgd", False, False),
        Case("lenet", (1, 28, 28), 10, 0, "sgd", True, False),
        Case("resnet18c", (3, 32, 32), 10, 0, "sgd", True, False),
        Case("vgg11c", (3, 32, 32), 10, 0, "sgd", True, False),
        Case("lstm", (64,), 96, 96, "sgd", False, False),
        Case("gpt", (128,), 96, 96, "adamw", False, False),
        Case("alexnet", (3, 224, 224), 1000, 0, "sgd", True, True),
        Case("resnet50", (3, 224, 224), 1000, 0, "sgd", True, False),
        Case("mobilenetv2", (3, 224, 224), 1000, 0, "sgd", True, True),
    )
}

# SGD has momentum 0.9; AdamW has PyTorch's other defaults.
LEARNING_RATE = {"sgd": 0.01, "adamw": 3e-4}

MODES = ("train", "infer")
BATCHES = {
    "train": {
        "mlp": (128, 32),
        "lenet": (64,),
        "resnet18c": (32,),
        "vgg11c": (32,),
        "lstm": (32,),
        "gpt": (8,),
        "alexnet": (8,),
        "resnet50": (4,),
        "mobilenetv2": (4,),
    },
    "infer": {
        "mlp": (128,),
        "lenet": (64,),
        "resnet18c": (32,),
        "vgg11c": (32,),
        "lstm": (32,),
        "gpt": (8,),
        "alexnet": (8,),
        "resnet50": (1, 8),
        "mobilenetv2": (1, 8),
    },
}

Row = collections.namedtuple("Row", "case mode batch")


class Mistake(Exception):
    """A mistake on the command line, or something missing on this machine."""


def rows(words, modes):
    """The rows of "mlp,resnet50:8" (all cases where there are no words) in these modes."""
    chosen = []
    for mode in modes:
        if mode not in MODES:
            raise Mistake(f"--modes: found '{mode}', expected train, infer or both, separated by a comma")
        for word in words or BATCHES[mode]:
            name, colon, batch = word.partition(":")
            if name not in CASES:
                raise Mistake(f"--cases: found '{name}', expected some of {' '.join(CASES)}")
            if colon and not (batch.isdigit() and int(batch)):
                raise Mistake(f"--cases: found '{word}', expected a number after the colon, such as {name}:8")
            chosen += [Row(name, mode, int(batch))] if colon else [Row(name, mode, one) for one in BATCHES[mode][name]]
    return list(dict.fromkeys(chosen))
