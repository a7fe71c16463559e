"""codespell finds nothing in documents, comments and texts.

usage: spelling.py SOURCE_ROOT

Correct words that codespell reports, and mistakes that tests make on purpose, are in spelling.txt in this folder.
"""
import pathlib
import shutil
import subprocess
import sys

from report import Skipped, run

ROOT = pathlib.Path(sys.argv[1])
FOLDERS = ("src", "cl", "include", "tools", "tests", "examples", "docs")
# Files of numbers or of words that are not English text.
SKIPPED = "*.json,*.tsv,*.png,*.npy,*.safetensors,__pycache__,spelling.txt"


def spelt():
    if not shutil.which("codespell"):
        raise Skipped("codespell is not installed")
    files = [path.relative_to(ROOT).as_posix() for pattern in ("*.md", "*.yml", "*.toml", ".ci/*") for path in sorted(ROOT.glob(pattern))]
    result = subprocess.run(["codespell", "--quiet-level=3", f"--skip={SKIPPED}",
                             f"--ignore-words={pathlib.Path(__file__).with_name('spelling.txt')}", *FOLDERS, *files,
                             "meson.build", "meson_options.txt"], cwd=ROOT, capture_output=True, text=True)
    found = (result.stdout + result.stderr).splitlines()
    return found or (["codespell failed"] if result.returncode else [])


run([("documents, comments and texts are spelt right", spelt)])
