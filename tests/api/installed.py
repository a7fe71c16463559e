"""The C program of docs/tutorials/embed.md, as C and as C++, and the examples against an installed copy, found by pkg-config.

usage: installed.py SOURCE BUILD VERSION MESON C_COMPILER [CPP_COMPILER]

Each compiler is one argument, its words apart by spaces. The copy goes to a temporary folder, which is removed.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "house"))
from report import run  # noqa: E402

SOURCE, BUILD, VERSION = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
MESON, COMPILERS = sys.argv[4], [words.split() for words in sys.argv[5:]]
MIN_ACCURACY, MAX_LINES = 0.9, 40
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def program():
    """The tutorial's program: its first block that is fenced as c."""
    return (c_blocks() or [""])[0]


def c_blocks():
    return re.findall(r"^```c\n(.*?)^```$", (SOURCE / "docs/tutorials/embed.md").read_text(), flags=re.S | re.M)


class Copy:
    """An installed copy below a folder, and the environment to use it from."""

    def __init__(self, root):
        self.root = root
        subprocess.run([MESON, "install", "-C", BUILD, "--no-rebuild", "--destdir", str(root)], check=True,
                       stdout=subprocess.DEVNULL)
        packages = next(iter(root.rglob("koine.pc")), None)
        if not packages:
            raise RuntimeError("no koine.pc was installed")
        self.library = packages.parent.parent
        self.environment = dict(os.environ, PKG_CONFIG_PATH=str(packages.parent),
                                PKG_CONFIG_SYSROOT_DIR=str(root), LD_LIBRARY_PATH=":".join(
                                    filter(None, [str(self.library), os.environ.get("LD_LIBRARY_PATH")])))

    def flags(self, *what):
        result = subprocess.run(["pkg-config", *what, "koine"], env=self.environment, check=True,
                                capture_output=True, text=True)
        return result.stdout.split()

    def compile(self, compiler, language, text, name):
        """Returns the program's path and the compiler's complaints."""
        standard = "-std=c++11" if language == "c++" else "-std=c11"
        target = self.root / name
        result = subprocess.run([*compiler, *STRICT, standard, "-x", language, "-", "-x", "none", "-o", str(target),
                                 *self.flags("--cflags", "--libs")], input=text, capture_output=True, text=True,
                                env=self.environment)
        return target, result.stderr.splitlines()[:20] or (["the compiler failed"] if result.returncode else [])

    def run(self, *command):
        return subprocess.run([str(word) for word in command], env=self.environment, capture_output=True, text=True)


def program_is_short():
    lines = program().splitlines()
    complaints = []
    if not lines:
        complaints.append("docs/tutorials/embed.md has no block of C")
    if len(lines) > MAX_LINES:
        complaints.append(f"it has {len(lines)} lines; at most {MAX_LINES} are promised")
    complaints += [f"it defines a macro: {line}" for line in lines if re.match(r"\s*#\s*define", line)]
    complaints += [f"too long to be read: {line}" for line in lines if len(line) > 120]
    return complaints


def custom_operator_matches():
    """The tutorial's lines on a custom operator are lines of the example, which is compiled and run, in the same order."""
    blocks = c_blocks()
    lines = iter([line.strip() for line in (SOURCE / "examples" / "custom_operator.c").read_text().splitlines()])
    missing = [line for line in "".join(blocks[1:2]).splitlines() if line.strip() and line.strip() not in lines]
    return [f"not in examples/custom_operator.c: {line}" for line in missing] if len(blocks) > 1 else ["it has none"]


def learns(copy, compiler, language, text):
    target, complaints = copy.compile(compiler, language, text, f"example-{language}")
    if complaints:
        return complaints
    result = copy.run(target)
    match = re.search(r"^accuracy (\d\.\d+)\n\Z", result.stdout, flags=re.M)
    if result.returncode or not match or "WRONG" in result.stdout:
        return [f"status {result.returncode}, output {result.stdout!r}", *result.stderr.splitlines()[:10]]
    if float(match.group(1)) <= MIN_ACCURACY:
        return [f"{result.stdout.strip()}; expected more than {MIN_ACCURACY}"]
    return []


def linked_by_soname(copy):
    target, complaints = copy.compile(COMPILERS[0], "c", "#include <koine/koine.h>\n"
                                      "int main(void) { return kn_version_number() < 1; }\n", "smallest")
    if complaints:
        return complaints
    needed = re.findall(r"\(NEEDED\).*\[(libkoine[^\]]*)\]", copy.run("readelf", "-d", target).stdout)
    major, minor = VERSION.split(".")[:2]
    wanted = [f"libkoine.so.{major}.{minor}" if major == "0" else f"libkoine.so.{major}"]
    complaints = [] if needed == wanted else [f"needs {needed}; expected {wanted}"]
    return complaints if copy.run(target).returncode == 0 else complaints + ["it does not run"]


def opencl_header_compiles(copy):
    """The one header with OpenCL types, which koine.h leaves out."""
    target, complaints = copy.compile(COMPILERS[0], "c", "#include <koine/koine.h>\n#include <koine/opencl.h>\n"
                                      "int main(void) {\n"
                                      "    kn_context *context = kn_context_create_opencl(0, 0, 0, 0);\n"
                                      "    int status = kn_context_status(context) == KN_OK;\n"
                                      "    kn_context_destroy(&context);\n"
                                      "    return status;\n}\n", "opencl")
    return complaints or ([] if copy.run(target).returncode == 0 else ["no error for a context of nothing"])


def version_is_reported(copy):
    told = copy.flags("--modversion")
    return [] if told == [VERSION] else [f"pkg-config says {told}; expected {VERSION}"]


def command_runs(copy):
    command = next(iter(copy.root.rglob("bin/koine")), None)
    if not command:
        return ["bin/koine was not installed"]
    result = copy.run(command, "--help")
    complaints = [] if result.returncode == 0 and "koine train" in result.stdout else [f"--help: {result!r}"]
    result = copy.run(command, "no-such-word")
    if result.returncode != 2 or result.stdout or not result.stderr:
        complaints.append(f"a word that it does not know: {result!r}")
    return complaints


def pages_are_there(copy):
    """Each command that the main page names has a page."""
    index = next(iter(copy.root.rglob("man1/koine.1")), None)
    if not index:
        return ["man1/koine.1 was not installed"]
    names = re.findall(r"^\.BR koine\\-(\w+) ", index.read_text(), flags=re.M)
    missing = [f"no page koine-{name}.1" for name in names if not (index.parent / f"koine-{name}.1").exists()]
    return missing if names else ["koine.1 names no command"]


def completion_is_there(copy):
    """The installed completion of each shell is what the command prints."""
    complaints = []
    for shell, place in (("bash", "bash-completion/completions/koine"), ("zsh", "zsh/site-functions/_koine"),
                         ("fish", "fish/vendor_completions.d/koine.fish")):
        found = next(iter(copy.root.rglob(place)), None)
        script = copy.run(next(copy.root.rglob("bin/koine")), "help", f"--shell={shell}").stdout
        if not found:
            complaints.append(f"share/{place} was not installed")
        elif not script or found.read_text() != script:
            complaints.append(f"share/{place} is not what koine help --shell={shell} prints")
    return complaints


def main():
    with tempfile.TemporaryDirectory(prefix="koine-test-") as folder:
        copy = Copy(pathlib.Path(folder))
        cases = [("the tutorial's program is short", program_is_short),
                 ("the tutorial's operator is the example's", custom_operator_matches),
                 ("pkg-config reports the version", functools.partial(version_is_reported, copy)),
                 ("programs are linked by the soname", functools.partial(linked_by_soname, copy)),
                 ("koine/opencl.h compiles", functools.partial(opencl_header_compiles, copy)),
                 ("the command runs", functools.partial(command_runs, copy)),
                 ("its man pages are installed", functools.partial(pages_are_there, copy)),
                 ("completion is installed", functools.partial(completion_is_there, copy))]
        for language, compiler in zip(("c", "c++"), COMPILERS):
            cases.append((f"the tutorial's program learns, as {language}",
                          functools.partial(learns, copy, compiler, language, program())))
        cases.append(("examples/custom_operator.c learns", functools.partial(
            learns, copy, COMPILERS[0], "c", (SOURCE / "examples" / "custom_operator.c").read_text())))
        run(cases)


main()
