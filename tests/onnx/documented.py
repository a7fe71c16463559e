"""docs/onnx-operators.md lists the operators that are read, and those of ONNX Runtime each have a case in tools/onnx.

usage: documented.py SOURCE_ROOT
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(ROOT / "tests" / "house"), str(ROOT / "tools" / "onnx")]
import operators  # noqa: E402
from report import Skipped, run  # noqa: E402

PAGE = ROOT / "docs/onnx-operators.md"


def runtime_rows():
    return {name for domain, name in operators.rows() if domain == operators.RUNTIME}


def every_row_is_listed():
    """Checked without the onnx package, which knows the versions."""
    read, apart = PAGE.read_text(encoding="utf-8").split("## ONNX operators that are not read")
    missing, others = apart.split("## Operators of other ONNX domains")
    rows, listed = {name for _, name in operators.rows()}, set(re.findall(r"`(\w+)`", read + others))
    complaints = [f"{name}: is not in {PAGE.name}" for name in sorted(rows - listed)]
    complaints += [f"{name}: is read, and {PAGE.name} says it is not" for name in sorted(
        {name for domain, name in operators.rows() if not domain} & set(re.findall(r"`(\w+)`", missing)))]
    return complaints + [f"{name}: is in {PAGE.name}, and is not read" for name in sorted(listed - rows)]


def page_is_current():
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise Skipped("the onnx package is not installed")
    return [] if operators.page() == PAGE.read_text(encoding="utf-8") else [f"{PAGE.name}: tools/onnx/operators.py makes another page"]


def cases_are_there():
    text = (ROOT / "tools/onnx/runtime_cases.py").read_text(encoding="utf-8")
    return [f"{name}: has no case in tools/onnx/runtime_cases.py" for name in sorted(runtime_rows()) if f'"{name}' not in text]


def rows_are_found():
    count = len(operators.rows())
    return [] if len(runtime_rows()) > 50 and count > 200 else [f"{count} rows are found"]


run([("rows found", rows_are_found), ("the page", every_row_is_listed), ("the page with versions", page_is_current),
     ("cases", cases_are_there)])
