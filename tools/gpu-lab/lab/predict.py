"""From the folder that `koine plan --programs` wrote to the times of a training step on a target."""
import collections
import concurrent.futures
import dataclasses
import gzip
import hashlib
import json
import math
import os
import re
import tempfile

from lab import amd, code, intel, model, nvidia, plans
from lab.compilers import Failure

MAKERS = {"nvidia": nvidia, "amd": amd, "intel": intel}
FORMAT = "3"  # of the kept results; changes with what the makers' files read


# ---- compiled kernels


class Compiler:
    """Compiles programs, and keeps what came out."""

    def __init__(self, tools):
        self.tools = tools
        self.kept = os.path.join(tools.folder, "kept")
        os.makedirs(self.kept, exist_ok=True)
        self.versions = json.dumps(tools.versions, sort_keys=True)

    def path_of(self, text, language, kernel, target):
        key = "\n".join((FORMAT, self.versions, target.word, language, kernel, text))
        return os.path.join(self.kept, hashlib.sha256(key.encode()).hexdigest() + ".json.gz")

    def kernel(self, folder, program, kernel, target):
        """The compiled kernel of a program of a plan."""
        with open(os.path.join(folder, program + ".cl"), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(folder, program + ".options"), encoding="utf-8") as file:
            language, *more = re.sub("-cl-std=", "", file.read()).split()
        path = self.path_of(text, " ".join((language, *more)), kernel, target)
        try:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                fields = json.load(file)
        except FileNotFoundError:
            with tempfile.TemporaryDirectory(prefix="koine-gpu-lab-") as work:
                source = os.path.join(work, "k.cl")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(text)
                made = MAKERS[target.unit.maker].build(self.tools, target, source, (language, *more), work, kernel)
            fields = dataclasses.asdict(made)
            descriptor, partial = tempfile.mkstemp(dir=self.kept)
            with os.fdopen(descriptor, "wb") as whole, gzip.open(whole, "wt", encoding="utf-8") as file:
                json.dump(fields, file)
            os.replace(partial, path)
        fields["instructions"] = [code.Instruction(**instruction) for instruction in fields["instructions"]]
        return code.Kernel(**fields)


# ---- a step


@dataclasses.dataclass
class Program:
    """A compiled program with its launches in a step."""
    kernel: code.Kernel
    items: int
    launches: list = dataclasses.field(default_factory=list)
    times: list = dataclasses.field(default_factory=list)

    @property
    def seconds(self):
        return sum(time.seconds for time in self.times)

    @property
    def ideal(self):
        return sum(time.ideal for time in self.times)

    @property
    def flops(self):
        return sum(time.flops for time in self.times)

    @property
    def is_attention(self):
        """Whether it multiplies several times in each tile."""
        return any(launch["tiles"]["products"] > 1 for launch in self.launches if "tiles" in launch)

    @property
    def bound(self):
        shares = collections.Counter()
        for time in self.times:
            shares[time.bound] += time.seconds
        return shares.most_common(1)[0][0]


def time_launches(target, program):
    """Sets the times of all launches of a program."""
    for launch in program.launches:
        tiles, piece = launch.get("tiles"), None
        if tiles:
            rows, columns, depth = tiles["tile"]
            products = tiles["products"]
            multiply_adds = products * rows * columns * depth * (model.SPLIT if tiles.get("split") else 1) / program.items
            numbers = depth * (rows + columns if products == 1 else 2 * columns) / program.items
            piece = code.slice_of(program.kernel, multiply_adds, numbers)
        if piece:
            program.times.append(model.product_time(target, program.kernel, piece, launch))
        else:
            program.times.append(model.other_time(target, program.kernel, code.stream_of(program.kernel), launch))


@dataclasses.dataclass
class Step:
    """A training step of a model on a target."""
    model: str
    batch: int
    target: object
    programs: list
    failures: list
    math: str = "exact"
    precision: str = "float32"

    @property
    def launches(self):
        return sum(len(program.launches) for program in self.programs)

    def multiplying(self, attention=False):
        """The programs of matrix products and convolutions, or those of attention."""
        return [program for program in self.programs if program.flops and program.is_attention == attention]

    def share(self, programs):
        """The part of the peak that the products of these programs reach."""
        seconds = sum(program.seconds for program in programs)
        ideal = sum(time.flops / (time.peak or self.target.flops) for program in programs for time in program.times if time.flops)
        return ideal / max(1e-12, seconds)

    @property
    def seconds(self):
        return sum(program.seconds for program in self.programs)

    @property
    def ideal(self):
        return sum(program.ideal for program in self.programs)

    def by_kernel(self):
        """Lists of programs by the names of their kernels, those that take most time first."""
        found = collections.defaultdict(list)
        for program in self.programs:
            found[program.kernel.name].append(program)
        return sorted(found.items(), key=lambda item: -sum(program.seconds for program in item[1]))

    def worst(self):
        """Share and name of the kernel of products or convolutions that reaches least of the peak."""
        products = self.multiplying()
        kernels = [(self.share([one for one in programs if one in products]), name) for name, programs in self.by_kernel()
                   if any(one in products for one in programs)]
        return min(kernels, default=(0.0, ""))

    def line(self, versions):
        """For JSON."""
        share, name = self.worst()
        return {"model": self.model, "target": self.target.word, "math": self.math, "precision": self.precision,
                "products_share": round(self.share(self.multiplying()), 4),
                "step_share": round(self.ideal / max(1e-12, self.seconds), 4), "launches": self.launches,
                "spills": sum(program.kernel.spilled for program in self.programs), "worst_kernel": name,
                "worst_share": round(share, 4), "attention_share": round(self.share(self.multiplying(True)), 4),
                "batch": self.batch, "device": self.target.name,
                "seconds": round(self.seconds, 6), "ideal_seconds": round(self.ideal, 6), "failures": self.failures,
                "compilers": versions}


def predict(compiler, koine, name, batch, target, folder, given, tell):
    launches = plans.record(koine, name, batch, target, folder, given)
    groups = collections.defaultdict(list)
    for launch in launches:
        groups[launch["program"], launch["kernel"], math.prod(launch["local"])].append(launch)
    failures, programs = [], []

    def build(key):
        try:
            return compiler.kernel(folder, key[0], key[1], target)
        except (Failure, AttributeError, StopIteration, IndexError, ValueError) as failure:
            return failure
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (key, kernel) in enumerate(zip(groups, pool.map(build, groups)), 1):
            tell(f"{name} on {target.word}: {number} of {len(groups)} programs")
            if not isinstance(kernel, code.Kernel):
                failures.append(f"{key[1]} (program {key[0]}): {str(kernel).strip().splitlines()[-1][:200]}")
                continue
            program = Program(kernel, key[2], groups[key])
            time_launches(target, program)
            programs.append(program)
    return Step(name, batch, target, programs, failures, given.math, given.precision)
