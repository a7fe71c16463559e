"""C sources are formatted by clang-format 14, with the style in .clang-format.

usage: format.py SOURCE_ROOT
"""
import pathlib
import re
import shutil
import subprocess
import sys

from report import Skipped, run

ROOT = pathlib.Path(sys.argv[1])
# Other versions break lines elsewhere.
VERSION = "14"
FOLDERS = ("include", "src", "tools", "tests", "examples")


def formatter():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            told = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"version {VERSION}\.", told):
                return name
    raise Skipped(f"clang-format {VERSION} is not installed")


def formatted():
    files = sorted(str(path) for folder in FOLDERS for ending in ("*.c", "*.h") for path in (ROOT / folder).rglob(ending))
    result = subprocess.run([formatter(), "--dry-run", "-Werror", *files], capture_output=True, text=True)
    found = dict.fromkeys(re.findall(r"^(.+?:\d+):\d+: error: code should be", result.stderr, re.M))
    if result.returncode and not found:
        return [result.stderr.strip()]
    return [f"{pathlib.Path(place).relative_to(ROOT)}: is not as clang-format {VERSION} -i makes it" for place in found]


run([("formatted", formatted)])
