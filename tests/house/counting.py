"""tools/test_report.py counts what really happened, and tools/test_progress.py says how far the tests are.

usage: counting.py TEST_REPORT TEST_PROGRESS
"""
import functools
import json
import os
import re
import subprocess
import sys
import tempfile

from report import run

REPORT, PROGRESS = sys.argv[1:3]


def entry(result, stdout="", stderr=""):
    return {"name": "room", "result": result, "stdout": stdout, "stderr": stderr}


def case(name, end=None):
    return f"[ RUN      ] {name}\n" + (f"[{end}] {name}\n" if end else "")


GOOD, SKIPPED = "       OK ", "  SKIPPED "


def counts(entries, last_line, status, options=(), wanted=""):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "testlog.json")
        with open(log, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in entries)
        result = subprocess.run([sys.executable, REPORT, *options, log], capture_output=True, text=True)
    found = (result.stdout.splitlines() or [result.stderr])[-1]
    if wanted not in result.stdout:
        return [f"found no '{wanted}' in {result.stdout!r}"]
    return [] if (found, result.returncode) == (last_line, status) else [
        f"found '{found}' and status {result.returncode}, expected '{last_line}' and {status}"]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def times_are_shown():
    """The slowest first, what was compiled in the run, and durations of earlier runs are kept."""
    with tempfile.TemporaryDirectory() as folder:
        log = write(f"{folder}/log.json", json.dumps(entry("OK", case("a", GOOD))) + "\n")
        times = write(f"{folder}/times", "fast\t1.00\t0.50\nslow\t20.00\t19.50\n" +
                      "".join(f"more{i}\t2.00\t2.00\n" for i in range(10)))
        durations = write(f"{folder}/durations.tsv", "fast\t9.00\t9.00\nother\t3.00\t2.00\n")
        for kernel in ("old", "new"):
            write(f"{folder}/cache/unoptimized/pocl/kcache/{kernel}/program.bc", "")
            write(f"{folder}/cache/unoptimized/pocl/kcache/{kernel}/k/8-1-1/k.so", "")
        for name in ("program.bc", "k/8-1-1/k.so"):
            os.utime(f"{folder}/cache/unoptimized/pocl/kcache/old/{name}", (0, 0))
        result = subprocess.run([sys.executable, REPORT, "--times", times, durations, f"{folder}/cache", "1000", "7", log],
                                capture_output=True, text=True)
        lines = result.stdout.splitlines()
        with open(durations, encoding="utf-8") as file:
            kept = file.read()
    bad = [] if lines[-1:] == ["1 passed, 0 failed"] else [f"the last line is not the count: {result}"]
    bad += [] if len(lines) == 13 and lines[1].split() == ["20.0", "s", "19.5", "s", "slow"] else [f"shown: {lines}"]
    bad += [] if re.search(r"time: build 7 s, (kernels about 0 s \(1 programs, 1 kernels compiled\), other )?", result.stdout) else lines
    bad += [] if "(1 programs, 1 kernels" in result.stdout or "tests 40 s" in result.stdout else lines
    return bad + [f"'{line}' is not kept" for line in ("fast\t1.00\t0.50", "other\t3.00\t2.00") if line not in kept]


def crashes_run_again():
    """What crashed or hung is named; its second result counts; what is only wrong has no second run."""
    crash = {**entry("FAIL", case("a", GOOD) + case("b")), "returncode": -11, "name": "koine:quick / crash"}
    hang = {**entry("FAIL", case("b") + "\nTIMEOUT: hang: 9 s of processor time\n"), "name": "fast - koine:hang"}
    caught = {**entry("FAIL", case("c") + "Test failed with exception: Segmentation fault(11)"), "name": "caught"}
    wrong = {**entry("FAIL", case("a", GOOD) + case("b")), "name": "wrong"}
    fine = {**entry("OK", case("killed by signal", GOOD)), "name": "fine"}
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        log = write(f"{folder}/log.json", "".join(json.dumps(one) + "\n" for one in (crash, hang, caught, wrong, fine)))
        named = subprocess.run([sys.executable, REPORT, "--crashed", log], capture_output=True, text=True).stdout.split()
        bad += [] if named == ["crash", "hang", "caught"] else [f"named {named}"]
        second = [{**entry("OK", case("a", GOOD) + case("b", GOOD)), "name": "koine:quick / crash"}, hang,
                  {**entry("OK", case("c", GOOD)), "name": "caught"}]
        again = write(f"{folder}/again.json", "".join(json.dumps(one) + "\n" for one in second))
        for paths, last in (((log, again), "5 passed, 2 failed"), ((log, f"{folder}/none"), "3 passed, 4 failed")):
            result = subprocess.run([sys.executable, REPORT, *paths], capture_output=True, text=True)
            if result.stdout.splitlines()[-1:] != [last] or result.returncode != 1:
                bad.append(f"found {result}")
            if ("FLAKY   koine:quick / crash: ran once more after b, ended by signal 11" in result.stdout) != (again in paths):
                bad.append(f"flaky: {result.stdout}")
    return bad


# As it is, every ten seconds.
SOON = f"""import runpy, sys
sys.argv[:] = sys.argv[1:]
module = runpy.run_path({PROGRESS!r})
module["main"].__globals__["SECONDS"] = 0.5
module["main"](*sys.argv)
"""


def progress_is_shown():
    """With the time that the tests took before, and with names as older and newer versions of Meson show them."""
    bad = []
    for shown in ("1/3 koine:quick / a   OK   1.00s\n", " 1/3 fast - koine:a   OK   1.00s\n", "1/3 a   OK   1.00s\n"):
        with tempfile.TemporaryDirectory() as folder:
            write(f"{folder}/running/1", "b (3 cases)")
            names, durations = write(f"{folder}/names", "a\nb\nc\n"), write(f"{folder}/durations", "a\t1\t1\nb\t60\t1\nc\t60\t1\n")
            child = subprocess.Popen([sys.executable, "-c", SOON, f"{folder}/running", durations, names], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True, env={**os.environ, "MESON_TESTTHREADS": "2"})
            child.stdin.write("noise\n" + shown)
            child.stdin.flush()
            lines = [child.stdout.readline(), child.stdout.readline()]
            child.stdin.close()
            child.wait()
            child.stdout.close()
        wanted = [shown, "      1 of 3 tests after 0 s, about 60 s to go: b (3 cases)\n"]
        lines[1] = re.sub(r"after \d+ s", "after 0 s", lines[1])
        bad += [] if lines == wanted else [f"shown {lines}"]
    return bad


def tests_are_listed():
    """As older and newer versions of Meson list them."""
    with tempfile.TemporaryDirectory() as folder:
        meson = write(f"{folder}/meson", "#!/bin/sh\nprintf 'koine:fast+house / a-b\\nfast - koine:c\\nkoine:d\\nnoise of Meson\\n'\n")
        os.chmod(meson, 0o755)
        common = os.path.join(os.path.dirname(REPORT), "common.sh")
        result = subprocess.run(["bash", "-c", f". {common}; test_names {folder}"], capture_output=True, text=True,
                                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    return [] if result.stdout.split() == ["a-b", "c", "d"] else [f"listed {result}"]


CASES = [
    ("passed", [entry("OK", case("a", GOOD) + case("b", GOOD))], "2 passed, 0 failed", 0),
    ("failed", [entry("FAIL", case("a", GOOD) + case("b"))], "1 passed, 1 failed", 1),
    ("crashed in a case", [entry("FAIL", case("a", GOOD) + "[ RUN      ] b\nhalf a li")], "1 passed, 1 failed", 1),
    ("failed outside its cases", [entry("TIMEOUT", case("a", GOOD))], "1 passed, 1 failed", 1),
    ("ended by the watcher", [entry("FAIL", case("a", GOOD) + case("b") + "\nTIMEOUT: room: 9 s of processor time\n")],
     "1 passed, 1 failed", 1),
    ("failed and yet said to have passed", [entry("OK", case("a"))], "0 passed, 1 failed", 1),
    ("77 failures read as a skip", [entry("SKIP", case("a"))], "0 passed, 1 failed", 1),
    ("skipped case", [entry("OK", case("a", GOOD) + case("b", SKIPPED))], "1 passed, 0 failed", 0),
    ("skipped test", [entry("SKIP"), entry("OK", case("a", GOOD))], "1 passed, 0 failed", 0),
    ("without cases", [entry("OK", "hello"), entry("FAIL")], "1 passed, 1 failed", 1),
    ("the same name twice", [entry("FAIL", case("a", GOOD) + case("a"))], "1 passed, 1 failed", 1),
    ("nothing at all", [], "0 passed, 0 failed", 1),
]
SUSPECT = ("--suspect", "data race at")
REASONS = [entry("OK", "[ RUN      ] a\n  no such device\n[  SKIPPED ] a\n[ RUN      ] b\n  no such device\n"
                       "[  SKIPPED ] b\n" + case("c", SKIPPED) + case("d", GOOD))]
run([(name, functools.partial(counts, *rest)) for name, *rest in CASES] + [
    ("times are shown", times_are_shown), ("progress is shown", progress_is_shown), ("tests are listed", tests_are_listed),
    ("crashes run again", crashes_run_again),
    ("suspect output", functools.partial(counts, [entry("OK", case("a", GOOD), "Write-write data race at 0x1")],
                                         "1 passed, 1 failed", 1, SUSPECT)),
    ("no suspect output", functools.partial(counts, [entry("OK", case("a", GOOD), "all is well")],
                                            "1 passed, 0 failed", 0, SUSPECT)),
    ("reasons of what is skipped", functools.partial(counts, REASONS, "1 passed, 0 failed", 0,
                                                     wanted="2 skipped: no such device\n1 skipped: no reason given\n")),
    ("a signal is reported", functools.partial(
        counts, [{**entry("FAIL", case("a", GOOD) + case("b")), "returncode": -11}], "1 passed, 1 failed", 1,
        wanted="FAILED  room: b, ended by signal 11\n")),
    ("a timeout says so", functools.partial(
        counts, [entry("FAIL", case("b") + "\nTIMEOUT: room: 9 s of processor time\n")], "0 passed, 1 failed", 1,
        wanted="FAILED  room: timeout: room: 9 s of processor time\n"))])
