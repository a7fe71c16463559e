"""The symbols that the built library exports, and the libraries that it needs.

usage: library.py LIBRARY INCLUDE_FOLDER OPTIONAL COMPILER...

OPTIONAL: what it may need in addition, because of build options, as a regular expression; "" for nothing.
"""
import pathlib
import re
import subprocess
import sys

from report import run

LIBRARY, HEADERS, OPTIONAL, COMPILER = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4:]

# libc (and the libraries that older versions of glibc split off), libm, the OpenCL loader and zlib; PCRE2 and utf8proc where they are.
NEEDED = re.compile(r"^(libc|libm|libpthread|libdl|librt|libOpenCL|libz|libpcre2-8|libutf8proc|ld-linux[\w-]*)\.so")
# Variables that the compiler's own start files put in every shared library.
START_FILES = re.compile(r"^(completed|__dso_handle|__TMC_END__|_edata|_end|__bss_start|_DYNAMIC|"
                         r"_GLOBAL_OFFSET_TABLE_|__JCR|p\.\d|\.(data|bss|tbss|tdata))")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def exported():
    return {line.split()[-1].split("@")[0] for line in output_of("nm", "-D", "--defined-only", LIBRARY) if line.strip()}


def declared():
    """Functions that the public headers declare, with any macro."""
    names = set()
    for path in HEADERS.rglob("*.h"):
        if path.name in ("images.h", "mpi.h"):  # of libkoine-images and libkoine-mpi
            continue
        for line in "\n".join(output_of(*COMPILER, "-E", "-P", "-x", "c", f"-I{HEADERS}", str(path))).split(";"):
            match = re.search(r'visibility\("default"\).*?\b(kn_\w+)\s*\(', line, flags=re.S)
            if match:
                names.add(match.group(1))
    return names


def only_kn():
    return [f"exports {name}" for name in sorted(exported()) if not re.match(r"^kn_[a-z0-9_]+$", name)]


def as_promised():
    shown, promised = exported(), declared()
    if not promised:
        return ["found no KN_API function in the public headers"]
    return ([f"{name} is declared and not in the library" for name in sorted(promised - shown)] +
            [f"{name} is exported and in no public header" for name in sorted(shown - promised)
             if name.startswith("kn_")])


def needs_little():
    lines = output_of("readelf", "-d", LIBRARY)
    names = [match.group(1) for line in lines for match in re.finditer(r"\(NEEDED\).*\[([^\]]+)\]", line)]
    if not names:
        return ["readelf shows no NEEDED entry at all"]
    return [f"needs {name}" for name in names
            if not NEEDED.match(name) and not (OPTIONAL and re.match(OPTIONAL, name))]


def soname():
    lines = "\n".join(output_of("readelf", "-d", LIBRARY))
    return [] if re.search(r"\(SONAME\).*\[libkoine\.so\.(0\.\d+|[1-9]\d*)\]", lines) else ["has no soname libkoine.so.0.N or libkoine.so.N"]


def no_variables():
    bad = []
    for line in output_of("objdump", "-t", LIBRARY):
        fields = line.split()
        if len(fields) < 4:
            continue
        section = next((field for field in fields if re.match(r"^\.(data|bss|tdata|tbss)$", field)), None)
        if section and not START_FILES.match(fields[-1]):
            bad.append(f"{fields[-1]} is a variable ({section}): the library keeps no global state")
    return bad


run([("exports only kn_*", only_kn), ("exports what the headers declare", as_promised),
     ("needs only what is listed", needs_little), ("soname", soname), ("no global state", no_variables)])
