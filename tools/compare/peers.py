"""The compared programs: what each needs, and how it is started and timed."""

import ctypes.util
import glob
import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
import time

import tensors
from cases import CASES, Mistake

HERE = os.path.dirname(os.path.abspath(__file__))
START_LIMIT = 900  # seconds until a worker is ready: torch.compile takes its time
# Memory that is freed stays with the program and lies in huge pages: PyTorch's training loses much time to the system
# without that.
MALLOC = "thp:always,metadata_thp:always,background_thread:true,dirty_decay_ms:-1,muzzy_decay_ms:-1"


class Failed(Exception):
    """A peer that cannot do a row."""


# ---- what there is


def find_koine(path):
    """The built command: as given, of a build folder in the sources, or installed."""
    root = os.path.dirname(os.path.dirname(HERE))
    builds = sorted(glob.glob(os.path.join(root, "build*", "tools", "koine")))
    for found in [path] if path else [*builds, shutil.which("koine")]:
        if found and os.access(found, os.X_OK):
            return os.path.abspath(found)
    raise Mistake(
        f"--koine: {path or 'no built command'} was not found; build it (meson setup build && ninja -C build) "
        "and say where it is"
    )


def has(module):
    return importlib.util.find_spec(module) is not None


def find_jemalloc():
    for folder in ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/opt/homebrew/lib", "/usr/local/lib"):
        for path in sorted(glob.glob(os.path.join(folder, "libjemalloc.so.2"))):
            return path
    return ctypes.util.find_library("jemalloc") and "libjemalloc.so.2"


def missing(peer):
    """What must be installed before a peer can take part; "" if nothing."""
    if not has("torch") or not has("numpy"):
        return f"PyTorch is not installed: {sys.executable} -m pip install torch numpy"
    if peer == "best":
        if not find_jemalloc():
            return "PyTorch at its best needs jemalloc (libjemalloc.so.2): apt-get install libjemalloc2"
        if not any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++")):
            return "PyTorch at its best needs a C++ compiler for torch.compile: apt-get install g++"
    if peer == "onnx":
        lacking = [name for name in ("onnx", "onnxruntime") if not has(name)]
        if lacking:
            return f"ONNX Runtime is not installed: {sys.executable} -m pip install {' '.join(lacking)}"
    if peer in ("step", "compiled") and not has("cffi"):
        return f"Koine's Python package needs cffi: {sys.executable} -m pip install cffi"
    return ""


def package_of(path):
    """The environment with which Python finds the package koine that was built with a command; {}: an installed one."""
    build = os.path.dirname(os.path.dirname(path))
    package = os.path.join(build, "tools", "python")
    libraries = sorted(glob.glob(os.path.join(build, "src", "libkoine.so")))
    if not libraries or not os.path.isdir(os.path.join(package, "koine")):
        return {}
    return {
        "PYTHONPATH": os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "KOINE_LIBRARY": libraries[0],
    }


def versions():
    code = (
        "import importlib.metadata as m, json\n"
        "def v(n):\n    try: return m.version(n)\n    except m.PackageNotFoundError: return None\n"
        "print(json.dumps({n: v(n) for n in ('torch', 'onnxruntime')}))"
    )
    return json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout or "{}")


# ---- processes


class Limits:
    """The same number of threads for each peer: by processor affinity, and by the settings of each."""

    def __init__(self, threads):
        self.threads = threads
        try:
            self.processors = set(sorted(os.sched_getaffinity(0))[:threads])
        except AttributeError:
            self.processors = None

    def environment(self, **more):
        count = str(self.threads)
        return {
            **os.environ,
            "POCL_MAX_PTHREAD_COUNT": count,
            "POCL_CPU_MAX_CU_COUNT": count,
            "OMP_NUM_THREADS": count,
            "PYTHONDONTWRITEBYTECODE": "1",
            **more,
        }

    def apply(self):
        if self.processors:
            os.sched_setaffinity(0, self.processors)


class Worker:
    """A process of a peer for one row, which waits for a command."""

    def __init__(self, command, limits, log, **environment):
        self.log = log
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=limits.environment(**environment),
        )
        self.ready = self.answer(START_LIMIT)

    def answer(self, limit):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if select.select([self.process.stdout], [], [], 1)[0]:
                line = self.process.stdout.readline()
                if not line:
                    break
                return json.loads(line)
        self.close()
        raise Failed(f"a peer's process ended or timed out; see the last lines of {self.log.name}")

    def run(self, seconds):
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
        except OSError as problem:
            raise Failed(f"a peer's process is gone: {problem}") from problem
        return self.answer(60 + 20 * seconds)

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def torch_command(what, row, folder, limits, *more):
    """What starts PyTorch for a row: to "prepare" it, or to "serve" it."""
    worker = [sys.executable, os.path.join(HERE, "torch_worker.py"), what]
    return [*worker, row.case, str(row.batch), folder, row.mode, "--threads", str(limits.threads), *more]


def prepare(row, folder, limits, log, onnx):
    """Weights, samples and expected results, computed by PyTorch in a separate process."""
    command = torch_command("prepare", row, folder, limits, *(["--onnx"] if onnx else []))
    if subprocess.run(command, stdout=log, stderr=log, env=limits.environment()).returncode:
        raise Failed(f"PyTorch could not prepare the network; see the last lines of {log.name}")


def torch_worker(row, folder, limits, log, variant=()):
    """variant: words of the worker's options; "jemalloc" is the environment's."""
    command = torch_command("serve", row, folder, limits, *("--" + word for word in variant if word != "jemalloc"))
    more = {"LD_PRELOAD": find_jemalloc(), "MALLOC_CONF": MALLOC} if "jemalloc" in variant else {}
    return Worker(command, limits, log, **more)


def own_worker(row, folder, limits, log, path, way):
    """PyTorch's network computed by Koine: `way` is "step" or "compiled"; `path` that of the command."""
    return Worker(torch_command("serve", row, folder, limits, "--by", way), limits, log, **package_of(path))


def best_variants(row):
    """What PyTorch's best is looked for among."""
    layouts = ((), ("channels-last",)) if CASES[row.case].convolutions else ((),)
    return [("jemalloc", *layout, *compiled) for layout in layouts for compiled in ((), ("compile",))]


def onnx_worker(folder, limits, log):
    return Worker([sys.executable, os.path.join(HERE, "onnx_worker.py"), folder, str(limits.threads)], limits, log)


class Koine:
    """The command; a new process each time."""

    def __init__(self, path, limits, log):
        self.path, self.limits, self.log = path, limits, log

    def call(self, *words):
        done = subprocess.run(
            [self.path, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.limits.environment(),
        )
        self.log.write(done.stderr)
        self.log.flush()
        if done.returncode:
            raise Failed(f"koine {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def models(self):
        return {
            found["name"]: found["parameters"] for found in map(json.loads, self.call("models", "--json").splitlines())
        }

    def device(self):
        for line in self.call("devices", "--json").splitlines():
            found = json.loads(line)
            if found["chosen"]:
                return f"{found['name']}, {found['platform']}, {found['driver']}"
        return "unknown"

    def bench(self, row, model, seconds, *flags, **options):
        words = {"mode": row.mode, "batch": str(row.batch), "seconds": str(seconds), **options}
        given = [word for name, value in words.items() for word in ("--" + name, value)]
        return json.loads(self.call("bench", model, *given, *flags, "--json", "--quiet"))

    def run(self, row, seconds):
        return self.bench(row, row.case, seconds)

    def check(self, row, folder):
        """{"difference", "expected_rms", "agrees"} of logits or losses with those of PyTorch."""
        model = row.case
        if row.mode == "train" and CASES[row.case].dropout:
            # Two programs never drop the same: the losses are compared without.
            text = self.call("models", row.case, "--text")
            model = os.path.join(folder, "no-dropout.koine")
            with open(model, "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in text.splitlines() if not line.startswith("dropout"))
        weights, samples, out, expected = (
            os.path.join(folder, f"{name}.safetensors") for name in ("weights", "samples", "dump", "expected")
        )
        self.bench(row, model, 0, "--overwrite", weights=weights, input=samples, dump=out)
        return compared(row, tensors.read(out), tensors.read(expected))


def compared(row, found, expected):
    """Logits within a thousandth of their root mean square. Of the first loss, itself within a thousandth; the next
    ones, which see the updates, within a hundredth of it; or, where rounding moves them so far, thirty times as
    far as PyTorch's own single precision is from its double precision by then, for fast algorithms round more, and
    never more than a quarter."""
    if row.mode == "infer":
        largest, rms = tensors.difference(found["logits"], expected["logits"])
        return {"difference": largest, "expected_rms": rms, "agrees": largest <= 1e-3 * rms}
    losses, own = tensors.numbers(expected["losses"]), tensors.numbers(expected["distance"])
    ours = tensors.numbers(found["losses"])[: len(losses)]
    shares = [abs(a - b) / losses[0] if a == a else float("inf") for a, b in zip(ours, losses)]
    allowed = [1e-3, *(min(max(1e-2, 30 * max(own[: i + 1]) / losses[0]), 0.25) for i in range(1, len(losses)))]
    return {
        "losses": list(ours),
        "expected": list(losses),
        "single_precision": list(own),
        "difference": max(shares),
        "agrees": len(ours) == len(losses) and all(share <= most for share, most in zip(shares, allowed)),
    }
