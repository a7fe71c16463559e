"""Dependencies: which module may include which, and only through its header.

usage: arrows.py SOURCE_ROOT
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # where tools/affected.py reads the table
from report import code_only, run

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
SOURCE = ROOT / "src"

# From the top down. A module may include the headers of the modules named here and no others.
ALLOWED = {
    "exchange": {"models", "train", "data", "text", "formats", "run", "ops", "graph", "base"},
    "models": {"train", "data", "text", "formats", "run", "ops", "graph", "base"},
    "train": {"data", "formats", "run", "ops", "graph", "device", "base"},
    "data": {"text", "formats", "base"},
    "text": {"formats", "base"},
    "formats": {"base"},
    "verify": {"run", "plan", "ops", "graph", "device", "base"},
    "run": {"plan", "ops", "graph", "device", "base"},
    "plan": {"ops", "graph", "base"},
    "ops": {"graph", "base"},
    "graph": {"base"},
    "device": {"base"},
    "base": set(),
    # Separate libraries, built with only the public headers.
    "images": set(),
    "mpi": set(),
    "onnxruntime": set(),
}
CL_HEADER = re.compile(r"^(CL|OpenCL)/")
# The one public header with OpenCL types; it comes with the device module.
CL_PUBLIC = "koine/opencl.h"
# The headers of the separate libraries.
APART = {"koine/images.h", "koine/mpi.h"}

# The library never exits, aborts, prints, forks or reads the environment, and does not depend on the locale.
FORBIDDEN = re.compile(
    r"(?<![\w.>])(exit|_exit|_Exit|quick_exit|abort|assert|atexit|printf|vprintf|puts|putchar|perror|"
    r"getenv|secure_getenv|setenv|putenv|setlocale|uselocale|fork|vfork|system|popen|signal|sigaction|"
    r"rand|srand|random|drand48|strtok|atof)\s*\(|(?<![\w.>])(stdout|stderr|environ)\b")


def sources(folder, *endings):
    return sorted(path for path in folder.rglob("*") if path.suffix in endings) if folder.is_dir() else []


def includes(path):
    """(line number, text between the quotes or angles) of each #include."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
        if match:
            yield number, match.group(1)


def module_of(path):
    return path.relative_to(SOURCE).parts[0]


def place(path, number):
    return f"{path.relative_to(ROOT)}:{number}"


def modules():
    found = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    return [f"src/{name} is not in the list of modules" for name in sorted(found - set(ALLOWED))]


def arrows():
    bad = []
    for path in sources(SOURCE, ".c", ".h"):
        module = module_of(path)
        for number, name in includes(path):
            target = name.split("/")[0]
            if target in ALLOWED and "/" in name and target != module:
                if target not in ALLOWED.get(module, set()):
                    bad.append(f"{place(path, number)}: {module} may not include {target} (\"{name}\")")
            elif ".." in name.split("/"):
                bad.append(f"{place(path, number)}: leaves its folder with .. (\"{name}\")")
    return bad


def own_headers():
    bad = []
    for path in sources(SOURCE, ".c", ".h"):
        module = module_of(path)
        for number, name in includes(path):
            target = name.split("/")[0]
            if target in ALLOWED and "/" in name and target != module and name != f"{target}/{target}.h":
                bad.append(f"{place(path, number)}: includes {target} by \"{name}\", not by its header {target}/{target}.h")
    return bad


# Headers whose names differ from their module's.
HEADERS = {"mpi": "world.h"}  # mpi.h is MPI's


def complete():
    """A module with code has its README and, if it has several files, its header."""
    bad = [f"{name}/README.md is missing" for name in ("cl", "tests", "tools") if not (ROOT / name / "README.md").is_file()]
    for module in ALLOWED:
        folder = SOURCE / module
        files = sources(folder, ".c")
        if files:
            for name in ("README.md", HEADERS.get(module, f"{module}.h"))[:1 if len(files) == 1 else 2]:
                if not (folder / name).is_file():
                    bad.append(f"src/{module}/{name} is missing")
    return bad


def opencl():
    bad = []
    for folder in (SOURCE, ROOT / "include", ROOT / "tools"):
        for path in sources(folder, ".c", ".h"):
            if SOURCE in path.parents and module_of(path) == "device":
                continue
            if path == ROOT / "include" / CL_PUBLIC:
                continue
            for number, name in includes(path):
                if CL_HEADER.match(name) or name == CL_PUBLIC:
                    bad.append(f"{place(path, number)}: only src/device includes OpenCL's headers ({name})")
    return bad


# What a tool may include nevertheless: the JSON reader, which has no public interface.
PRIVATE = {("tools/command/serve_request.c", "formats/formats.h")}


def public():
    """Tools and public headers see public headers only; koine.h has all but opencl.h."""
    bad = []
    for folder in (ROOT / "tools", ROOT / "include"):
        for path in sources(folder, ".c", ".h"):
            for number, name in includes(path):
                target = name.split("/")[0]
                if "/" in name and target in ALLOWED and (SOURCE / name).is_file() and (path.relative_to(ROOT).as_posix(), name) not in PRIVATE:
                    bad.append(f"{place(path, number)}: \"{name}\" is private to the library")
    umbrella = ROOT / "include" / "koine" / "koine.h"
    if umbrella.is_file():
        named = {name for _, name in includes(umbrella)}
        for path in sources(ROOT / "include" / "koine", ".h"):
            name = f"koine/{path.name}"
            if path != umbrella and (name in named) == (name in {CL_PUBLIC, *APART}):
                bad.append(f"koine/koine.h {'includes' if name in named else 'lacks'} {name}")
    return bad


# What a module may use nevertheless, and why.
MANNERS = {"onnxruntime": {"getenv"}}  # the program around it cannot pass what the command reads from the environment


def manners():
    bad = []
    for path in sources(SOURCE, ".c"):
        allowed = MANNERS.get(module_of(path), set())
        text = code_only(path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1):
            match = FORBIDDEN.search(line)
            if match and match.group(1) not in allowed:
                bad.append(f"{place(path, number)}: a library guest does not use {match.group(1) or match.group(2)}")
    return bad


# Passes read properties of an operator from fields of its row.
NAMES_OF_ROWS = re.compile(r"kn_operator_find\s*\(|strcmp\s*\([^;]*->(op|row)->name|\bkn_row_\w+")


def passes():
    """No pass of the plan knows an operator by its name."""
    bad = []
    for path in sources(SOURCE / "plan", ".c", ".h"):
        for number, line in enumerate(code_only(path.read_text(encoding="utf-8")).splitlines(), 1):
            if NAMES_OF_ROWS.search(line):
                bad.append(f"{place(path, number)}: a pass asks for an operator by name: {line.strip()}")
    return bad


if __name__ == "__main__":
    run([("modules", modules), ("passes", passes), ("arrows", arrows), ("own headers", own_headers), ("complete", complete), ("opencl headers", opencl),
         ("public headers only", public), ("manners", manners)])
