"""ONNX's backend tests, compared with the expected status of each: tests/onnx/status.tsv.

usage: suite.py KOINE_ONNX_TEST [FOLDER] [--every N] [--allow-better] [--write-status] [ARGUMENT OF KOINE_ONNX_TEST...]

FOLDER has what tools/onnx/generate.py wrote; without it KOINE_ONNX_TESTS names it, and where that is not set the test
is skipped. A test that ends otherwise than expected, for better or worse, is a failure, and so is one that is in the
manifest and not in the folder. --every N: the folder has each N-th test only. --allow-better: a test
that passes unexpectedly is reported, but is not a failure.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MANIFEST, STATUS = HERE / "manifest.tsv", HERE / "status.tsv"
SKIP = 77  # what meson takes for "skipped"


def rows(path):
    """The lines of a table as lists of three columns."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    return [(line.split("\t", 2) + ["", ""])[:3] for line in lines if line and not line.startswith("#")]


def run(program, folder, arguments):
    """{name: (verdict, reason)} of all tests in the folder."""
    with tempfile.TemporaryDirectory() as place:
        table = pathlib.Path(place, "table.tsv")
        subprocess.run([program, "--quiet", "--table", str(table), *arguments, str(folder)], check=False)
        return {name: (verdict, reason) for name, verdict, reason in rows(table)}


def write_status(found, before):
    """Every verdict, with the reason that was written by hand where the verdict is as it was."""
    lines = ["# test, verdict, and why it does not pass; written by tests/onnx/suite.py --write-status\n"]
    for name in sorted(found):
        verdict, reason = found[name]
        if verdict != "PASS" and before.get(name, ("", ""))[0] == verdict and before[name][1]:
            reason = before[name][1]
        reason = reason.split("/model.onnx: ", 1)[-1]  # where the folder is does not matter
        lines.append(f"{name}\t{verdict}" + (f"\t{reason}" if verdict != "PASS" else "") + "\n")
    STATUS.write_text("".join(lines), encoding="utf-8")


def take(arguments, option):
    """Removes an option from the arguments; returns whether it was there."""
    there = option in arguments
    if there:
        arguments.remove(option)
    return there


def main():
    arguments = sys.argv[1:]
    every = 1
    if "--every" in arguments:
        at = arguments.index("--every")
        every = int(arguments[at + 1])
        del arguments[at:at + 2]
    writing, lenient = take(arguments, "--write-status"), take(arguments, "--allow-better")
    if not arguments:
        sys.exit(__doc__)
    program = arguments.pop(0)
    folder = arguments.pop(0) if arguments and not arguments[0].startswith("-") else os.environ.get("KOINE_ONNX_TESTS")
    if not folder:
        print("KOINE_ONNX_TESTS is not set: tools/onnx/README.md explains how to make the tests")
        sys.exit(SKIP)
    wanted = [name for _, name, _ in rows(MANIFEST)][::every]
    expected = {name: (verdict, reason) for name, verdict, reason in rows(STATUS)}
    found = run(program, folder, arguments)
    if writing:
        write_status(found, expected)
        expected = found
    passed = failed = 0
    for name in sorted(set(wanted) | set(found)):
        verdict, reason = found.get(name, ("missing", f"it is not in {folder}"))
        hoped = expected.get(name, ("nothing", ""))[0]
        if verdict == hoped:
            passed += 1
            continue
        better = lenient and verdict == "PASS" and hoped != "nothing"
        passed, failed = passed + better, failed + (not better)
        print(f"{name}: {verdict}, expected {hoped}{': ' if reason else ''}{reason}")
    if not wanted:
        print("the manifest is empty")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
