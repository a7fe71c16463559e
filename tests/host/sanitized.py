"""Runs operators on kernels compiled for the host, under Clang's sanitizers of alignment and of undefined behaviour.

usage: sanitized.py KOINE HOUSE KERNELS DRIVER CLANG [PART PARTS]

Without a part: some operators with each set of kernels, and a kernel with a mistake, which must be found. With one: the
smallest cases of each PARTS-th operator, from number PART on, and some steps of a network. DRIVER is driver.c as a
library; CLANG may be empty.
"""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

KOINE, HOUSE, KERNELS, DRIVER = map(os.path.abspath, sys.argv[1:5])
CLANG = sys.argv[5]
PART = sys.argv[6:]
sys.path.insert(0, HOUSE)
from compile import FLAGS  # noqa: E402
from report import Skipped, part_of, run  # noqa: E402

HERE = pathlib.Path(__file__).parent
RUNTIME = "libclang_rt.ubsan_standalone-x86_64.so"
KINDS = {"cpu": "CPU", "gpu": "GPU"}
FEW = "relu,sum,matmul,max_pool,layer_norm"
# One for each part: kernels that only plans of networks have, such as those of a batch norm after a convolution.
NETWORKS = ["keyword", "mobilenetv2 --set size=32 --mode infer", "autoencoder",
            "gpt --set window=16,layers=1,width=64,heads=2", "lstm --set window=8,width=64",
            "char-gru --set window=8,width=64", "vit-tiny --set size=16,layers=1,width=48", "lenet",
            "elman --set window=8,width=64", "wind"]
UNALIGNED = "__attribute__((aligned(4)))"
# A line of the driver, what a sanitizer says, and what is wrong without one.
LAUNCH = re.compile(r"host: launch (\w+)$")
FOUND = re.compile(r"(\S+: )?runtime error: (.*)$")
WRONG = re.compile(r"^WRONG|is not used on|DEADLYSIGNAL")


@functools.cache
def work_folder():
    """A folder with the built-in functions, which bring the sanitizers' runtime with them."""
    if not CLANG:
        raise Skipped("there is no clang")
    runtime = subprocess.run([CLANG, f"-print-file-name={RUNTIME}"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(runtime):
        raise Skipped(f"clang has no {RUNTIME}, which the package libclang-rt-dev contains")
    folder = tempfile.TemporaryDirectory()
    subprocess.run([CLANG, "-x", "cl", "-cl-std=CL1.2", *FLAGS, "-shared", "-shared-libsan",
                    f"-Wl,-rpath,{os.path.dirname(runtime)}", str(HERE / "builtins.cl"), "-o",
                    f"{folder.name}/builtins.so", "-lm"], check=True)
    return folder


def koine(*words, **more):
    """Runs the command on the host's driver; its output and what the driver said, in order, as lines."""
    environment = dict(os.environ, OCL_ICD_VENDORS=DRIVER, KOINE_HOST_FOLDER=work_folder().name,
                       KOINE_HOST_COMPILER=f"'{sys.executable}' '{HERE / 'compile.py'}' '{CLANG}'", **more)
    done = subprocess.run([KOINE, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    return done.returncode, done.stdout.splitlines()


def complaints_of(lines):
    """What is wrong in the lines of a run, each once, with the kernel that ran then."""
    kernel, found = "no kernel", {}
    for line in lines:
        launch, error = LAUNCH.match(line), FOUND.search(line)
        if launch:
            kernel = launch.group(1)
        elif error:
            found[f"{kernel}: {error.group(1) or ''}{re.sub('0x[0-9a-f]+', 'an address', error.group(2))}"] = True
        elif WRONG.search(line):
            found[line] = True
    return list(found)


def programs():
    return len(list(pathlib.Path(work_folder().name).glob("*.cl")))


def complaints_about(*words, **more):
    """Of a run of the command, which prints how much ran."""
    before = programs()
    status, lines = koine(*words, **more)
    launches = [match.group(1) for match in map(LAUNCH.match, lines) if match]
    print(f"  {programs() - before} programs, {len(set(launches))} kernels, {len(launches)} launches")
    complaints = complaints_of(lines)
    if not launches:
        complaints.append("nothing was launched")
    if status and not complaints:
        complaints.append(f"koine {words[0]} ended with {status}: {' '.join(lines[-5:])}")
    return complaints


def behave(kind, operators):
    return (f"{KINDS[kind]} kernels behave", lambda: complaints_about(
        "verify", "--no-cache", "--kernels", kind, "--smoke", "--operators", operators))


def mistakes_are_found():
    """The kernels store vectors at any address of a float; here the compiler may assume otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        changed = pathlib.Path(folder) / "cl"
        shutil.copytree(KERNELS, changed)
        store = changed / "common" / "store.cl"
        text = store.read_text(encoding="utf-8")
        if UNALIGNED not in text:
            return [f"{store.name} has no {UNALIGNED} any more"]
        store.write_text(text.replace(UNALIGNED, ""), encoding="utf-8")
        found = complaints_about("verify", "--no-cache", "--kernels", "cpu", "--quick", "--operators", "matmul",
                                 KOINE_KERNEL_DIR=str(changed))
    if any(re.match(r"kn_\w+: common/store.cl:\d+:\d+: store to misaligned address", one) for one in found):
        return []
    return [f"not found, only {found}"]


def network(kind, words):
    return (f"{words.split()[0]} on {KINDS[kind]} kernels", lambda: complaints_about(
        "bench", *words.split(), "--no-cache", "--batch", "2", "--seconds", "0.001", "--kernels", kind))


def main():
    cases, wanted = [("a misaligned store is found", mistakes_are_found)], FEW
    if PART:
        cases = [network(kind, words) for words in part_of(NETWORKS, *PART) for kind in KINDS]
        try:
            listed = [json.loads(line)["name"] for line in koine("verify", "--count", "--json")[1]]
            wanted = ",".join(part_of(listed, *PART))
        except Skipped:
            pass
    run(cases + [behave(kind, wanted) for kind in KINDS])


main()
