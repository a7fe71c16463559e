"""The operators of ONNX Runtime that are read are those of the tutorial, and each has a case in tools/onnx.

usage: documented.py SOURCE_ROOT
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "tests" / "house"))
from report import run  # noqa: E402


def read_here():
    """The types of the rows of the domain com.microsoft."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/exchange/onnx").glob("*.c")))
    return set(re.findall(r'MICROSOFT\("(\w+)"', text)) | set(
        re.findall(r'\.type = "(\w+)", \.build = \w+, \.domain = KN_MICROSOFT', text))


def documented():
    text = (ROOT / "docs/tutorials/onnx.md").read_text(encoding="utf-8")
    part = text.split("### Files that ONNX Runtime wrote", 1)[1].split("\n\n", 2)[2].split("\n\n", 1)[0]
    return set(re.findall(r"`(\w+)`", part)) - {"SimplifiedLayerNormalization"}  # of no domain


def apart(first, second, what):
    return [f"{name}: {what}" for name in sorted(first - second)]


def table_is_true():
    return apart(read_here(), documented(), "is not in docs/tutorials/onnx.md") + apart(
        documented(), read_here(), "is in docs/tutorials/onnx.md, and is not read")


def cases_are_there():
    text = (ROOT / "tools/onnx/runtime_cases.py").read_text(encoding="utf-8")
    return [f"{name}: has no case in tools/onnx/runtime_cases.py" for name in sorted(read_here())
            if f'"{name}' not in text]


def rows_are_found():
    return [] if len(read_here()) > 50 else [f"{len(read_here())} rows are found"]


run([("rows found", rows_are_found), ("table of the tutorial", table_is_true), ("cases", cases_are_there)])
