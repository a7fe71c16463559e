"""Training in 16 bits ends as accurate as in float32: lenet on digits, from three seeds.

usage: narrow.py KOINE HOUSE_TESTS PRECISION
"""
import sys

from koine import add, expect, koine, run_cases

PRECISION = sys.argv[3]
SEEDS = (1, 2, 3)
APART = 0.004  # of the accuracies' means; the least of three float32 seeds and the most are as far from each other


def accuracy(folder, precision, seed):
    koine("train", "lenet", "--data", "digits:train", "--steps", "400", "--batch", "64", "--seed", str(seed), "--quiet", "--save",
          "trained.safetensors", "--overwrite", "--precision", precision, folder=folder).needs()
    return koine("eval", "trained.safetensors", "--data", "digits:test", "--json", "--precision", precision, folder=folder).objects()[0]["accuracy"]


def is_as_accurate(folder):
    found = {precision: [accuracy(folder, precision, seed) for seed in SEEDS] for precision in ("float32", PRECISION)}
    wide, narrow = (sum(values) / len(SEEDS) for values in found.values())
    expect(min(found["float32"]) > 0.9, f"float32 has not learnt it: {found}")
    expect(narrow >= wide - APART, f"{PRECISION} is less accurate: {found}")


add(f"{PRECISION} is as accurate", is_as_accurate)
run_cases()
