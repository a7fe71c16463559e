"""Every public header compiles alone, as C and as C++, without a warning, and so do its KN_..._DEFAULTS.

usage: headers.py INCLUDE_FOLDER LANGUAGE COMPILER...     LANGUAGE: c or c++
"""
import functools
import pathlib
import re
import subprocess
import sys

from report import run

FOLDER, LANGUAGE, COMPILER = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
STANDARD = {"c": "c11", "c++": "c++11"}[LANGUAGE]


def compiles(name):
    source = (FOLDER / name).read_text()
    defaults = re.findall(r"#define (KN_\w+_DEFAULTS)\s*\\?\s*\{[\s\\]*sizeof\((\w+)\)", source)
    if len(defaults) != len(re.findall(r"#define KN_\w+_DEFAULTS", source)):
        return ["a KN_..._DEFAULTS does not begin with the size of its struct"]
    uses = "".join(f"{kind} value{i} = {macro};\n" for i, (macro, kind) in enumerate(defaults))
    # Twice: a header must also bear being included again.
    text = f"#include <{name}>\n#include <{name}>\n{uses}int main(void) {{ return 0; }}\n".replace(
        "(void)", "()" if LANGUAGE == "c++" else "(void)")
    result = subprocess.run(
        COMPILER + ["-x", LANGUAGE, f"-std={STANDARD}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                    f"-I{FOLDER}", "-"], input=text, capture_output=True, text=True)
    return result.stderr.splitlines()[:20] or ["the compiler failed"] if result.returncode else []


headers = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.h"))
run([(f"{name} as {LANGUAGE}", functools.partial(compiles, name)) for name in headers])
