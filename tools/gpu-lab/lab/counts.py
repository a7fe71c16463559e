"""Counts the memory accesses of a launch's work-items by running a few of its work-groups in Oclgrind's interpreter.

counter.cpp does the counting, built here when first used. A launch comes from a plan (lab/plans.py) or has the same members:
`kernel`, `global`, `local` and `arguments`; its buffers are filled with zeros.
"""
import collections
import concurrent.futures
import hashlib
import json
import math
import os
import re
import subprocess
import tempfile

from lab.compilers import Failure, Missing, run
from lab.model import group_count

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counter.cpp")
PACKAGES = "apt-get install g++ liboclgrind-dev opencl-c-headers llvm-14-dev"
# As link-time optimization prepares a program, it lacks the instruction `freeze`, which Oclgrind 21.10 does not know.
OPTIONS = "-O2"  # as compilers of GPUs do by default
# Of a program for a matrix unit, which Oclgrind has none of: all but its products (cl/common/fragment.cl).
UNIT, WITHOUT_UNIT = re.compile(r"^#define KN_FRAGMENT ", re.M), "-DKN_EMULATED=2"
KINDS = ("load", "store", "local")
# What the counts should stay below, as multiples of the least: sectors for each request, passes of local memory, and
# multiply-adds.
TARGETS = {"sectors": 1.25, "passes": 1.1, "work": 1.1}


# ---- the counter


def library_of_llvm():
    """The LLVM release that Oclgrind's library is linked with."""
    try:
        path = run(["g++", "-print-file-name=liboclgrind.so"]).strip()
    except FileNotFoundError:
        raise Missing(f"g++ is not installed: {PACKAGES}") from None
    linked = re.search(r"^\s*libLLVM-(\d+)\S* => (\S+)", run(["ldd", path]), re.M) if os.path.isabs(path) else None
    if not linked:
        raise Missing(f"Oclgrind's library and headers are not installed: {PACKAGES}")
    return linked.group(1), linked.group(2)


def build(folder):
    """The path of the counter in `folder`; builds it if missing."""
    release, library = library_of_llvm()
    headers = f"/usr/lib/llvm-{release}/include"
    if not os.path.isdir(os.path.join(headers, "llvm", "IR")):
        raise Missing(f"LLVM's headers are not installed: apt-get install llvm-{release}-dev")
    with open(SOURCE, "rb") as file:
        key = hashlib.sha256(file.read() + library.encode()).hexdigest()[:16]
    path = os.path.join(folder, f"counter-{key}")
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = os.path.join(work, "counter")
        # Oclgrind's classes come without run-time types.
        run(["g++", "-std=c++17", "-O2", "-fno-rtti", "-isystem", headers, "-o", made, SOURCE, "-loclgrind", library])
        os.replace(made, path)
    return path


def argument_lines(arguments):
    lines, present, pointers = [], 0, 0
    for argument in arguments:
        if "bytes" in argument:
            lines.append(f"buffer {argument['bytes']}")
            present |= bool(argument["bytes"]) << pointers
            pointers += 1
        elif "local" in argument:
            lines.append(f"local {argument['local']}")
        else:  # without a value it is the one that says which pointers before it are there (cl/common/present.cl)
            value = argument.get("value", present)
            lines.append(f"number {'nan' if value is None else value}")
    return lines


def input_of(program, options, launches):
    """A file for counter.cpp."""
    lines = [f"program {program}", f"options {options}"]
    for number, launch in enumerate(launches):
        sizes = " ".join(map(str, (*launch["global"], *launch["local"])))
        lines += [f"launch {number} {launch['kernel']} {sizes}", *argument_lines(launch["arguments"]), "end"]
    return "".join(line + "\n" for line in lines)


def count(counter, program, options, launches, wave):
    """The counts of launches of a program, as counter.cpp prints them; or a message for launches that it could not run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OCLGRIND_")}
    with tempfile.TemporaryDirectory(prefix="koine-gpu-lab-") as work:
        path = os.path.join(work, "launches")
        with open(path, "w", encoding="utf-8") as file:
            file.write(input_of(program, f"{options} {OPTIONS}", launches))
        done = subprocess.run([counter, str(wave), path], capture_output=True, text=True, errors="replace", check=False,
                              env={**environment, "OCLGRIND_LOG": os.devnull})
    found = {int(line["launch"]): line for line in map(json.loads, done.stdout.splitlines())}
    said = re.search(r"^.*(?:Undefined|Unsupported|Unimplemented|error: ).*$", done.stderr, re.M)
    ending = said.group(0).strip() if said else f"exit status {done.returncode}"
    failures = {number: f"{line['error']} ({said.group(0).strip()})" if said else line["error"]
                for number, line in found.items() if "error" in line}
    return [failures.get(number) or found.get(number) or ending for number in range(len(launches))]


# ---- a step


class Counts:
    """Sums over launches; the counted work-groups represent the whole launch."""

    def __init__(self):
        self.sums, self.launches, self.useful, self.work = collections.Counter(), 0, 0.0, 0.0

    def add(self, found, launch):
        """The counts of a launch, {name: number}."""
        groups = group_count(launch) / found["groups"]
        self.launches += 1
        for name, number in found.items():
            if name not in ("launch", "groups", "unit") and not name.endswith("_place"):
                self.sums[name] += number * groups
        useful = useful_multiply_adds(launch)
        if useful and not found.get("unit"):  # whose multiply-adds are not counted
            self.useful += useful
            self.work += found["multiply_adds"] * groups

    def part(self, numerator, denominator):
        return self.sums[numerator] / self.sums[denominator] if self.sums[denominator] else None

    @property
    def sectors(self):
        """Sectors as a multiple of those that the bytes asked for need."""
        least = self.sums["load_least"] + self.sums["store_least"]
        return (self.sums["load_transfers"] + self.sums["store_transfers"]) / least if least else None

    @property
    def passes(self):
        """Passes of local memory as a multiple of those without conflicts of banks."""
        return self.part("local_transfers", "local_least")

    @property
    def work_share(self):
        """Multiply-adds done as a multiple of the useful ones."""
        return self.work / self.useful if self.useful else None

    @property
    def by_target(self):
        """The figures as multiples of their targets."""
        figures = {"sectors": self.sectors, "passes": self.passes, "work": self.work_share}
        return {name: figure / TARGETS[name] for name, figure in figures.items() if figure}

    @property
    def above(self):
        """The figures that are above their targets."""
        return [name for name, share in self.by_target.items() if share > 1]

    @property
    def badness(self):
        """The largest figure as a multiple of its target."""
        return max(self.by_target.values(), default=0)

    def line(self):
        """For JSON."""
        def rounded(number):
            return None if number is None else round(number, 4)
        return {"launches": self.launches, "sectors": rounded(self.sectors),
                "load_sectors": rounded(self.part("load_transfers", "load_least")),
                "store_sectors": rounded(self.part("store_transfers", "store_least")),
                "passes": rounded(self.passes), "work": rounded(self.work_share),
                "asked_bytes": round(self.sums["load_bytes"] + self.sums["store_bytes"]),
                "sector_bytes": round(32 * (self.sums["load_transfers"] + self.sums["store_transfers"])),
                "distinct_bytes": round(self.sums["load_distinct"] + self.sums["store_distinct"]),
                "local_bytes": round(self.sums["local_bytes"]), "busy": rounded(self.part("instructions", "slots")),
                "multiply_adds": rounded(self.part("multiply_adds", "instructions")),
                "hot_multiply_adds": rounded(self.part("hot_multiply_adds", "hot_instructions")), "above": self.above}


def useful_multiply_adds(launch):
    """Of a product, by the direct method; 0 where that is not known."""
    tiles = launch.get("tiles")
    if not tiles:
        return 0
    whole = tiles["products"] * tiles["rows"] * tiles["columns"] * tiles["depth"] * tiles["batches"]
    return launch["flops"] / 2 or whole


def same(launch):
    """What decides the counts of a launch."""
    return json.dumps([launch[word] for word in ("program", "kernel", "global", "local", "arguments")])


class Step:
    """The counts of a training step: `found` has pairs of a launch and its counts, or the text of a failure."""

    def __init__(self, found):
        self.found = found

    @property
    def failures(self):
        return sorted({f"{launch['kernel']} (program {launch['program']}): {counts}" for launch, counts in self.found
                       if isinstance(counts, str)})

    def sums(self, key):
        """Pairs of a key and the sums of the launches that have it, the worst first."""
        sums = collections.defaultdict(Counts)
        for launch, counts in self.found:
            if not isinstance(counts, str):
                sums[key(launch)].add(counts, launch)
        return sorted(sums.items(), key=lambda item: -item[1].badness)

    def by_kernel(self):
        return self.sums(lambda launch: launch["kernel"])

    def by_launch(self):
        """Of launches that are the same, the first counts: (launch, its counts, the sums of all)."""
        firsts = {}
        for launch, counts in self.found:
            firsts.setdefault(same(launch), (launch, counts))
        return [(*firsts[key], sums) for key, sums in self.sums(same)]


def count_step(counter, folder, launches, wave, jobs, tell):
    """The counts of a plan's launches; each of those that are the same is run once."""
    programs = collections.defaultdict(dict)
    for launch in launches:
        programs[launch["program"]].setdefault(same(launch), launch)
    counted = {}

    def work(program):
        with open(os.path.join(folder, program + ".options"), encoding="utf-8") as file:
            options = " ".join(word for word in file.read().split() if word.startswith(("-cl-std=", "-D")))
        different = programs[program]
        path = os.path.join(folder, program + ".cl")
        with open(path, encoding="utf-8") as file:
            unit = bool(UNIT.search(file.read()))
        found = count(counter, path, f"{options} {WITHOUT_UNIT}" if unit else options, list(different.values()), wave)
        return dict(zip(different, [counts if isinstance(counts, str) else {**counts, "unit": unit} for counts in found]))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for number, done in enumerate(pool.map(work, programs), 1):
            counted.update(done)
            tell(f"{number} of {len(programs)} programs")
    return Step([(launch, counted[same(launch)]) for launch in launches])
