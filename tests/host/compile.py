"""Compiles an OpenCL program to a library of the host, with sanitizers.

usage: compile.py CLANG PROGRAM.cl RESULT.so OPTION...

For each kernel, the library also has host_call_NAME(pointers to its arguments), which calls it, and
host_parameters_NAME, a letter for each parameter: `b` a buffer, `l` local memory, `v` a value. host_local_begin() and
host_local_end() tell where the local memory of kernels is.
"""
import re
import subprocess
import sys

SANITIZERS = "-fsanitize=alignment,undefined,float-cast-overflow"
# A variable that is read before it is written is NaN.
FLAGS = ["-O0", "-g0", "-w", "-fPIC", SANITIZERS, "-ftrivial-auto-var-init=pattern"]
# Local memory is all that is in the section of variables without a value.
LOCAL = """extern constant char __bss_start[], _end[];
constant char *host_local_begin(void) { return __bss_start; }
constant char *host_local_end(void) { return _end; }
"""
KERNEL = re.compile(r"\b(?:__)?kernel\b[^;{]*?\bvoid\s+(?:__attribute__\(\(.*?\)\)\s*)?(\w+)\s*\(")


def parameters_of(text, start):
    """The parameters between the bracket before `start` and the one that closes it."""
    depth, found = 0, [""]
    for letter in text[start:]:
        if letter == ")" and depth == 0:
            break
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [" ".join(one.split()) for one in found if one.strip()]


def type_of(parameter):
    return re.sub(r"\s*\b\w+$", "", parameter)


def letter_of(parameter):
    if "*" not in parameter:
        return "v"
    return "l" if re.search(r"\b(__)?local\b", parameter) else "b"


def calls(text):
    """OpenCL C that calls each kernel of a preprocessed program."""
    result = []
    for match in KERNEL.finditer(text):
        name, parameters = match.group(1), parameters_of(text, match.end())
        given = ", ".join(f"*({type_of(one)} private *)arguments[{i}]" for i, one in enumerate(parameters))
        letters = "".join(map(letter_of, parameters))
        result.append(f'constant char host_parameters_{name}[] = "{letters}";\n'
                      f"void host_call_{name}(private void *private *arguments) {{ {name}({given}); }}\n")
    return "".join(result)


def run(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr or done.stdout)
    return done.stdout


def main(clang, program, result, *options):
    options = ["-x", "cl", *options]
    with open(program, encoding="utf-8") as file:
        source = file.read()
    added = LOCAL + calls(run([clang, *options, "-E", "-P", program]))
    run([clang, *options, *FLAGS, "-c", "-", "-o", result + ".o"], f'{source}\n#line 1 "calls of kernels"\n{added}')
    run([clang, "-shared", "-nostdlib", "-Wl,-Bsymbolic", result + ".o", "-o", result])


if __name__ == "__main__":
    main(*sys.argv[1:])
