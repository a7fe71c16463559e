"""tools/compare without its peers: rows, medians, tables and charts of raw results made up here.

usage: compare.py COMPARE_FOLDER HOUSE_TESTS
"""

import array
import json
import math
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

COMPARE = os.path.abspath(sys.argv[1])
sys.path[:0] = [COMPARE, sys.argv[2]]
import cases  # noqa: E402
import chart  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import scaling  # noqa: E402
import table  # noqa: E402
import tensors  # noqa: E402
import worker  # noqa: E402

FAST, SLOW = "best:jemalloc,channels-last,compile", "best:jemalloc"


def measured(median, peak=100e6, base=60e6, gflops=100.0):
    return {
        "median_ms": median,
        "best_ms": median,
        "n": 9,
        "base_bytes": base,
        "peak_bytes": peak,
        "probe": {"gflops": gflops, "gbytes": 10.0},
    }


def raw_results():
    """Koine is 2, 4 and 3 times as fast as PyTorch in the rounds of lenet."""
    rounds = [
        {
            "koine": measured(10),
            "torch": measured(10 * times, 500e6, 400e6),
            FAST: measured(15 + times),
            **({SLOW: measured(1)} if times == 2 else {}),
        }
        for times in (2, 4, 3)
    ]
    inference = [{"koine": measured(2), "torch": measured(8), "onnx": measured(1)}]
    about = {
        "date": "2000-01-02",
        "machine": "A machine <1>",
        "threads": 2,
        "rounds": 3,
        "seconds": 1.0,
        "load": 0.0,
        "versions": {"torch": "1.2", "onnxruntime": None},
        "peak": {"gflops": [100, 90, 110], "gbytes": [10, 9, 11]},
    }
    return {
        "about": about,
        "left_out": ["gpt: this Koine has no such model"],
        "rows": [
            {
                "case": "lenet",
                "mode": "train",
                "batch": 64,
                "parameters": 1000,
                "flops": 5e8,
                "notes": ["onnx: away"],
                "rounds": rounds,
                "check": {"losses": [2.0], "expected": [2.0], "difference": 1e-7, "agrees": True},
            },
            {
                "case": "mlp",
                "mode": "infer",
                "batch": 128,
                "parameters": 2500000,
                "flops": 1e7,
                "notes": [],
                "rounds": inference,
                "check": {"difference": 1e-7, "expected_rms": 0.1, "agrees": True},
            },
            {
                "case": "alexnet",
                "mode": "train",
                "batch": 8,
                "parameters": 1,
                "flops": 0,
                "notes": ["not measured"],
                "rounds": [],
                "check": None,
            },
        ],
    }


def near(found, expected):
    return math.isclose(found, expected, rel_tol=1e-6)


def medians_and_ratios():
    lines = results.lines(raw_results())
    lenet, mlp = lines
    bad = [] if len(lines) == 2 else ["a row without measurements must not give a line"]
    for name, found, expected in (
        ("ratio", lenet.ratios["torch"], (3, 2, 4)),
        ("ratio of the best", lenet.ratios["best"], (1.8, 1.7, 1.9)),
        ("time", lenet.times["koine"], (10, 10, 10)),
        ("ratio of ONNX Runtime", mlp.ratios["onnx"], (0.5, 0.5, 0.5)),
    ):
        if not all(near(a, b) for a, b in zip(found, expected)):
            bad.append(f"{name} is {found}, expected {expected}")
    if lenet.best != "channels-last,compile":
        bad.append(f"the best is '{lenet.best}'; a candidate that was dropped must not win")
    # 5e8 operations at 100 GFLOP/s take 5 ms; 10 MB of parameters at 10 GB/s 1 ms.
    if (
        not near(lenet.shares["koine"], 0.5)
        or lenet.bound != "math"
        or not near(mlp.shares["koine"], 0.5)
        or mlp.bound != "memory"
    ):
        bad.append(f"shares {lenet.shares} {lenet.bound}, {mlp.shares} {mlp.bound}")
    if lenet.memory["koine"] != (100e6, 40e6) or lenet.memory["torch"] != (500e6, 100e6):
        bad.append(f"memory {lenet.memory}")
    means, memory = results.means(lines)
    if not near(means["torch"][0], math.sqrt(12)) or means["torch"][1] != 2 or not near(memory["peak"], math.sqrt(0.2)):
        bad.append(f"means {means} {memory}")
    return bad


def the_table():
    text = table.markdown(raw_results())
    wanted = [
        "**3.00** (2.00..4.00)",
        "**1.80** (1.70..1.90)",
        "## Training",
        "## Inference",
        "A machine <1>",
        "lenet:64 channels-last,compile",
        "- gpt: this Koine has no such model",
        "- lenet:64 train: onnx: away",
        "| 50%",
        "40 / 100",
        "torch 1.2",
    ]
    bad = [f"the table lacks '{words}'" for words in wanted if words not in text]
    if "onnxruntime" in text.split("Versions")[1].split("\n")[0]:
        bad.append("a version that is not known is told")
    if "Others were using" in text:
        bad.append("a quiet machine is called busy")
    busy = raw_results()
    busy["about"]["load"] = 3.0
    return bad + ([] if "Others were using" in table.markdown(busy) else ["a busy machine is not told"])


def without_a_probe_and_peers():
    raw = raw_results()
    del raw["about"]["peak"]
    for row in raw["rows"]:
        row["rounds"] = [{"koine": {**one["koine"], "probe": None}} for one in row["rounds"]]
        row["check"] = None
    text = table.markdown(raw)
    return [
        f"has '{words}'"
        for words in ("PyTorch as installed", "Fraction of the limit")
        if words in text.split("## What")[0]
    ]


def the_chart():
    picture = chart.svg(raw_results())
    root = xml.etree.ElementTree.fromstring(picture)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    bars = list(root.iter("{http://www.w3.org/2000/svg}rect"))
    bad = [
        f"the chart lacks '{words}'"
        for words in ("lenet · 64", "mlp · 128", "PyTorch at its best", "1×", "3", "0.5")
        if words not in texts
    ]
    if len(bars) != 3 + 4:  # of the legend, and of the ratios
        bad.append(f"{len(bars)} bars")
    if any(float(bar.get("width")) <= 0 for bar in bars):
        bad.append("a bar without width")
    empty = raw_results()
    empty["rows"] = []
    return bad + ([] if chart.svg(empty) is None else ["a chart of nothing"])


def rows_of_words():
    bad = []
    for words, modes, expected in (
        (["mlp"], ["train"], [("mlp", "train", 128), ("mlp", "train", 32)]),
        (["resnet50:8", "resnet50"], ["infer"], [("resnet50", "infer", 8), ("resnet50", "infer", 1)]),
    ):
        found = [tuple(row) for row in cases.rows(words, modes)]
        bad += [] if found == expected else [f"{words}: found {found}"]
    if len(cases.rows([], ["train", "infer"])) != 21:
        bad.append("the whole comparison has another length")
    for words, modes, text in (
        (["lenot"], ["train"], "lenot"),
        (["mlp:x"], ["train"], "mlp:x"),
        ([], ["both"], "both"),
    ):
        try:
            bad.append(f"{words} {modes} gave {cases.rows(words, modes)}")
        except cases.Mistake as mistake:
            bad += [] if text in str(mistake) else [f"{mistake}"]
    return bad


def tensors_go_and_come_back():
    numbers = array.array("f", [1.5, -2.0, 0.0])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        tensors.write(path, {"a": ("F32", [3], numbers.tobytes()), "none": ("F64", [0, 2], b"")})
        found = tensors.read(path)
    bad = [] if list(found) == ["a", "none"] and tensors.numbers(found["a"]) == numbers else [f"found {found}"]
    shifted = ("F32", [3], array.array("f", [1.5, -2.5, 0.0]).tobytes())
    largest, rms = tensors.difference(shifted, found["a"])
    if not near(largest, 0.5) or not near(rms, math.sqrt(6.25 / 3)):
        bad.append(f"difference {largest} {rms}")
    gone = ("F32", [3], array.array("f", [1.5, math.nan, 0.0]).tobytes())
    return bad + ([] if tensors.difference(gone, found["a"])[0] == math.inf else ["a number that is none passes"])


def what_agrees():
    def doubles(numbers):
        return "F64", [len(numbers)], array.array("d", numbers).tobytes()

    def losses(*numbers, own=0.0):
        return {"losses": doubles(numbers), "distance": doubles([0.0] + [own] * (len(numbers) - 1))}

    def logits(*numbers):
        return {"logits": ("F32", [len(numbers)], array.array("f", numbers).tobytes())}

    train, infer = cases.Row("mlp", "train", 1), cases.Row("mlp", "infer", 1)
    bad = []
    for row, found, expected, agrees in (
        (train, losses(2.0, 1.0, 0.7), losses(2.0, 1.001), True),
        (train, losses(2.01, 1.0), losses(2.0, 1.0), False),
        (train, losses(2.0, 1.1), losses(2.0, 1.0), False),
        (train, losses(2.0, 1.1), losses(2.0, 1.0, own=0.004), True),
        (train, losses(2.0, 1.1), losses(2.0, 1.0, own=0.003), False),
        (train, losses(2.01, 1.0), losses(2.0, 1.0, own=0.004), False),
        (train, losses(2.0, 1.6), losses(2.0, 1.0, own=0.1), False),
        (train, losses(2.0), losses(2.0, 1.0), False),
        (train, losses(2.0, math.nan), losses(2.0, 1.0), False),
        (infer, logits(1, 2), logits(1, 2.0005), True),
        (infer, logits(1, 2), logits(1, 2.1), False),
        (infer, logits(1), logits(1, 2), False),
    ):
        if peers.compared(row, found, expected)["agrees"] != agrees:
            bad.append(f"{row.mode} {found} {expected}: expected {agrees}")
    return bad


def how_it_scales():
    """Ratios are made within a round, and medians over the rounds."""
    row, other = cases.Row("mlp", "train", 128), cases.Row("gpt", "train", 8)
    rounds = [dict(zip(scaling.RUNS, times)) for times in ((10, 20, 10, 10), (30, 40, 20, 40), (20, 25, 30, 40))]
    lines = scaling.table([row, other], {row: rounds, other: []}, 2).splitlines()
    wanted = "| `mlp`, 128 | 20.0 ms | 25.0 ms | 75% | 20.0 ms | 40.0 ms | 75% |"
    return [] if lines[2:] == [wanted] else [f"found {lines}"]


def calls_are_counted():
    """At least as many calls as asked for, of which the fastest is not slower than the median."""
    calls = []
    found = worker.measured(lambda: calls.append(1), 0, 4)
    good = len(calls) == 4 == found["n"] and 0 <= found["best_ms"] <= found["median_ms"] and found["cpu_ms"] >= 0
    return [] if good else [f"{len(calls)} calls: {found}"]


def programs_answer():
    """A line per measurement, and a problem from a process that ended."""
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "script.py")
        with open(script, "w", encoding="ascii") as file:
            file.write("import os, sys\nprint(input()[:-1] + ', \"more\": \"' + os.environ[sys.argv[1]] + '\"}', flush=True)\n")
        program = worker.Program(script, ["WORD"], 2, WORD="given")
        found = [program.measure({"a": 1}), program.measure({"a": 2})]
        program.close()
    good = found[0] == {"a": 1, "more": "given"} and list(found[1]) == ["problem"]
    return [] if good else [f"answers {found}"]


def from_a_file():
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "raw.json")
        with open(source, "w", encoding="utf-8") as file:
            json.dump(raw_results(), file)
        done = subprocess.run(
            [sys.executable, COMPARE, "--from", source, "--output", folder], capture_output=True, text=True
        )
        names = sorted(os.listdir(folder))
        if done.returncode or names != ["compare.json", "compare.md", "compare.svg", "raw.json"]:
            return [f"status {done.returncode}, {names}: {done.stderr}"]
        with open(os.path.join(folder, "compare.md"), encoding="utf-8") as file:
            bad = [] if file.read() == done.stdout else ["the file and what was printed differ"]
    wrong = subprocess.run([sys.executable, COMPARE, "--cases", "lenot"], capture_output=True, text=True)
    if wrong.returncode != 2 or "lenot" not in wrong.stderr:
        bad.append(f"a wrong case: status {wrong.returncode}: {wrong.stderr}")
    shown = subprocess.run([sys.executable, COMPARE, "--help"], capture_output=True, text=True)
    return bad + [
        f"the help lacks {words}"
        for words in ("--peers", "pip install torch", "libjemalloc2")
        if words not in shown.stdout
    ]


report.run(
    [
        ("medians and ratios", medians_and_ratios),
        ("the table", the_table),
        ("the chart", the_chart),
        ("without a probe and peers", without_a_probe_and_peers),
        ("rows of words", rows_of_words),
        ("tensors go and come back", tensors_go_and_come_back),
        ("what agrees", what_agrees),
        ("how it scales", how_it_scales),
        ("calls are counted", calls_are_counted),
        ("programs answer", programs_answer),
        ("from a file", from_a_file),
    ]
)
