"""Links in the documents lead somewhere, and the names in them exist.

usage: links.py SOURCE_ROOT

All .md files are checked: files and folders that links and images name, and anchors by GitHub's rule, but not web addresses.
Files, C names, options and Python names in code are looked up in the source; KINDS is the table.
"""
import ast
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
FILE = re.compile(r"(?:src|cl|include|tools|tests|docs|examples|\.ci)/[\w./-]*\w|[\w/]+\.(?:c|h|cl|koine)")
NAMED = re.compile(rf"`({FILE.pattern}|kn_\w+)`")
# Written by programs; they have names of other projects.
GENERATED = ("docs/appendix/", "docs/torch-operators.md", "docs/onnx-operators.md")
# Files that an example writes or expects, and what stands for any name.
EXAMPLE_FILE = re.compile(r".*(NAME|NNN|FILE).*|(mine|example|net|lenet|deploy)\.\w+")
# Options of programs that are not part of the project, and of the examples' programs.
OTHER_OPTIONS = {"--gpus-per-task", "--mpi", "--map-by", "--nodes", "--ntasks-per-node", "--suite", "--no-rebuild", "--cflags",
                 "--libs", "--to", "--execute", "--inplace", "--reconfigure", "--list", "--user", "--prefix", "--num-processes", "--force"}


def documents():
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
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8", errors="replace")
            for folder in ("src", "cl", "include", "tools", "tests", "examples", ".ci") for path in (ROOT / folder).rglob("*")
            if path.is_file() and (path.suffix in (".c", ".h", ".cl", ".koine", ".py", ".sh", ".cpp", ".build") or not path.suffix)
            and path.resolve() != SELF}


@functools.lru_cache(maxsize=None)
def words(prefix, suffixes):
    """All words of the sources in a folder."""
    return {word for name, text in sources().items() if name.startswith(prefix) and name.endswith(suffixes)
            for word in re.findall(r"[A-Za-z_]\w*", text)}


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


def code_of(path):
    """(code spans, lines of code blocks) of a document."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, flags=re.S | re.M)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    lines = [line.strip() for line in re.findall(r"^ {4,}\S.*$", text, flags=re.M)]
    return re.findall(r"`([^`]+)`", re.sub(r"^ {4,}\S.*$", "", text, flags=re.M)), lines + "".join(blocks).splitlines()


# ---- the kinds of names: (what it is called, its names in a document, whether the source has it)


def files_in(spans, lines):
    return {name for span in spans if FILE.fullmatch(name := span.rstrip("/")) and not EXAMPLE_FILE.fullmatch(name)}


def c_names_in(spans, lines):
    return {name for text in (*spans, *lines) for name in re.findall(r"\b(?:kn|KN)_\w*[A-Za-z0-9]\b(?!\*|\.\.\.|…|_)", text)}


def c_name_is_known(name):
    """Words in capitals stand for any name: kn_FAMILY_lower."""
    if re.search(r"^kn_.*[A-Z]{2}", name) or name in words("", (".c", ".h", ".cl", ".build", ".py")):
        return True
    row = re.fullmatch(r"kn_row_(\w+)", name)
    return bool(row and any(defines(text, name) for text in sources().values())) or bool(re.fullmatch(r"KN_\w*NAME\w*", name))


def options_in(spans, lines):
    """Of commands in code blocks only those of koine and of the project's scripts."""
    ours = [line.split(" #")[0] for line in lines if re.match(r"(?:[A-Z_]+=\S+ )*(?:mpirun .*|srun .*)?(?:build/tools/)?(?:koine|tools/[\w/-]+) ", line)]
    return {name for text in (*spans, *ours) for name in re.findall(r"(?:^|[\s(=])(--[a-z][a-z0-9-]*[a-z0-9])", text)}


def option_is_known(name):
    return name in OTHER_OPTIONS or any(
        re.search(rf'(?:\{{[\s\\]*|FIELD\()"{name[2:]}",\s+[A-Za-z]' if path.startswith("tools/command/") else rf"{name}\b(?!-)", text)
        for path, text in sources().items() if path.startswith(("tools/", "tests/", ".ci/")))


def python_names_in(spans, lines):
    found = {name for text in (*spans, *lines) for name in re.findall(r"(?<![\w./-])koine\.([A-Za-z_][\w.]*\w)", text)}
    classes = "|".join(package()["koine"].classes)
    return found | {name for span in spans for name in re.findall(rf"^((?:{classes})\.\w+)", span)}


class Module(ast.NodeVisitor):
    """The names of a module, and of each class in it: methods, attributes, and the names of its bases."""

    def __init__(self, path):
        self.names, self.classes = set(), {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = {
                    *(base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases),
                    *(one.name for one in ast.walk(node) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))),
                    *(one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)),
                    *(one.id for one in ast.walk(node) if isinstance(one, ast.Name)), *(one.value for one in ast.walk(node)
                      if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.isidentifier())}
            if isinstance(node, (ast.ImportFrom, ast.Import)):
                self.names |= {alias.asname or alias.name for alias in node.names}
            for one in ast.walk(node) if isinstance(node, ast.Assign) else ():
                self.names |= {one.id} if isinstance(one, ast.Name) else set()
            self.names |= {node.name} if hasattr(node, "name") else set()


@functools.lru_cache(maxsize=None)
def package():
    """Modules by name; `koine` also has the classes that it exports."""
    folder = ROOT / "tools/python"
    found = {}
    for path in sorted((folder / "koine").rglob("*.py")):
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        found[name[:-len(".__init__")] if name.endswith(".__init__") else name] = Module(path)
    for module in list(found.values()):
        found["koine"].classes.update({name: members for name, members in module.classes.items() if not name.startswith("_")})
    return found


def python_name_is_known(name):
    module, rest = "koine", name.split(".")
    while rest and f"{module}.{rest[0]}" in package():
        module = f"{module}.{rest.pop(0)}"
    if not rest:
        return True
    first, *members = rest
    here = package()[module]
    operator = lambda word: f"kn_{word}" in words("include/", (".h",))  # noqa: E731
    if first == "ops":
        return not members or operator(members[0])
    if first in here.classes and members:
        bases = here.classes[first]
        known = set(bases).union(*(here.classes.get(base, set()) for base in bases))
        return members[0] in known or first in ("Value", "Graph") and operator(members[0])
    return first in here.names or first in here.classes or any(  # a metadata entry of a file, or a logger
        f'"koine.{name}' in text for path, text in sources().items() if path.endswith((".c", ".h")))


KINDS = (("file", files_in, lambda name: bool(files_of(name)) or (ROOT / name).exists() or (ROOT / "include" / name).exists()),
         ("C name", c_names_in, c_name_is_known), ("option", options_in, option_is_known),
         ("Python name", python_names_in, python_name_is_known))


def names_exist(path):
    spans, lines = code_of(path)
    complaints = [f"there is no {kind} {name}" for kind, find, known in KINDS for name in sorted(find(spans, lines)) if not known(name)]
    text = " ".join(path.read_text(encoding="utf-8").split())
    for name, file in re.findall(r"`(kn_\w+)` (?:in |of |\()`([\w./-]+\.(?:c|h|cl))`", text):
        if not any(defines(sources().get(found, ""), name) for found in files_of(file)):
            complaints.append(f"{name} is not defined in {file}")
    return complaints


def mistakes_are_found():
    """Each kind has a name that is known, and refuses one that is not."""
    samples = {"file": ("src/plan/plan.h", "src/plan/plans.h"), "C name": ("kn_session_run", "kn_session_runs"),
               "option": ("--shard-optimizer", "--shard-optimiser"), "Python name": ("Model.predict", "Model.predicts")}
    return [f"{kind}: {name} is {'known' if known(name) else 'unknown'}" for kind, _, known in KINDS
            for name, expected in zip(samples[kind], (True, False)) if known(name) != expected]


def names_are_found(document):
    """A document that names almost nothing would pass any test."""
    count = len(NAMED.findall((ROOT / document).read_text(encoding="utf-8")))
    return [] if count > 30 else [f"{document} names only {count} files and functions"]


SELF = pathlib.Path(__file__).resolve()
run([(f"links of {path.relative_to(ROOT)}", functools.partial(links_lead, path)) for path in documents()] +
    [(f"names of {path.relative_to(ROOT)}", functools.partial(names_exist, path)) for path in documents()
     if not path.relative_to(ROOT).as_posix().startswith(GENERATED)] +
    [("mistakes are found", mistakes_are_found),
     ("docs/architecture.md names many", functools.partial(names_are_found, "docs/architecture.md"))])
