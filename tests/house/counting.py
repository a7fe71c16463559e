"""tools/test_report.py counts what really happened.

usage: counting.py TEST_REPORT
"""
import functools
import json
import os
import subprocess
import sys
import tempfile

from report import run

REPORT = sys.argv[1]


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
    ("suspect output", functools.partial(counts, [entry("OK", case("a", GOOD), "Write-write data race at 0x1")],
                                         "1 passed, 1 failed", 1, SUSPECT)),
    ("no suspect output", functools.partial(counts, [entry("OK", case("a", GOOD), "all is well")],
                                            "1 passed, 0 failed", 0, SUSPECT)),
    ("reasons of what is skipped", functools.partial(counts, REASONS, "1 passed, 0 failed", 0,
                                                     wanted="2 skipped: no such device\n1 skipped: no reason told\n")),
    ("a signal is told", functools.partial(
        counts, [{**entry("FAIL", case("a", GOOD) + case("b")), "returncode": -11}], "1 passed, 1 failed", 1,
        wanted="FAILED  room: b, ended by signal 11\n")),
    ("a timeout says so", functools.partial(
        counts, [entry("FAIL", case("b") + "\nTIMEOUT: room: 9 s of processor time\n")], "0 passed, 1 failed", 1,
        wanted="FAILED  room: timeout: room: 9 s of processor time\n"))])
