"""What a way of training costs or saves, next to the usual one: Koine's and PyTorch's.

usage: variants.py memory|bfloat16 [--cases resnet50:16,gpt:16] [--modes train,infer] [--koine KOINE] [--rounds N]
                   [--seconds S] [--threads N] [--json FILE]

memory: PyTorch's torch.utils.checkpoint, which computes each block (a residual block, a layer of a transformer) again in the
backward pass, and Koine's --memory at the same part of Koine's memory as this leaves of PyTorch's.
bfloat16: PyTorch's autocast, and Koine's --precision.

In each round all four run one after the other, and ratios are made within the round; the table has medians over the rounds,
as Markdown on standard output. Memory is the most of a process, less what it has without a model.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile

import cases
import peers

# Of each variant: the words of PyTorch's worker, and the rows that it is for, "" all of them.
VARIANTS = {"memory": ("checkpoint", "resnet50:16,mobilenetv2:16,gpt:16"), "bfloat16": ("autocast", "")}
SIDES = ("torch", "torch_variant", "koine", "koine_variant")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--cases", default="", help="networks, with a batch size after a colon (the variant's networks)")
    parser.add_argument("--modes", default="train", help="train, infer or both, separated by a comma (train)")
    parser.add_argument("--koine", default="", help="the built command (build*/tools/koine)")
    parser.add_argument("--rounds", type=int, default=3, help="number of alternating rounds (3)")
    parser.add_argument("--seconds", type=float, default=3, help="minimum time per measurement (3)")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="threads of each framework (2)")
    parser.add_argument("--json", default="", help="file for the measurements")
    return parser.parse_args()


def of_worker(worker, seconds):
    found = worker.run(seconds)
    return {"median_ms": found["median_ms"], "bytes": found["peak_bytes"] - found["base_bytes"]}


class Comparison:
    def __init__(self, options, log, scratch):
        self.options, self.log, self.scratch = options, log, scratch
        self.limits = peers.Limits(options.threads)
        self.limits.apply()
        self.koine = peers.Koine(peers.find_koine(options.koine), self.limits, log)

    def of_koine(self, row, **more):
        found = self.koine.bench(row, row.case, self.options.seconds, **more)
        return {
            "median_ms": found["median_ms"],
            "bytes": found["rss_peak_bytes"] - found["rss_base_bytes"],
            "planned": found["plan_bytes"],
        }

    def koine_variant(self, row, found):
        """`found`: what the round has so far."""
        if self.options.variant != "memory":
            return self.of_koine(row, precision=self.options.variant)
        share = found["torch_variant"]["bytes"] / found["torch"]["bytes"]
        return self.of_koine(row, memory=str(int(share * found["koine"]["planned"])))

    def measure(self, row):
        """The rounds of a row: a dictionary by side each."""
        peers.prepare(row, self.scratch, self.limits, self.log, False)
        rounds = []
        with contextlib.ExitStack() as stack:
            workers = {}
            for side, words in (("torch", ()), ("torch_variant", VARIANTS[self.options.variant][:1])):
                workers[side] = peers.torch_worker(row, self.scratch, self.limits, self.log, words)
                stack.callback(workers[side].close)
            for number in range(self.options.rounds):
                found = {side: of_worker(worker, self.options.seconds) for side, worker in workers.items()}
                found["koine"] = self.of_koine(row)
                found["koine_variant"] = self.koine_variant(row, found)
                rounds.append(found)
                shown = (f"{side} {one['median_ms']:.4g} ms {one['bytes'] / 1e6:.0f} MB" for side, one in found.items())
                print(f"{row.case} {row.mode}, round {number + 1}: {', '.join(shown)}", file=sys.stderr, flush=True)
        return rounds


def middle(rounds, value):
    return statistics.median(value(one) for one in rounds)


def line(row, rounds):
    cells = [f"`{row.case}`, {row.mode}", str(row.batch)]
    for side in SIDES:
        taken, memory = (middle(rounds, lambda one, key=key: one[side][key]) for key in ("median_ms", "bytes"))
        cells.append(f"{taken:.3g} ms, {memory / 1e6:.0f} MB")
    for above, below in (("torch_variant", "torch"), ("koine_variant", "koine"), ("koine_variant", "torch_variant")):
        cells.append(f"{middle(rounds, lambda one: one[above]['median_ms'] / one[below]['median_ms']):.2f}")
    return "| " + " | ".join(cells) + " |"


def main():
    options = arguments()
    torch_words, usual = VARIANTS[options.variant]
    words = [word for word in (options.cases or usual).split(",") if word]
    rows = cases.rows(words, options.modes.split(","))
    raw = {}
    option = "--memory" if options.variant == "memory" else f"--precision {options.variant}"
    print(f"| | batch | PyTorch | with `{torch_words}` | Koine | with `{option}` | time: PyTorch | Koine | Koine by PyTorch |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="koine-variants-") as scratch:
        with open(os.path.join(scratch, "log"), "w", encoding="utf-8") as log:
            comparison = Comparison(options, log, scratch)
            for row in rows:
                raw["-".join(map(str, row))] = rounds = comparison.measure(row)
                print(line(row, rounds), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(raw, file, indent=1)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (cases.Mistake, peers.Failed, OSError) as problem:
        sys.exit(f"variants: {problem}")
