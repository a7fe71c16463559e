"""Launches of a plan in GPGPU-Sim, a cycle-level simulator: a few units of an RTX 3070 with their part of its memory.

simulated.cpp does the simulating, built here when first used. The simulator runs PTX, so that its cycles are those of
LLVM's instructions in LLVM's order; registers and local memory are as ptxas counts them, by which it knows how many
work-groups a unit holds.
"""
import dataclasses
import glob
import hashlib
import json
import math
import os
import re
import struct
import subprocess
import tempfile

from lab import counts, nvidia
from lab.compilers import Failure, Missing, run
from lab.model import group_count

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "simulated.cpp")
TARGET = "sm_86"  # the GPU of this configuration
CONFIGURATION = "configs/tested-cfgs/SM86_RTX3070/gpgpusim.config"
UNITS = 3  # for each channel of memory, of 46 and 16
HOW_TO_GET = "tools/gpu-lab/README.md says how to get it"
# What is left out: time before a launch, data that is in the second cache from before, and figures that are not read.
SETTINGS = {"gpgpu_kernel_launch_latency": 0, "gpgpu_TB_launch_latency": 0, "gpgpu_perf_sim_memcpy": 0,
            "enable_ptx_file_line_stats": 0, "power_simulation_enabled": 0, "gpgpu_max_concurrent_kernel": 1}
# How the first cache takes lines: when their data comes, and none for stores. As configured it takes them when they are
# asked for, and does not free one whose request joins a request that has just been answered: the simulation stops.
L1_POLICY = "L:T:s:N:L"
FORMATS = {"8": "<B", "16": "<H", "32": "<I", "64": "<Q"}


# ---- the simulator


@dataclasses.dataclass(frozen=True)
class Simulator:
    """A built GPGPU-Sim."""
    root: str
    library: str        # the folder of libcudart.so
    cuda: str           # the folder of CUDA's headers
    version: str

    @property
    def settings(self):
        with open(os.path.join(self.root, CONFIGURATION), encoding="utf-8") as file:
            return settings_of(file.read())


def find(root, cuda):
    """The simulator in the folder `root`, whose headers need CUDA's."""
    if not root:
        raise Missing(f"no GPGPU-Sim: name its folder with --gpgpu-sim or GPGPUSIM_ROOT; {HOW_TO_GET}")
    if not os.path.exists(os.path.join(root, "libcuda", "gpgpu_context.h")):
        raise Missing(f"{root} is not a GPGPU-Sim folder: it has no libcuda/gpgpu_context.h; {HOW_TO_GET}")
    if not os.path.exists(os.path.join(root, CONFIGURATION)):
        raise Missing(f"{root} is too old: it has no {CONFIGURATION}; {HOW_TO_GET}")
    built = sorted(glob.glob(os.path.join(root, "lib", "gcc-*", "cuda-*", "release", "libcudart.so")))
    if not built:
        raise Missing(f"{root} is not built: it has no lib/gcc-*/cuda-*/release/libcudart.so; {HOW_TO_GET}")
    if not cuda or not os.path.exists(os.path.join(cuda, "include", "builtin_types.h")):
        raise Missing(f"no CUDA headers in {os.path.join(cuda, 'include') if cuda else 'any folder'}: name the folder "
                      f"that GPGPU-Sim was built with by --cuda or CUDA_INSTALL_PATH; {HOW_TO_GET}")
    with open(os.path.join(root, "version"), encoding="utf-8") as file:
        version = (re.search(r"Version ([0-9.]+)", file.read()) or ["", "of no version"])[1]
    try:
        version += ", commit " + run(["git", "-C", root, "rev-parse", "--short=8", "HEAD"]).strip()
    except (Failure, FileNotFoundError):
        pass  # a copy without its history
    return Simulator(os.path.abspath(root), os.path.dirname(os.path.abspath(built[-1])), cuda, version)


def build(simulator, folder):
    """The path of the program that runs launches, in `folder`; builds it if missing."""
    with open(SOURCE, "rb") as file:
        key = hashlib.sha256(file.read() + (simulator.library + simulator.version).encode()).hexdigest()[:16]
    path = os.path.join(folder, f"simulated-{key}")
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    release = re.search(r"cuda-(\d+)", simulator.library)[1]
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = os.path.join(work, "simulated")
        try:
            run(["g++", "-std=c++17", "-O2", "-w", f"-DCUDART_VERSION={release}", "-iquote", simulator.root, "-isystem",
                 os.path.join(simulator.cuda, "include"), "-o", made, SOURCE, "-L", simulator.library, "-lcudart",
                 f"-Wl,-rpath,{simulator.library}", "-pthread"])
        except FileNotFoundError:
            raise Missing("g++ is not installed: apt-get install g++") from None
        os.replace(made, path)
    return path


# ---- the simulated GPU


def settings_of(text):
    """A configuration's settings by name."""
    lines = (line.split("#")[0].split(None, 1) for line in text.splitlines())
    return {words[0][1:]: words[1].strip() for words in lines if len(words) == 2 and words[0].startswith("-")}


def configuration(settings, channels, groups):
    """The text of a configuration with the given numbers of memory channels, their units, and work-groups."""
    shape, _, *queues = settings["gpgpu_cache:dl1"].split(",")
    changed = {**settings, **SETTINGS, "gpgpu_cache:dl1": ",".join((shape, L1_POLICY, *queues)),
               "gpgpu_n_clusters": channels * UNITS, "gpgpu_n_mem": channels, "gpgpu_max_cta": groups}
    if channels * int(settings["gpgpu_n_sub_partition_per_mchannel"]) not in (16, 32, 64):
        changed["gpgpu_memory_partition_indexing"] = 0  # the hash that is configured needs one of these
    return "".join(f"-{name} {value}\n" for name, value in changed.items())


def resident(settings, kernel, items):
    """Work-groups that a unit holds, as the simulator counts: by threads, registers in fours, local memory, a limit."""
    padded = math.ceil(items / 32) * 32
    limits = [int(settings["gpgpu_shader_core_pipeline"].split(":")[0]) // padded, int(settings["gpgpu_shader_cta"]),
              int(settings["gpgpu_shader_registers"]) // (padded * math.ceil(max(kernel.registers, 1) / 4) * 4)]
    if kernel.local_bytes:
        limits.append(int(settings["gpgpu_shmem_size"]) // kernel.local_bytes)
    return min(limits)


@dataclasses.dataclass(frozen=True)
class Wave:
    """Work-groups that run at a time, from the middle of a launch."""
    on_unit: int
    groups: int         # on the simulated units
    first: int          # work-groups before them
    waves: float        # that a unit has to do of the whole launch


def wave_of(target, settings, kernel, launch, units):
    groups = group_count(launch)
    each = math.ceil(groups / target.units)
    on_unit = max(1, min(resident(settings, kernel, math.prod(launch["local"])), each))
    here = min(groups, on_unit * units)
    return Wave(on_unit, here, (groups - here) // 2, each / on_unit)


# ---- a launch


def plain_ptx(text):
    """PTX without what the simulator's parser does not know, and without comparisons of untyped bits, for which it also
    compares what is above them in its registers: a loop that counts down by adding -1 does not end."""
    text = re.sub(r"\.ptr( \.(?:global|shared|const|local))?( \.align \d+)?", "", text)
    text = re.sub(r"\b(setp\.(?:eq|ne))\.b(16|32)\b", r"\1.u\2", text)
    return text.replace(", texmode_independent", "")


def parameters(text, kernel):
    """The types of a kernel's parameters in PTX: u64, f32."""
    found = re.search(rf"\.entry {kernel}\((.*?)\)", text, re.S)
    if not found:
        raise Failure(f"the PTX has no kernel {kernel}")
    return re.findall(r"\.param \.(\w+)", found[1])


def bytes_of(number, kind):
    """A number as a kernel's parameter, its bytes in hexadecimal."""
    if kind[0] == "f":
        return struct.pack({"32": "<f", "64": "<d"}[kind[1:]], float(number)).hex()
    size = kind[1:]
    return struct.pack(FORMATS[size], int(number) & ((1 << int(size)) - 1)).hex()


def argument_lines(arguments, kinds, fill):
    lines = counts.argument_lines(arguments)
    if len(lines) != len(kinds):
        raise Failure(f"the kernel has {len(kinds)} parameters, the launch {len(lines)} arguments")
    for line, kind in zip(lines, kinds):
        word, value = line.split()
        if word == "local":
            raise Failure("an argument is local memory, which is not simulated")
        yield f"buffer {value} {fill}" if word == "buffer" else f"number {bytes_of(value, kind)}"


def input_of(path, text, kernel, launch, wave, fill=0):
    """A file for simulated.cpp; `path` is that of the PTX."""
    groups = [whole // part for whole, part in zip(launch["global"], launch["local"])]
    lines = [f"ptx {path}", f"kernel {launch['kernel']} {kernel.registers} {kernel.local_bytes}",
             f"launch {' '.join(map(str, (*groups, *launch['local'])))}", f"first {wave.first}",
             *argument_lines(launch["arguments"], parameters(text, launch["kernel"]), fill)]
    return "".join(line + "\n" for line in lines)


def result_of(output):
    """Extracts the results of simulated.cpp from its output."""
    found = re.findall(r"^simulated (\{.*\})$", output, re.M)
    if not found:
        told = re.findall(r"^.*(?:ERROR|[Ee]rror:|Assertion|Syntax error|syntax error).*$", output, re.M)
        last = (told or output.strip().splitlines() or ["it printed nothing"])[-1].strip()
        raise Failure(f"the simulator stopped: {last}")
    result = json.loads(found[-1])
    if "error" in result:
        raise Failure(result["error"])
    return result


def simulate(program, simulator, channels, text, kernel, launch, wave, fill=0):
    """Cycles and instructions of a wave of a launch, whose program is `text` in PTX."""
    with tempfile.TemporaryDirectory(prefix="koine-gpu-lab-") as work:
        files = {"k.ptx": text, "launch": input_of("k.ptx", text, kernel, launch, wave, fill),
                 "gpgpusim.config": configuration(simulator.settings, channels, wave.groups)}
        for name, content in files.items():
            with open(os.path.join(work, name), "w", encoding="utf-8") as file:
                file.write(content)
        done = subprocess.run([program, "launch"], capture_output=True, text=True, errors="replace", check=False, cwd=work)
    return result_of(done.stdout + done.stderr)


def ptx_of(tools, target, folder, program):
    """A program of a plan in PTX."""
    with open(os.path.join(folder, program + ".options"), encoding="utf-8") as file:
        language = re.sub("-cl-std=", "", file.read()).split()[0]
    with tempfile.TemporaryDirectory(prefix="koine-gpu-lab-") as work:
        path = os.path.join(work, "k")
        nvidia.to_ptx(tools, target, os.path.abspath(os.path.join(folder, program + ".cl")), language, path)
        with open(path + ".ptx", encoding="utf-8") as file:
            return plain_ptx(file.read())


# ---- figures


def useful_of(launch):
    """What a launch computes, and its multiply-adds."""
    tiles = launch["tiles"]
    return (tiles["rows"], tiles["columns"], tiles["depth"]), counts.useful_multiply_adds(launch)


def figures(target, launch, wave, cycles, units):
    """Cycles of a lane for each multiply-add, 1 at the peak: of the wave, and of the launch, whose work-groups follow one
    another on all units at the rate of the wave."""
    _, useful = useful_of(launch)
    part = useful * wave.groups / group_count(launch)
    return {"wave": round(cycles * target.lanes * units / part, 3),
            "launch": round(cycles * wave.waves * target.lanes * target.units / useful, 3)}


def name_of(launch):
    (rows, columns, depth), _ = useful_of(launch)
    return f"{launch['kernel']} {launch['label']} {rows}x{columns}x{depth}"


def choose(launches, pattern):
    """Products and convolutions whose name has the pattern; of those that are the same, the first."""
    chosen = {}
    for launch in launches:
        if launch.get("tiles") and re.search(pattern, name_of(launch)):
            chosen.setdefault(counts.same(launch), launch)
    return list(chosen.values())


def key_of(line):
    """By which an earlier line is found."""
    return line["label"], tuple(line["shape"])
