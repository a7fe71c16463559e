"""Koine, PyTorch and ONNX Runtime on the same networks, in turn. `python3 tools/compare --help` teaches."""

import argparse
import json
import os
import sys
import tempfile
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chart  # noqa: E402
import measure  # noqa: E402
import peers  # noqa: E402
import table  # noqa: E402
from cases import CASES, Mistake, rows  # noqa: E402
from probe import Probe  # noqa: E402
from results import PEERS, USUAL  # noqa: E402

TEXT = """Compares Koine with PyTorch as installed, PyTorch at its best and ONNX Runtime (inference), on this machine's
processor.

All do the same networks with the same shapes, one after the other in several rounds, and what counts is the ratio
within a round: machines are not equally fast all day. Before anything is timed, logits (in training the losses of the
first steps) from the same weights and samples are compared. With each measurement a probe measures what the machine
could have done just then.

Needs a built Koine, and whatever of its peers is wanted, in the Python that runs this:

    python3 -m venv VENV && VENV/bin/pip install torch numpy onnx onnxruntime
    apt-get install libjemalloc2 g++          # for PyTorch at its best
    VENV/bin/python tools/compare --output FOLDER

Two more peers are PyTorch's networks computed by Koine: `step` by koine.torch.train_step (training), `compiled` by
torch.compile with Koine as its backend. They show what such a network takes more than Koine's own. Their package is
that of the build folder of --koine, or an installed one.

What is missing is named, and its column left out; "best" is not said of less than all that makes PyTorch fast."""

EXAMPLES = """examples:
  python3 tools/compare --cases mlp,lenet --rounds 3 --output /tmp/compare
  python3 tools/compare --cases resnet50:1,resnet50:8 --modes infer --peers torch,onnx --output /tmp/compare
  python3 tools/compare --modes train --peers step,compiled,torch --output /tmp/compare
  python3 tools/compare --from /tmp/compare/compare.json --output /tmp/compare      # only the table and the chart

The folder gets compare.md, compare.svg, compare.json (raw, after each row) and peers.log. It takes about
(SECONDS + 1) x ROUNDS x 4 for each row, and a minute more for torch.compile of the large networks."""


def arguments():
    parser = argparse.ArgumentParser(
        prog="compare", description=TEXT, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases",
        default="",
        metavar="A,B:8",
        help="networks, with a batch after a colon (all: " + " ".join(CASES) + ")",
    )
    parser.add_argument("--modes", default="train,infer", help="train, infer or both (both)")
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of alternating rounds; 0: only compare results (5)"
    )
    parser.add_argument("--seconds", type=float, default=3, help="minimum time per measurement (3)")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="threads of each framework (2)")
    parser.add_argument(
        "--peers",
        default=",".join(USUAL),
        help="any of torch, best, onnx, step, compiled; none: only Koine (torch,best,onnx)",
    )
    parser.add_argument("--output", default="", metavar="DIR", help="folder for results (none)")
    parser.add_argument("--koine", default="", metavar="PATH", help="the built command (build*/tools/koine)")
    parser.add_argument(
        "--from", dest="source", default="", metavar="FILE", help="write table and chart from raw results instead of measuring"
    )
    parser.add_argument("--json", action="store_true", help="print the raw results instead of the table")
    return parser.parse_args()


def write(folder, name, text):
    """Whole or not at all."""
    if folder and text:
        path = os.path.join(folder, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)


def keep(folder, raw):
    write(folder, "compare.json", json.dumps(raw, indent=1) + "\n")
    write(folder, "compare.md", table.markdown(raw))
    write(folder, "compare.svg", chart.svg(raw))


def choose_peers(words):
    """(peers that can take part, lines about the others)"""
    chosen, left_out = [], []
    for word in [] if words == "none" else words.split(","):
        if word not in PEERS:
            raise Mistake(f"--peers: found '{word}', expected some of {','.join(PEERS)}, or none")
        lacking = peers.missing(word)
        if lacking:
            left_out.append(lacking)
        else:
            chosen.append(word)
    return chosen, list(dict.fromkeys(left_out))


def measured(options, scratch):
    if options.rounds < 0 or options.seconds < 0 or options.threads < 1:
        raise Mistake("expected --rounds and --seconds of at least 0, --threads of at least 1")
    chosen = rows([word for word in options.cases.split(",") if word], options.modes.split(","))
    able, left_out = choose_peers(options.peers)
    for line in left_out:
        measure.say(line)
    limits = peers.Limits(options.threads)
    with open(os.path.join(options.output or scratch, "peers.log"), "w", encoding="utf-8") as log:
        settings = types.SimpleNamespace(
            peers=able,
            left_out=left_out,
            limits=limits,
            log=log,
            rounds=options.rounds,
            seconds=options.seconds,
            scratch=scratch,
            probe=Probe(scratch, limits),
            keep=lambda raw: keep(options.output, raw),
            koine=peers.Koine(peers.find_koine(options.koine), limits, log),
        )
        return measure.measure(chosen, settings)


def main():
    options = arguments()
    try:
        if options.output:
            os.makedirs(options.output, exist_ok=True)
        if options.source:
            with open(options.source, encoding="utf-8") as file:
                raw = json.load(file)
        else:
            with tempfile.TemporaryDirectory(prefix="koine-compare-") as scratch:
                raw = measured(options, scratch)
    except KeyboardInterrupt:
        print("compare: interrupted; finished rows are in the folder of --output", file=sys.stderr)
        return 130
    except (Mistake, peers.Failed, OSError, ValueError) as problem:
        print(f"compare: {problem}", file=sys.stderr)
        return 2 if isinstance(problem, Mistake) else 1
    keep(options.output, raw)
    sys.stdout.write(json.dumps(raw, indent=1) + "\n" if options.json else table.markdown(raw))
    if options.source:
        return 0
    wrong = [row for row in raw["rows"] if row["check"] and not row["check"]["agrees"]]
    empty = [row for row in raw["rows"] if not row["rounds"] and raw["about"]["rounds"]]
    return 1 if wrong or empty else 0


if __name__ == "__main__":
    sys.exit(main())
