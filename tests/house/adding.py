"""The patches of docs/adding, each applied to its own copy of the tree, built and tested.

usage: adding.py SOURCE_ROOT MESON [NAME...]
       adding.py SOURCE_ROOT

The head of a patch says how many files it may touch (`Files: at most 4`, or `at most 4 besides tests`), which tests it
has to pass (`Tests:`), which operators koine verify has to find right (`Verify:`), and what koine has to do (`Run:`).
NAME, such as `data`: only these patches are applied. Without MESON nothing is built: each patch is only checked to apply.
"""
import fnmatch
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from report import Skipped, run

ROOT, MESON = pathlib.Path(sys.argv[1]), (sys.argv[2:] or [None])[0]
PATCHES = sorted((ROOT / "docs/adding").glob("*.patch"))
HOUSE = ("house-arrows", "house-format", "house-headers-c", "house-tree")


class Failed(Exception):
    """A command that did not do what it should."""


def built(folder, names):
    """What a working copy contains besides the sources."""
    patterns = ("build*", ".git", "*.safetensors") if pathlib.Path(folder) == ROOT else ("__pycache__",)
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


class Copy:
    """A copy of the tree and its build folder, made for the first patch and kept for the others."""

    def __init__(self, folder):
        self.tree = pathlib.Path(folder) / "tree"
        self.build = self.tree / "build"

    def command(self, *words):
        done = subprocess.run([str(word) for word in words], cwd=self.tree, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise Failed("\n".join([" ".join(str(word) for word in words), *done.stdout.splitlines()[-40:]]))
        return done.stdout

    def prepare(self):
        if self.build.exists():
            return
        for program in ("git", "ninja"):
            if not shutil.which(program):
                raise Skipped(f"{program} is not installed")
        shutil.copytree(ROOT, self.tree, symlinks=True, ignore=built)
        self.command(MESON, "setup", self.build, "-Dwerror=true")
        # Programs that other tests have compiled need not be compiled again.
        caches = os.environ.get("XDG_CACHE_HOME")
        if caches and pathlib.Path(caches).is_dir():
            shutil.copytree(caches, self.build / "tests/cache", dirs_exist_ok=True)


def field(patch, name):
    found = re.search(rf"^{name}: (.*)$", patch.split("\ndiff ")[0], flags=re.M)
    return found.group(1) if found else ""


def count(patch, text):
    files = re.findall(r"^diff --git a/(\S+)", text, flags=re.M)
    wanted = re.fullmatch(r"at most (\d+)( besides tests)?", field(text, "Files"))
    if not wanted:
        return [f"{patch.name} does not say how many files it may touch"]
    if wanted.group(2):
        files = [file for file in files if not file.startswith("tests/")]
    right = 0 < len(files) <= int(wanted.group(1))
    return [] if right else [f"{len(files)} files are touched: {', '.join(files)}"]


def works(copy, patch):
    text = patch.read_text(encoding="utf-8")
    complaints = count(patch, text)
    try:
        copy.prepare()
        copy.command("git", "apply", "-C1", patch)
        try:
            copy.command("ninja", "-C", copy.build)
            copy.command(MESON, "test", "-C", copy.build, "--no-rebuild", *HOUSE, *field(text, "Tests").split())
            koine = copy.build / "tools/koine"
            if field(text, "Verify"):
                printed = copy.command(koine, "verify", "--operators", field(text, "Verify").replace(" ", ","))
                if not re.search(r": [1-9]\d* right, 0 wrong", printed):
                    complaints.append(f"koine verify printed {printed!r}")
            if field(text, "Run"):
                copy.command(koine, *field(text, "Run").split())
        finally:
            copy.command("git", "apply", "-C1", "-R", patch)
    except Failed as failure:
        complaints += str(failure).splitlines()
    return complaints


def applies(patch):
    if not shutil.which("git"):
        raise Skipped("git is not installed")
    done = subprocess.run(["git", "apply", "--check", "-C1", str(patch)], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return count(patch, patch.read_text(encoding="utf-8")) + done.stdout.splitlines() * (done.returncode != 0)


def told():
    document = (ROOT / "docs/adding.md").read_text(encoding="utf-8")
    missing = [patch.name for patch in PATCHES if f"(adding/{patch.name})" not in document]
    return [f"docs/adding.md does not name {name}" for name in missing] if PATCHES else ["there are no patches"]


named = ("docs/adding.md names the patches", told)
if not MESON:
    run([named] + [(patch.name, functools.partial(applies, patch)) for patch in PATCHES])
with tempfile.TemporaryDirectory(prefix="koine-test-") as folder:
    kept = Copy(folder)
    run([named] + [(patch.name, functools.partial(works, kept, patch)) for patch in PATCHES
                   if not sys.argv[3:] or patch.stem in sys.argv[3:]])
