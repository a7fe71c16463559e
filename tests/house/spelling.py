"""codespell finds nothing in papers, comments and texts.

usage: spelling.py SOURCE_ROOT

Words that it takes for mistakes and are none, and mistakes that tests make on purpose, are in spelling.txt in this folder.
"""
import pathlib
import shutil
import subprocess
import sys

from report import Skipped, run

ROOT = pathlib.Path(sys.argv[1])
FOLDERS = ("src", "cl", "include", "tools", "tests", "examples", "docs")
# Numbers and other words that are no text.
SKIPPED = "*.json,*.tsv,*.png,*.npy,*.safetensors,__pycache__,spelling.txt"


def spelt():
    if not shutil.which("codespell"):
        raise Skipped("codespell is not installed")
    papers = sorted(path.name for path in ROOT.glob("*.md"))
    result = subprocess.run(["codespell", "--quiet-level=3", f"--skip={SKIPPED}",
                             f"--ignore-words={pathlib.Path(__file__).with_name('spelling.txt')}", *FOLDERS, *papers,
                             "meson.build", "meson_options.txt"], cwd=ROOT, capture_output=True, text=True)
    found = (result.stdout + result.stderr).splitlines()
    return found or (["codespell failed"] if result.returncode else [])


run([("papers, comments and texts are spelt right", spelt)])
