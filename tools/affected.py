#!/usr/bin/env python3
"""What a change can affect, for .ci/run.

usage: affected.py ROOT < CHANGED_PATHS

Prints `documents` where only texts have changed, `above` where nothing has changed that kernels depend on, or `all`. What
depends on what is the table in tests/house/arrows.py; a path of which nothing is known affects all.
"""
import pathlib
import re
import runpy
import sys

# Tests in these folders check kernels: the modules that they use are those below the module `verify`.
KERNEL_TESTS = ("device", "graph", "ops", "run", "host")
TEXTS = re.compile(r"(docs/.*|[^/]+|src/.*/README|tools/(.*/)?README|tests/(.*/)?README|cl/README)\.md|LICENSE")
# Files outside src that can affect only tests of other modules, or of the command.
ABOVE = re.compile(r"examples/.*|tools/(command|python|compare|gpu-lab|completion|caffe|onnx|golden|wheel)(/.*)?")


def modules_of_kernels(root):
    table = runpy.run_path(str(root / "tests/house/arrows.py"))["ALLOWED"]
    return {"verify", *table["verify"]}, set(table)


def reach(root, paths):
    below, modules = modules_of_kernels(root)
    found = "documents"
    for path in paths:
        parts = path.split("/")
        if TEXTS.fullmatch(path):
            continue
        above = bool(ABOVE.fullmatch(path))
        if len(parts) > 2 and parts[0] == "src":
            above = parts[1] in modules - below
        elif len(parts) > 2 and parts[0] == "tests":
            above = parts[1] not in KERNEL_TESTS
        if not above:
            return "all"
        found = "above"
    return found


if __name__ == "__main__":
    lines = [line.strip() for line in sys.stdin if line.strip()]
    print(reach(pathlib.Path(sys.argv[1]), lines) if lines else "all")
