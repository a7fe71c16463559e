"""Every public header compiles by itself, as C and as C++, without a warning, and so do its KN_..._DEFAULTS,
which are what the library's kn_..._init sets, and the example in its first comment.

usage: headers.py INCLUDE_FOLDER LIBRARY LANGUAGE COMPILER...
LANGUAGE: c or c++; LIBRARY: "" if none can be linked to
"""
import functools
import pathlib
import re
import subprocess
import sys
import tempfile

from report import run

FOLDER, LIBRARY, LANGUAGE, COMPILER = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
STANDARD = {"c": "c11", "c++": "c++11"}[LANGUAGE]


def defaults_of(source):
    """The macros for defaults, and the struct of each."""
    return re.findall(r"#define (KN_\w+_DEFAULTS)\s*\\?\s*KN_DEFAULTS(?:_ZERO)?\((\w+)[,)]", source)


def compiler(text, *more):
    """The compiler's complaints about a program."""
    result = subprocess.run(
        COMPILER + ["-x", LANGUAGE, f"-std={STANDARD}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                    f"-I{FOLDER}", "-"] + list(more), input=text, capture_output=True, text=True)
    return result.stderr.splitlines()[:20] or ["the compiler failed"] if result.returncode else []


def compiles(name):
    source = (FOLDER / name).read_text()
    defaults = defaults_of(source)
    if len(defaults) != len(re.findall(r"#define KN_\w+_DEFAULTS", source)):
        return ["a KN_..._DEFAULTS is not made by KN_DEFAULTS"]
    uses = "".join(f"{kind} value{i} = {macro};\n" for i, (macro, kind) in enumerate(defaults))
    # Twice: a header must also bear being included again.
    text = f"#include <{name}>\n#include <{name}>\n{uses}int main(void) {{ return 0; }}\n".replace(
        "(void)", "()" if LANGUAGE == "c++" else "(void)")
    return compiler(text, "-fsyntax-only")


# What the examples use without declaring it.
SETTING = """
#include <stdio.h>
enum { BATCH = 32 };
static float x[784], y[10];
static size_t count = 784;
static uint64_t step;
static double value;
static kn_context *context;
static kn_value *input, *target, *output, *loss;
static kn_states *states;
static kn_session *session;
static kn_trainer *trainer;
static kn_model *model;
static kn_dataset *dataset;
static void print_message(void *user, kn_log_level level, const char *message) {
    (void)user, (void)level;
    puts(message);
}
"""
OPENCL = """
static cl_context cl_own_context;
static cl_device_id cl_own_device;
static cl_command_queue cl_own_queue;
static cl_mem cl_own_memory;
"""
NO_EXAMPLE = {"koine/export.h"}


def example(name):
    """The code in the comment at the head of a header: what is indented and looks like statements."""
    head = (FOLDER / name).read_text().split("*/")[0]
    blocks = re.findall(r"(?:^ \*     +\S.*\n|^ \*\n(?= \*     ))+", head, flags=re.M)
    return re.sub(r"^ \* ?", "", "".join(block for block in blocks if ";" in block or "#if" in block), flags=re.M)


def example_compiles(name):
    code = example(name)
    if not code:
        return [] if name in NO_EXAMPLE else ["it has no example in its first comment"]
    text = (f"#include <koine/koine.h>\n#include <{name}>\n{SETTING}{OPENCL if name == 'koine/opencl.h' else ''}"
            f"int main(void);\nint main(void) {{\n{code}\nreturn 0;\n}}\n")
    return compiler(text.replace("main(void)", "main()") if LANGUAGE == "c++" else text, "-fsyntax-only", "-Wno-unused")


def examples_are_compiled():
    wrong = compiler(f"#include <koine/koine.h>\n{SETTING}int nothing = kn_no_such_function(trainer);\n", "-fsyntax-only")
    return ([] if wrong else ["an example that is wrong compiles"]) + [
        f"{name}: no statement ends in ;" for name in headers if name not in NO_EXAMPLE and ";" not in example(name)]


# Both are assigned to memory of zeros and to memory of ones: where these leave different bytes is padding.
COMPARISON = """
#include <koine/koine.h>
#include <stdio.h>
#include <string.h>

static int differ(const char *name, const void *values, size_t size) {
    const unsigned char *bytes = (const unsigned char *)values;
    size_t compared = 0, known = 0;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != bytes[size + i] || bytes[2 * size + i] != bytes[3 * size + i]) continue;
        compared++;
        if (bytes[i] == bytes[2 * size + i]) continue;
        printf("%s: byte %d is not what the function sets\\n", name, (int)i);
        return 1;
    }
    memcpy(&known, bytes, sizeof known);
    if (known == size && compared >= sizeof known) return 0;
    printf("%s does not set the size\\n", name);
    return 1;
}

#define COMPARE(type, macro, init) { \\
    static type values[4]; \\
    memset(&values[0], 0, sizeof(type)), memset(&values[1], 255, sizeof(type)); \\
    memset(&values[2], 0, sizeof(type)), memset(&values[3], 255, sizeof(type)); \\
    for (int i = 0; i < 2; i++) { values[i] = (type)macro; init(&values[2 + i]); } \\
    failed |= differ(#macro, values, sizeof(type)); }
#define NO_FUNCTION(made) *(made) = (made)[-2]

int main() {
    int failed = 0;
"""


def compared(more=""):
    """A program that compares all defaults with the functions that set them; results have no function."""
    source = "".join(path.read_text() for path in sorted(FOLDER.rglob("*.h")))
    functions = {kind: name for name, kind in re.findall(r"void (kn_\w+_init)\((\w+) \*params\)", source)}
    defaults = defaults_of(source)
    text = COMPARISON.replace("main()", "main()" if LANGUAGE == "c++" else "main(void)")
    for macro, kind in defaults:
        text += f"    COMPARE({kind}, {macro}, {functions.get(kind, 'NO_FUNCTION')})\n"
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(folder) / "defaults")
        problems = compiler(text + more + "    return failed;\n}\n", "-o", program, "-x", "none", LIBRARY,
                            f"-Wl,-rpath,{pathlib.Path(LIBRARY).parent}")
        if problems:
            return problems
        result = subprocess.run([program], capture_output=True, text=True)
        return result.stdout.splitlines() if result.returncode else []


def are_set():
    problems = compared()
    wrong = compared("    COMPARE(kn_loader_params, KN_DEFAULTS(kn_loader_params, KN_FIELD(seed, 1)), "
                     "kn_loader_params_init)\n")
    if not problems and "is not what the function sets" not in "".join(wrong):
        problems = ["defaults that differ are not found", *wrong]
    return problems


headers = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.h"))
run([(f"{name} as {LANGUAGE}", functools.partial(compiles, name)) for name in headers]
    + [(f"the example of {name} as {LANGUAGE}", functools.partial(example_compiles, name)) for name in headers]
    + [(f"examples as {LANGUAGE}", examples_are_compiled)]
    + ([(f"defaults as {LANGUAGE}", are_set)] if LIBRARY else []))
