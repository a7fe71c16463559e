"""Training in 16 bits ends as accurate as in float32: networks on digits, from three seeds.

usage: narrow.py KOINE HOUSE_TESTS PRECISION
"""
import os
import re
import sys

from koine import add, expect, koine, run_cases

PRECISION = sys.argv[3]
SEEDS = (1, 2, 3)
APART = 0.003  # of the accuracies' means; the least of three float32 seeds and the most are as far from each other
WIDTHS = re.compile(r"^(conv|residual|downsample) (64|128|256|512)\b", re.MULTILINE)


def narrow_resnet(folder):
    """resnet18c with a quarter of the channels, as a file."""
    text = koine("models", "resnet18c", "--text").needs().out
    path = os.path.join(folder, "resnet18c.koine")
    with open(path, "w", encoding="utf-8") as file:
        file.write(WIDTHS.sub(lambda found: f"{found[1]} {int(found[2]) // 4}", text))
    return path, "--set", "channels=1,size=28"


def accuracy(folder, network, steps, precision, seed):
    saved = "trained.safetensors"
    koine("train", *network, "--data", "digits:train", "--steps", steps, "--batch", "64", "--seed", str(seed), "--quiet", "--save",
          saved, "--overwrite", "--precision", precision, folder=folder).needs()
    return koine("eval", saved, "--data", "digits:test", "--json", "--precision", precision, folder=folder).objects()[0]["accuracy"]


def is_as_accurate(folder, network, steps):
    found = {precision: [accuracy(folder, network, steps, precision, seed) for seed in SEEDS] for precision in ("float32", PRECISION)}
    wide, narrow = (sum(values) / len(SEEDS) for values in found.values())
    expect(min(found["float32"]) > 0.9, f"float32 has not learnt it: {found}")
    expect(narrow >= wide - APART, f"{PRECISION} is less accurate: {found}")


add(f"{PRECISION} is as accurate, lenet", lambda folder: is_as_accurate(folder, ("lenet",), "400"))
add(f"{PRECISION} is as accurate, resnet18c", lambda folder: is_as_accurate(folder, narrow_resnet(folder), "300"))
run_cases()
