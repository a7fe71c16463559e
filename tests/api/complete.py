"""Every function of the public headers is called in the tests of the public interface.

usage: complete.py INCLUDE_FOLDER TEST_SOURCE...
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "house"))
from report import code_only, run  # noqa: E402

HEADERS, SOURCES = pathlib.Path(sys.argv[1]), [pathlib.Path(path) for path in sys.argv[2:]]


def promised():
    for path in sorted(HEADERS.rglob("*.h")):
        for declaration in re.findall(r"^KN_API\b[^;]*;", code_only(path.read_text()), flags=re.M):
            yield path.name, re.search(r"\b(kn_\w+)\s*\(", declaration).group(1)


def each_is_tried():
    used = set(re.findall(r"\bkn_\w+", "\n".join(code_only(path.read_text()) for path in SOURCES)))
    names = list(promised())
    missing = [f"{name} of {header} is tried nowhere" for header, name in names if name not in used]
    return missing if len(names) > 100 else ["the headers declare next to nothing"]


run([("every public function is tried with nothing", each_is_tried)])
