"""libkoine-onnxruntime beside ONNX Runtime's own: its header, its library, and programs that were linked with it.

usage: original.py HOUSE_FOLDER LIBRARY TEST_PROGRAM SOURCE_FOLDER COMPILER...

Two environment variables name what is not part of this project; cases that need one are skipped without it.
KOINE_ORT_HEADER: the folder with onnxruntime_c_api.h and the headers that it includes, of version 1.30.
KOINE_ORT_LIBRARY: the library, such as libonnxruntime.so.1.32.0 of the Python package.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
from report import Skipped, run  # noqa: E402

LIBRARY, PROGRAM, SOURCE, COMPILER = pathlib.Path(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4]), sys.argv[5:]


def given(variable):
    if not os.environ.get(variable):
        raise Skipped(f"{variable} is not set")
    return os.environ[variable]


def call(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)


def complaints_of(done):
    return [] if done.returncode == 0 else [f"exit status {done.returncode}"] + (done.stdout + done.stderr).splitlines()[-40:]


def header():
    """Positions and types of all functions, values of enumerations, and the allocator are those of the published header."""
    folder = given("KOINE_ORT_HEADER")
    return complaints_of(call(*COMPILER, "-std=gnu11", "-fsyntax-only", f"-I{folder}", f"-I{SOURCE / 'src'}",
                              SOURCE / "tests/onnxruntime/check_header.c"))


def original():
    """The test program's expectations also hold for the original library."""
    return complaints_of(call(PROGRAM, given("KOINE_ORT_LIBRARY"), "original"))


def symbols():
    found = call("nm", "-D", "--defined-only", LIBRARY).stdout.splitlines()
    names = {line.split()[-1] for line in found if " A VERS_" not in line} - {"__bss_start", "_edata", "_end"}  # of some linkers
    wanted = {"OrtGetApiBase", "OrtSessionOptionsAppendExecutionProvider_CPU"}
    about = call("readelf", "-d", LIBRARY).stdout
    return ([f"exports {name}" for name in sorted(names - wanted)] + [f"lacks {name}" for name in sorted(wanted - names)] +
            ([] if "[libonnxruntime.so.1]" in about else ["its soname is not libonnxruntime.so.1"]))


LINKED = r"""
typedef struct { const void *(*get)(unsigned); const char *(*version)(void); } base;
extern const base *OrtGetApiBase(void);
int main(void) { return !OrtGetApiBase()->get(17) || OrtGetApiBase()->version()[0] != '1'; }
"""
LOADED = r"""
#include <dirent.h>
#include <dlfcn.h>
#include <stddef.h>
typedef struct { void *(*get)(unsigned); const char *(*version)(void); } base;
static int threads(void) {
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    while (folder && readdir(folder)) count++;
    if (folder) closedir(folder);
    return count;
}
int main(int count, char **arguments) {
    int before = threads(), number = 0;
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) return 1;
        const base *(*get)(void) = NULL;
        *(void **)&get = dlsym(library, "OrtGetApiBase");
        void **table = get()->get(14);
        char **names = NULL;
        if (((void *(*)(char ***, int *))table[125])(&names, &number) || number < 1) return 2;
        ((void *(*)(char **, int))table[126])(names, number);
        dlclose(library);
        if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD)) return 3;
    }
    return threads() == before ? 0 : 4;
}
"""


def built(folder, name, source, *more):
    (folder / f"{name}.c").write_text(source)
    done = call(*COMPILER, folder / f"{name}.c", "-o", folder / name, *more)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return folder / name


def linked_programs():
    """A program that was linked with version 1.x.y of the original starts with this library, without a warning."""
    bad = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "ours").mkdir()
        for soname in ("libonnxruntime.so.1", "libonnxruntime.so"):
            (folder / "ours" / soname).symlink_to(LIBRARY.resolve())
        for version, soname in (("1.28.2", "libonnxruntime.so"), ("1.17.0", "libonnxruntime.so.1"), ("1.32.0", "libonnxruntime.so.1")):
            (folder / "map").write_text(f"VERS_{version} {{ global: OrtGetApiBase; local: *; }};")
            built(folder, "stand-in.so", "void *OrtGetApiBase(void) { return 0; }", "-shared", "-fPIC", f"-Wl,--version-script={folder / 'map'}",
                  f"-Wl,-soname,{soname}")
            program = built(folder, "program", LINKED, folder / "stand-in.so")
            needs = call("readelf", "-V", program).stdout
            if f"VERS_{version}" not in needs:
                bad.append(f"the program does not need VERS_{version}: the test proves nothing")
            paths = f"{folder / 'ours'}:{koine_folder()}"
            done = call(program, env=dict(os.environ, LD_LIBRARY_PATH=paths))
            if done.returncode or done.stderr:
                bad.append(f"{version}: {done.returncode}: {done.stderr}")
    return bad


def koine_folder():
    """Where libkoine is, for a library that a program finds through a link."""
    found = re.search(r"libkoine\.so\S* => (\S+)", call("ldd", LIBRARY).stdout)
    return pathlib.Path(found.group(1)).parent if found else ""


def loaded_programs():
    """A program that loads the library, asks for providers and unloads it keeps neither the library nor a thread."""
    with tempfile.TemporaryDirectory() as name:
        program = built(pathlib.Path(name), "program", LOADED, "-ldl")
        return complaints_of(call(program, LIBRARY.resolve()))


run([("header", header), ("original", original), ("symbols", symbols), ("linked programs", linked_programs), ("loaded programs", loaded_programs)])
