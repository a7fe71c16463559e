"""The operator cases on the kernels of many threads, in a simulator of a small device: work-groups of 64, 32 KiB of
local memory. It reports unwritten values, data races and accesses out of bounds; then the case fails.

usage: limited.py CASES_PROGRAM UNWRITTEN_PROGRAM OCLGRIND PART PARTS

UNWRITTEN_PROGRAM runs a kernel that reads what it has not written, which the simulator has to report.
"""
import os
import re
import subprocess
import sys

CASES, UNWRITTEN, OCLGRIND, PART, PARTS = sys.argv[1:]
# As link-time optimization prepares a program, it lacks the instruction `freeze`, which Oclgrind 21.10 does not know.
# It counts for a kernel the local memory of all whose names begin like its own: the limit is for those of a file, while
# CASES_PROGRAM limits Koine to 32 KiB.
SIMULATOR = [OCLGRIND, "--uninitialized", "--data-races", "--check-api", "--max-wgsize", "64", "--local-mem-size",
             str(128 << 10), "--build-options", "-O2 -flto=thin", "--num-threads", "1", "--max-errors", "100000"]
RESULT = re.compile(r"\[ +(RUN|OK|SKIPPED|FAILED) +\] (\S+)$")
# The table's size, reasons of what is skipped, cmocka's first and last lines.
EXPECTED = re.compile(r"cases: |  \S|\[==|\[  (PASSED|SKIPPED) | *\d+ SKIPPED TEST")
WARNING = re.compile(r"\d+ warnings? generated\.$")  # about the options above
# LLVM stores a vector that is made of numbers as one without a value, then each of them. Where one of these were missing,
# its reader would be reported.
UNWRITTEN_FIRST = re.compile(r"Uninitialized value written to local memory.*(\n\t.*){2}\n\t  store <\d+ x \w+> undef, ")
# Oclgrind 21.10 mistakes element 11 of each shuffled vector for an unwritten one. Only these kernels have vectors of 16.
VECTORS_OF_16 = re.compile(r"(widen|matmul|embedding)_blocks#")


def reports_of(command):
    """What the simulator and the program print, by line or report. Without a cache: other programs have been optimized otherwise."""
    environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    with subprocess.Popen(SIMULATOR + command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env=environment) as child:
        yield from (report for report in reports(child.stdout) if not UNWRITTEN_FIRST.match(report))
    if child.returncode:
        yield f"exit status {child.returncode}"


def reports(lines):
    """Joins each line with those after it that begin with a tab: what the simulator reports about one access."""
    report = ""
    for line in lines:
        if WARNING.match(line) or line == "\n":
            continue
        if report and not line.startswith("\t"):
            yield report.rstrip("\n")
            report = ""
        report += line
    yield report.rstrip("\n")


def cases_are_right():
    """Prints what the program prints, with FAILED for a case with a report."""
    case, well, complete, right, started = "", True, True, 0, 0
    for line in reports_of([CASES, PART, PARTS, "threads", "each"]):
        result = RESULT.match(line)
        complete = complete and "suppressing further errors" not in line
        if VECTORS_OF_16.match(case) and "ninitialized value" in line:
            continue
        if not result:
            well = well and bool(EXPECTED.match(line))
        elif result.group(1) == "RUN":
            case = result.group(2)
            started += 1
        elif result.group(2) == case:  # those that failed are listed once more at the end
            line = line if well and complete else f"[  FAILED  ] {case}"
            right += "FAILED" not in line
            case, well = "", True
        print(line, flush=True)
    return well and 0 < right == started


def unwritten_is_reported():
    case = "unwritten values are reported"
    print(f"[ RUN      ] {case}")
    reported = any("Uninitialized value" in line for line in reports_of([UNWRITTEN, "unwritten"]))
    print(f"[       OK ] {case}" if reported else f"[  FAILED  ] {case}")
    return reported


sys.exit(0 if unwritten_is_reported() & cases_are_right() else 1)
