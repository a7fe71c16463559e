#!/usr/bin/env python3
"""Counts the test cases of meson's log files and shows what failed.

usage: test_report.py [--suspect REGEX] TESTLOG.json...

Every cmocka case counts by itself; a test program without cmocka's lines counts as one. A case
that started and did not end well has failed, whatever stopped it, but for a timeout (a line of
tools/watch_test.py), which counts once and says that it is one. With --suspect, a test whose output
matches REGEX has failed too. What was skipped is listed by the reason, the indented line before
SKIPPED. The last line is `N passed, N failed`, and the exit status 1 if any failed, or if there was
nothing to count.
"""
import collections
import json
import re
import sys

CASE = re.compile(r"\[( RUN      |       OK |  SKIPPED |  FAILED  )\] ([^\n]*)")
TIMEOUT = re.compile(r"^TIMEOUT: (.*)", re.M)
SHOWN_LINES = 15


def reason_of(output, match):
    """The line before a SKIPPED, where it is indented."""
    before = output[:match.start()].rstrip("\n").rpartition("\n")[2]
    return before.strip() if before.startswith("  ") else "no reason told"


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


def main(arguments):
    suspect = None
    if arguments[:1] == ["--suspect"]:
        suspect, arguments = re.compile(arguments[1]), arguments[2:]
    if not arguments:
        sys.exit(__doc__)
    passed = failed = 0
    skipped = collections.Counter()
    for path in arguments:
        with open(path, encoding="utf-8", errors="replace") as log:
            entries = [json.loads(line) for line in log if line.strip()]
        for entry in entries:
            good, bad, left_out = cases_of(entry)
            output = entry.get("stdout", "") + "\n" + entry.get("stderr", "")
            found = suspect and suspect.search(output)
            if found:
                bad.append(f"{entry['name']} ({found.group(0)})")
            passed, failed = passed + len(good), failed + len(bad)
            skipped.update(left_out)
            for name in bad[:10]:
                print(f"FAILED  {entry['name']}: {name}")
            if len(bad) > 10:
                print(f"FAILED  {entry['name']}: and {len(bad) - 10} more")
            if bad:
                print("\n".join("    " + line[:300] for line in why(output, found)))
    for reason, count in skipped.most_common():
        print(f"{count} skipped: {reason}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
