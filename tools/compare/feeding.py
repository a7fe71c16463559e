"""Whether data keeps up with training: the same network fed from JPEG files and from memory.

usage: feeding.py --images FOLDER [--koine KOINE] [--rounds N] [--json FILE]

FOLDER holds a folder for each class, or train/ with such; a part of it is used, through links in a new folder. Times
are what koine train tells with --json: opening the data, which is where images are decoded, and training, all its waiting
included; compiling is not among them. Samples in memory are an npy file of random bytes in the pictures' shape: what they
hold changes no time. Runs take turns, and ratios are made within a round.

resnet18c, one epoch: from JPEG against from memory.
lenet, as many epochs as koine train has by itself: from JPEG against the slower of the only pipeline (koine datasets: opening,
and batches of as many epochs) and training alone (from memory).
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOALS = {"resnet18c": 0.97, "lenet": 0.90}


def link_pictures(source, target, most):
    """A folder for each class in `target` with links, `most` in all; returns their number."""
    source = os.path.abspath(source)
    parts = os.path.join(source, "train")
    source = parts if os.path.isdir(parts) else source
    classes = sorted(name for name in os.listdir(source) if os.path.isdir(os.path.join(source, name)))
    if not classes:
        sys.exit(f"'{source}' has no subfolders; expected one per class")
    count = 0
    for position, name in enumerate(classes):
        wanted = most * (position + 1) // len(classes) - most * position // len(classes)
        files = sorted(os.listdir(os.path.join(source, name)))[:wanted]
        if len(files) < wanted:
            sys.exit(f"'{os.path.join(source, name)}' has {len(files)} pictures; expected {wanted}")
        os.makedirs(os.path.join(target, name))
        for file in files:
            os.symlink(os.path.join(source, name, file), os.path.join(target, name, file))
        count += len(files)
    return count


def write_npy(path, kind, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (kind, "".join(f"{n}, " for n in shape))
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


class Case:
    def __init__(self, options, folder, model, shape, spec, batch, batches, epochs):
        self.koine, self.folder, self.model, self.batch, self.epochs = options.koine, folder, model, batch, epochs
        self.samples = batch * batches
        pictures = os.path.join(folder, model)
        link_pictures(options.images, pictures, self.samples)
        self.jpeg = f"images:{pictures}?{spec}"
        x, y = (os.path.join(folder, f"{model}-{name}.npy") for name in "xy")
        size = self.samples
        for n in shape:
            size *= n
        write_npy(x, "|u1", (self.samples, *shape), os.urandom(size))
        write_npy(y, "<i4", (self.samples,), struct.pack(f"<{self.samples}i", *(i % 10 for i in range(self.samples))))
        self.memory = f"npy:{x},{y}"

    def ask(self, *arguments):
        done = subprocess.run([self.koine, *arguments, "--batch", str(self.batch), "--json", "--quiet"], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, cwd=self.folder)
        if done.returncode != 0:
            sys.exit(f"koine {' '.join(arguments)}\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def train(self, data, *limit):
        """(samples per second, fraction of the time spent waiting for data)"""
        found = self.ask("train", self.model, "--data", data, "--save", "saved", "--overwrite",
                         *(limit or ("--epochs", str(self.epochs))))
        seconds = found["opening_s"] + found["training_s"]
        return self.samples * self.epochs / seconds, found["waited_s"] / found["training_s"]

    def warm_up(self):
        """Fills the cache of compiled kernels."""
        self.train(self.memory, "--steps", "2")
        self.train(self.jpeg, "--steps", "2")

    def pipeline(self):
        found = self.ask("datasets", self.jpeg)
        later = found["later_epoch_s"] * (self.epochs - 1)
        return self.samples * self.epochs / (found["opening_s"] + found["first_epoch_s"] + later)

    def round(self, number):
        runs = {"jpeg": lambda: self.train(self.jpeg), "memory": lambda: self.train(self.memory)}
        order = sorted(runs, reverse=number % 2 == 1)
        row = {name: runs[name]() for name in order}
        row = {"jpeg": row["jpeg"][0], "waited": row["jpeg"][1], "memory": row["memory"][0]}
        row["pipeline"] = self.pipeline()
        slower = row["memory"] if self.model == "resnet18c" else min(row["memory"], row["pipeline"])
        row["ratio"] = row["jpeg"] / slower
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", required=True, help="folder of JPEG files with one subfolder per class")
    parser.add_argument("--koine", default=os.path.join(HERE, "../../build/tools/koine"))
    parser.add_argument("--rounds", type=int, default=5, help="number of alternating rounds (5)")
    parser.add_argument("--json", help="file for raw results")
    options = parser.parse_args()
    options.koine = os.path.abspath(options.koine)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        cases = [Case(options, folder, "resnet18c", (3, 32, 32), "size=32", 32, 20, 1),
                 Case(options, folder, "lenet", (1, 28, 28), "size=28&grey", 64, 50, 10)]
        print("| network | samples, epochs | from JPEG, samples/s | from memory | only pipeline | ratio, median (all) | goal "
              "| waited for data |\n|---|---|---|---|---|---|---|---|")
        for case in cases:
            case.warm_up()
            rows = [case.round(number) for number in range(options.rounds)]
            results[case.model] = rows
            middle = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
            ratios = ", ".join(f"{row['ratio']:.3f}" for row in rows)
            print(f"| `{case.model}` | {case.samples}, {case.epochs} | {middle['jpeg']:.0f} | {middle['memory']:.0f} | "
                  f"{middle['pipeline']:.0f} | {middle['ratio']:.3f} ({ratios}) | {GOALS[case.model]:.2f} | "
                  f"{100 * middle['waited']:.1f}% |", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    missed = [name for name, rows in results.items() if statistics.median(row["ratio"] for row in rows) < GOALS[name]]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
