"""Names that were replaced do not come back; docs/glossary.md has the ones that are used.

usage: words.py SOURCE_ROOT
"""
import pathlib
import re
import sys

from report import run

ROOT = pathlib.Path(sys.argv[1])
# Folders and files that are checked: files with these suffixes, and scripts without one.
PLACES = ["include", "src", "cl", "tools", "docs", "tests", "examples", ".ci", ".github", "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
          "SECURITY.md", "VERSIONING.md", "meson.build", "meson_options.txt", "mkdocs.yml", "pyproject.toml"]
SUFFIXES = (".c", ".h", ".cl", ".md", ".py", ".sh", ".build", ".txt", ".koine", ".cpp", ".in", ".ipynb", ".patch", ".supp", ".target",
            ".toml", ".yml")
SELF = "tests/house/words.py"  # has all of them

# Pattern (any case) -> what to write instead.
RETIRED = {
    r"weave|woven": "transpose_lanes",
    r"rehears": "precompile",
    r"kn_own": "custom",
    r"add_sign\b": "add_token",
    r"give_back\b": "release",
    r"\brooms\b|room_arguments": "modules",
    r"going on with": "continuing with",
    r"is not here\b": "is not installed",
    r"(states|packages|implementation) alone\b": "only, before the noun",
    r"\b(as|unless) told\b|tells what|reason told": "given, prints",
    r"(?-i:\bMOST_[A-Z]|\bLEAST_[A-Z]|\bDEEPEST\b|\bLONGEST_)": "MAX_, MIN_",
}


def is_checked(path):
    return path.suffix in SUFFIXES or not path.suffix and path.is_file() and path.read_bytes()[:2] == b"#!"


def retired_names():
    complaints = []
    pattern = re.compile("|".join(f"(?:{one})" for one in RETIRED), re.I)
    for place in PLACES:
        files = [path for path in [ROOT / place, *sorted((ROOT / place).rglob("*"))] if is_checked(path)]
        if not files:
            complaints.append(f"{place} has no files to check")
        for path in files:
            name = path.relative_to(ROOT).as_posix()
            text = "" if name == SELF else path.read_text(encoding="utf-8")
            for match in pattern.finditer(text):
                instead = next(new for old, new in RETIRED.items() if re.match(old, match.group(0), re.I))
                line = text.count("\n", 0, match.start()) + 1
                complaints.append(f"{name}:{line}: '{match.group(0)}' is retired: {instead}")
    return complaints


def patterns_match():
    """Each pattern finds a name that it is meant to find."""
    samples = ["weave", "rehearsal", "kn_own_x", "add_sign(", "give_back(", "MOST_BYTES", "rooms", "going on with", "is not here",
               "reads states alone", "unless told"]
    return [f"no name of the test matches {pattern!r}" for pattern in RETIRED
            if not any(re.search(pattern, sample, re.I) for sample in samples)]


def scripts_are_checked():
    names = ["tools/start", "tools/gpu-lab/run", ".ci/run", "tests/meson.build", "tools/common.sh", "mkdocs.yml"]
    return [f"{name} is not checked" for name in names if not is_checked(ROOT / name)]


run([("retired names", retired_names), ("patterns match", patterns_match), ("scripts are checked", scripts_are_checked)])
