"""Training steps as Koine plans them for a device that this machine does not have: programs and launches."""
import json
import os
import shutil
import subprocess

from lab.compilers import Failure

BATCHES = {"gpt": 8, "lstm": 64, "mlp": 64, "lenet": 64}  # as the benchmarks use them
BATCH = 32


def koine_of(given):
    """The path of the command koine."""
    root = os.path.abspath(__file__)
    for _ in range(4):
        root = os.path.dirname(root)
    built = os.path.join(root, "build", "tools", "koine")
    found = given or (built if os.path.exists(built) else shutil.which("koine"))
    if not found:
        raise Failure("no koine in build/tools or PATH; build it, or name it with --koine")
    return found


def wishes(text):
    """Pairs of model and batch in NAME[:BATCH],…"""
    for wish in text.split(","):
        name, _, batch = wish.partition(":")
        yield name, int(batch) if batch else BATCHES.get(name, BATCH)


def add_arguments(parser):
    """How steps are planned."""
    parser.add_argument("--precision", default="float32", metavar="TYPE", help="how results are stored, as koine plan takes it")
    parser.add_argument("--math", default="exact", choices=("exact", "fast"), help="how products are computed, as koine plan takes it")


def launches_in(folder):
    """The launches of a plan that was written there, of a step that runs each time."""
    with open(os.path.join(folder, "launches.jsonl"), encoding="utf-8") as file:
        steps = [json.loads(line) for line in file]
    return [step for step in steps if step["kind"] == "kernel" and not step["once"]]


def record(koine, name, batch, target, folder, given):
    """Has Koine plan a training step of the model and write its programs, by the arguments that are `given`; the launches of a step that runs each time."""
    command = [koine, "plan", name, "--batch", str(batch), "--target", target.path, "--programs", folder, "--overwrite",
               "--quiet", "--precision", given.precision, "--math", given.math]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip()}")
    return launches_in(folder)
