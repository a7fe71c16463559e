"""Links in the papers lead somewhere, and what docs/architecture.md names exists.

usage: links.py SOURCE_ROOT

All .md files are checked: files and folders that links and images name, and anchors by GitHub's rule. Addresses of the
web are left alone.
"""
import functools
import pathlib
import re
import sys
import unicodedata

from report import run

ROOT = pathlib.Path(sys.argv[1])
SKIPPED = {"subprojects", ".git"}
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
# Files and functions in backquotes.
NAMED = re.compile(r"`((?:src|cl|include|tools|tests|docs)/[\w./-]+|kn_\w+|[\w/]+\.(?:c|h|cl|koine))`")


def papers():
    return sorted(path for path in ROOT.rglob("*.md")
                  if not SKIPPED & set(path.relative_to(ROOT).parts) and not path.relative_to(ROOT).parts[0].startswith("build"))


def prose(path):
    """The text without fenced and indented code, which holds no links."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    return re.sub(r"^    .*$", "", text, flags=re.M)


@functools.lru_cache(maxsize=None)
def anchors(path):
    found = {}
    for heading in re.findall(r"^#+ +(.*?)\s*$", prose(path), flags=re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        name = "".join(c for c in heading if c in "-_ " or unicodedata.category(c)[0] in "LN").replace(" ", "-")
        count = found[name] = found.get(name, -1) + 1
        if count:
            found[f"{name}-{count}"] = 0
    return found


def links_lead(path):
    complaints = []
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", prose(path))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            complaints.append(f"{target}: there is no {name}")
        elif ROOT not in file.parents and file != ROOT:
            complaints.append(f"{target}: leaves the project")
        elif anchor and (file.suffix != ".md" or anchor not in anchors(file)):
            complaints.append(f"{target}: no heading has the anchor #{anchor}")
    return complaints


@functools.lru_cache(maxsize=None)
def sources():
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for folder in ("src", "cl", "include", "tools")
            for path in (ROOT / folder).rglob("*") if path.suffix in (".c", ".h", ".cl", ".koine")}


def defines(text, name):
    """Whether a file declares or defines it: a line of it that is not indented, or a row of the operator table."""
    if re.search(rf"^\S.*\b{name}\b", text, flags=re.M):
        return True
    row = re.fullmatch(r"kn_row_(\w+)", name)
    return bool(row and re.search(rf"^KN_\w+\(\s*{row.group(1)},", text, flags=re.M))


def files_of(name):
    if name.split("/")[0] in ("src", "cl", "include", "tools", "tests", "docs"):
        return [name] if (ROOT / name).exists() else []
    return [file for file in sources() if file.endswith("/" + name)]


def names_are_right(paper):
    """Each file and function in backquotes exists; "`function` in `file`" is taken by its word."""
    text = " ".join((ROOT / paper).read_text(encoding="utf-8").split())
    names = set(NAMED.findall(text))
    complaints = [f"there is no file {name}" for name in names if not name.startswith("kn_") and not files_of(name)]
    for name in names:
        if name.startswith("kn_") and not any(re.search(rf"\b{name}\b", source) for source in sources().values()):
            complaints.append(f"there is no {name}")
    for name, file in re.findall(r"`(kn_\w+)` (?:in|of) `([\w./-]+)`", text):
        if not any(defines(sources().get(path, ""), name) for path in files_of(file)):
            complaints.append(f"{name} is not defined in {file}")
    return sorted(complaints)


def names_are_found(paper):
    """A paper that names next to nothing would pass anything."""
    count = len(NAMED.findall((ROOT / paper).read_text(encoding="utf-8")))
    return [] if count > 30 else [f"{paper} names only {count} files and functions"]


run([(f"links of {path.relative_to(ROOT)}", functools.partial(links_lead, path)) for path in papers()] +
    [("files and functions of docs/architecture.md", functools.partial(names_are_right, "docs/architecture.md")),
     ("docs/architecture.md names many", functools.partial(names_are_found, "docs/architecture.md"))])
