"""The tree: the top level, every kernel in the list that is built in, a folder of kernels for each family.

usage: tree.py SOURCE_ROOT KERNEL_NAME...
"""
import pathlib
import subprocess
import sys

from report import run

ROOT = pathlib.Path(sys.argv[1])
KERNELS = set(sys.argv[2:])

TOP = {"meson.build", "meson_options.txt", "include", "src", "cl", "tests", "tools", "examples", "subprojects", "README.md",
       "LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "VERSIONING.md", "SECURITY.md", "docs", ".clang-format", ".editorconfig",
       ".gitignore", ".ci"}
# Files of the project that other checks do not need.
MAYBE = {"pyproject.toml", "mkdocs.yml", ".github"}
README_LINES = 150


def tracked():
    """Paths that git follows, or None without git or outside a checkout."""
    if not (ROOT / ".git").exists():
        return None
    try:
        result = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name for name in result.stdout.decode().split("\0") if name]


def top_level_of(names, present):
    """`names`: what git tracks, or None. Then what is present and not known is the user's."""
    found = {name.split("/")[0] for name in names} if names else set(present)
    return ([f"{name} does not belong at the top" for name in sorted(found - TOP - MAYBE) if names] +
            [f"{name} is missing at the top" for name in sorted(TOP - found)])


def top_level():
    return top_level_of(tracked(), [path.name for path in ROOT.iterdir()])


def a_users_file_is_allowed():
    there = sorted(TOP) + ["notes.txt"]
    return (top_level_of(None, there) + [f"{what} was not noticed" for what, complaints in
            (("a tracked file", top_level_of(there, there)), ("a missing file", top_level_of(None, there[1:]))) if len(complaints) != 1])


def readme_is_short():
    lines = len((ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    return [f"README.md has {lines} lines; at most {README_LINES}: the rest belongs in docs"] if lines > README_LINES else []


def kernels_listed():
    on_disk = {path.relative_to(ROOT / "cl").as_posix() for path in (ROOT / "cl").rglob("*.cl")}
    return ([f"cl/{name} is not in kernel_names of cl/meson.build" for name in sorted(on_disk - KERNELS)] +
            [f"cl/{name} is listed and does not exist" for name in sorted(KERNELS - on_disk)])


def no_subgroups():
    """docs/porting.md promises that their width does not matter."""
    return [f"cl/{name} uses subgroups: a test has to force widths of 8 to 128, and docs/porting.md to say so"
            for name in sorted(KERNELS) if not name.startswith("probe/")
            and name != "common/fragment.cl"  # sizes of matrix units, which are forced by emulation
            and "sub_group" in (ROOT / "cl" / name).read_text(encoding="utf-8")]


def families_mirrored():
    """Each folder of src/ops has the folder of its kernels in cl/."""
    families, kernels = ({path.name for path in (ROOT / folder).iterdir() if path.is_dir()} for folder in ("src/ops", "cl"))
    return [f"{name} is a folder of src/ops or of cl, but not of both"
            for name in sorted(families ^ (kernels - {"common", "probe"}))]


def wraps_only():
    names = tracked() or []
    return [f"{name}: subprojects/ holds wraps and packagefiles only" for name in names
            if name.startswith("subprojects/") and not name.endswith(".wrap")
            and not name.startswith("subprojects/packagefiles/")]


run([("top level", top_level), ("a user's file is allowed", a_users_file_is_allowed),
     ("the README is short", readme_is_short), ("kernels listed", kernels_listed), ("no subgroups", no_subgroups),
     ("families mirrored", families_mirrored), ("wraps only", wraps_only)])
