#!/usr/bin/env python3
"""Shows what `meson test` prints of each test, and every ten seconds how far all are.

usage: meson test ... | test_progress.py FOLDER DURATIONS NAMES
       test_progress.py --estimate DURATIONS NAMES SECONDS

FOLDER is where tools/watch_test.py says what runs. DURATIONS has lines of earlier runs, "name, seconds, seconds of
processor time" with tabs, of which the remaining time is estimated. NAMES has the name of each test that is to run.
--estimate prints the minutes that those tests take here: from DURATIONS, or else from SECONDS, the processor time that
they and the build took on a core of the processor for which REFERENCE_LOOP_SECONDS was measured (AMD EPYC).
"""
import os
import queue
import re
import sys
import threading
import time

SECONDS = 10
REFERENCE_LOOP_SECONDS = 0.055
SHOWN = re.compile(r" *\d+/\d+ |.*ERROR:")
TEST = re.compile(r" *\d+/\d+ (?:.* / |(?:.* - )?koine:)?(\S+) +[A-Z]")


def read_durations(path):
    """{name: (seconds, processor seconds)}; empty where there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
    except OSError:
        return {}
    return {row[0]: (float(row[1]), float(row[2])) for row in rows if len(row) == 3}


def jobs():
    """How many tests meson runs at once."""
    given = os.environ.get("MESON_TESTTHREADS", "")
    return int(given) if given.isdigit() and int(given) else os.cpu_count() or 1


def remaining(names, durations):
    """Seconds that tests of these names will take; None where too few of them have run before."""
    known = [durations[name][0] for name in names if name in durations]
    if len(known) * 10 < len(names) * 9:
        return None
    return sum(known) / jobs()


def in_minutes(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def loop_seconds():
    """The processor time of a loop, by which processors are compared."""
    shortest = float("inf")
    for _ in range(3):
        start, count = time.process_time(), 0
        for number in range(2_000_000):
            count += number & 3
        shortest = min(shortest, time.process_time() - start)
    return shortest


def read_names(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split()


def estimate(path, names_path, reference):
    names = read_names(names_path)
    seconds = remaining(names, read_durations(path)) if names else None
    if seconds is None:
        seconds = float(reference) * loop_seconds() / REFERENCE_LOOP_SECONDS / jobs()
    print(max(1, round(seconds / 60)))


def running(folder):
    told = []
    for name in sorted(os.listdir(folder)):
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                told.append(file.read())
        except OSError:
            pass  # it has ended
    return ", ".join(told)


def main(folder, path, names_path):
    durations = read_durations(path)
    left = dict.fromkeys(read_names(names_path))
    total, start, lines = len(left), time.monotonic(), queue.SimpleQueue()

    def read():
        for line in sys.stdin:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    told = start
    while True:
        try:
            line = lines.get(timeout=max(0, told + SECONDS - time.monotonic()))
        except queue.Empty:
            told = time.monotonic()
            seconds = remaining(left, durations)
            print(f"      {total - len(left)} of {total} tests after {told - start:.0f} s" +
                  (f", about {in_minutes(seconds)} to go" if seconds else "") + f": {running(folder)}", flush=True)
            continue
        if line is None:
            return
        if SHOWN.match(line):
            print(line, end="", flush=True)
        found = TEST.match(line)
        if found:
            left.pop(found.group(1), None)


if __name__ == "__main__":
    if sys.argv[1] == "--estimate":
        estimate(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
