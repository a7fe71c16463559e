#!/usr/bin/env python3
"""Counts the test cases of meson's log files and shows what failed.

usage: test_report.py [--suspect REGEX] [--times FILE DURATIONS KERNELS SINCE BUILD] TESTLOG.json [AGAIN.json]
       test_report.py --crashed TESTLOG.json

Every cmocka case counts by itself; a test program without cmocka's lines counts as one. A case
that started and did not end well has failed, whatever stopped it, but for a timeout (a line of
tools/watch_test.py), which counts once and says that it is one. With --suspect, a test whose output
matches REGEX has failed too. What was skipped is listed by the reason, the indented line before
SKIPPED. The last line is `N passed, N failed`, and the exit status 1 if any failed, or if there was
nothing to count.

AGAIN, where there is such a file, is the log of tests of the first one that ran once more: the second result counts,
and the first is shown. --crashed prints the names of tests that a signal or the watcher ended.

With --times, the slowest tests of FILE (tools/watch_test.py) are shown and its lines are kept in DURATIONS, which has
one for each test that ever ran. KERNELS is a folder with PoCL's cache in it, or in a folder in it: what was compiled
after SINCE (seconds since 1970) is counted. BUILD is the processor time that the build took, or empty.
"""
import collections
import json
import os
import re
import subprocess
import sys

from test_progress import read_durations

CASE = re.compile(r"\[( RUN      |       OK |  SKIPPED |  FAILED  )\] ([^\n]*)")
TIMEOUT = re.compile(r"^TIMEOUT: (.*)", re.M)
CRASH = re.compile(r"killed by signal|failed with exception|^TIMEOUT: ", re.M)
SHOWN_LINES, SLOWEST = 15, 10


def reason_of(output, match):
    """The line before a SKIPPED, where it is indented."""
    before = output[:match.start()].rstrip("\n").rpartition("\n")[2]
    return before.strip() if before.startswith("  ") else "no reason given"


def cases_of(entry):
    """(passed names, failed names, reasons of what was skipped) of one meson test."""
    output = entry.get("stdout", "")
    started, good, skipped, reasons = [], [], [], []
    for match in CASE.finditer(output):
        kind, name = match.group(1).strip(), match.group(2).strip()
        if kind == "RUN":
            started.append(name)
        elif kind == "OK":
            good.append(name)
        elif kind == "SKIPPED":
            skipped.append(name)
            reasons.append(reason_of(output, match))
    failed = list(started)
    for name in good + skipped:
        if name in failed:
            failed.remove(name)
    late = TIMEOUT.search(output)
    if late:
        return good, [f"timeout: {late.group(1)}"], reasons
    result = entry["result"]
    if result in ("OK", "EXPECTEDFAIL") and not started:
        good = [entry["name"]]
    elif result == "SKIP" and not started:
        reasons = [f"{entry['name']}, the whole test"]
    elif result not in ("OK", "EXPECTEDFAIL", "SKIP") and not failed:
        failed = [f"{entry['name']} ({result.lower()})"]
    if entry.get("returncode", 0) < 0:
        failed = [f"{name}, ended by signal {-entry['returncode']}" for name in failed]
    return good, failed, reasons


def why(output, found):
    """The lines that explain the failure: from the first complaint on, or the last lines, without passed cases."""
    if found:
        output = output[output.rfind("\n", 0, found.start()) + 1:]
    lines = [line for line in output.splitlines() if line.strip() and not re.match(r"\[( RUN|       OK|=====)", line)]
    return lines[:SHOWN_LINES] if found else lines[-SHOWN_LINES:]


def changed_at(path):
    """Seconds since 1970; 0 where the file has been removed."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0


def compiled_since(folder, since):
    """(programs, kernels, seconds) that PoCL compiled and keeps below the folder.

    It makes a folder, compiles a program into it, and does the same for a kernel and each size of its work-groups, so
    the seconds are those between the birth of the folder and the file's last change. Without GNU stat they are None."""
    names = []
    for path, folders, found in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name not in ("ccache", "mesa_shader_cache", "programs")]
        names += [os.path.join(path, name) for name in found if name == "program.bc" or name.endswith(".so")]
    new = {name: changed_at(name) for name in names}
    new = {name: end for name, end in new.items() if end >= since and not os.path.basename(name).startswith("temp")}
    programs, seconds = sum(name.endswith(".bc") for name in new), 0.0
    places = sorted({os.path.dirname(name) for name in new})
    births = {}
    try:
        for first in range(0, len(places), 500):
            told = subprocess.run(["stat", "--format=%.9W %n", *places[first:first + 500]], capture_output=True, text=True)
            births.update((line.partition(" ")[2], float(line.partition(" ")[0])) for line in told.stdout.splitlines())
    except (OSError, ValueError):
        return programs, len(new) - programs, None
    if places and not any(births.values()):
        return programs, len(new) - programs, None
    for name, end in new.items():
        begin = births.get(os.path.dirname(name), 0)
        seconds += max(0.0, end - begin) if begin else 0
    return programs, len(new) - programs, seconds


def show_times(times_path, durations_path, kernels, since, build):
    times, durations = read_durations(times_path), read_durations(durations_path)
    durations.update(times)
    with open(durations_path + ".new", "w", encoding="utf-8") as file:
        file.writelines(f"{name}\t{wall:.2f}\t{used:.2f}\n" for name, (wall, used) in sorted(durations.items()))
    os.replace(durations_path + ".new", durations_path)
    print(f"the slowest tests, with processor time (all: {durations_path}):")
    for name, (wall, used) in sorted(times.items(), key=lambda item: -item[1][0])[:SLOWEST]:
        print(f"{wall:8.1f} s {used:8.1f} s  {name}")
    total, waited = sum(used for _, used in times.values()), sum(wall for wall, _ in times.values())
    programs, count, seconds = compiled_since(kernels, float(since))
    parts = [f"build {float(build):.0f} s"] if build else []
    if seconds is None or not programs + count:
        parts.append(f"tests {total:.0f} s")
    else:
        seconds *= min(1, total / waited)  # compilers wait for a busy processor as all else does
        parts += [f"kernels about {seconds:.0f} s ({programs} programs, {count} kernels compiled)", f"other {total - seconds:.0f} s"]
    print("processor time: " + ", ".join(parts))


def read_entries(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        return [json.loads(line) for line in log if line.strip()]


def output_of(entry):
    return entry.get("stdout", "") + "\n" + entry.get("stderr", "")


def has_crashed(entry):
    return entry["result"] not in ("OK", "EXPECTEDFAIL", "SKIP") and bool(
        entry.get("returncode", 0) < 0 or CRASH.search(output_of(entry)))


def final_entries(paths):
    """Those of the first log, with the results of the second in place of its; shows what is replaced."""
    entries = read_entries(paths[0])
    again = {entry["name"]: entry for path in paths[1:2] if os.path.exists(path) for entry in read_entries(path)}
    for entry in entries:
        if entry["name"] in again:
            _, bad, _ = cases_of(entry)
            print(f"FLAKY   {entry['name']}: ran once more after {', '.join(bad[:3])}")
            print("\n".join("    " + line[:300] for line in why(output_of(entry), None)))
    return [again.get(entry["name"], entry) for entry in entries]


def main(arguments):
    suspect = times = None
    if arguments[:1] == ["--crashed"]:
        print("\n".join(re.split(" / |koine:", entry["name"])[-1] for entry in read_entries(arguments[1]) if has_crashed(entry)))
        return 0
    if arguments[:1] == ["--suspect"]:
        suspect, arguments = re.compile(arguments[1]), arguments[2:]
    if arguments[:1] == ["--times"]:
        times, arguments = arguments[1:6], arguments[6:]
    if not arguments:
        sys.exit(__doc__)
    passed = failed = 0
    skipped = collections.Counter()
    for entry in final_entries(arguments):
        good, bad, left_out = cases_of(entry)
        found = suspect and suspect.search(output_of(entry))
        if found:
            bad.append(f"{entry['name']} ({found.group(0)})")
        passed, failed = passed + len(good), failed + len(bad)
        skipped.update(left_out)
        for name in bad[:10]:
            print(f"FAILED  {entry['name']}: {name}")
        if len(bad) > 10:
            print(f"FAILED  {entry['name']}: and {len(bad) - 10} more")
        if bad:
            print("\n".join("    " + line[:300] for line in why(output_of(entry), found)))
    for reason, count in skipped.most_common():
        print(f"{count} skipped: {reason}")
    if times:
        show_times(*times)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
