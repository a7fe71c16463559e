"""AMD: Clang's OpenCL and ROCm's device library make assembly, which has the figures too."""
import os
import re

from lab.code import Instruction, Kernel, resolve

WIDTHS = (("b128", 16), ("b96", 12), ("b64", 8), ("b32", 4), ("b16", 2), ("u16", 2), ("dwordx4", 16), ("dwordx3", 12),
          ("dwordx2", 8), ("dword", 4), ("ushort", 2), ("short", 2), ("d16", 2))
LABEL = re.compile(r"(\.LBB\w+):")
LINE = re.compile(r"\s+([a-z]+_[a-z0-9_]+)(.*)")


def width_of(name):
    ending = next((width for word, width in WIDTHS if name.endswith(word)), None)
    return ending or next((width for word, width in WIDTHS if word in name), 4)


def kind_of(name, line):
    width = width_of(name)
    if name.startswith("v_dual_"):
        return ("fma", line.count("v_dual_fma")) if "v_dual_fma" in line else ("vector", 0)
    if name.startswith("ds_"):
        if re.search(r"_2addr|read2|write2", name):
            width = 16 if name.endswith("b64") else 8
        return (("fetch", width) if re.search("load|read", name) else
                ("put", width) if re.search("store|write", name) else ("other", 0))
    if name.startswith(("global_", "buffer_", "flat_")):
        return ("load" if "load" in name else "store" if "store" in name else "other"), width
    if name.startswith("scratch_"):
        return "spill", width
    if name.startswith("s_barrier"):
        return "barrier", 0
    if name.startswith(("v_wmma_f32_16x16x16", "v_mfma_f32_16x16x16")):
        return "matrix", 128 if "wmma" in name else 64
    if name.startswith(("v_wmma_i32_16x16x16_iu8", "v_mfma_i32_16x16x32_i8")):
        return "matrix", 64  # of pairs of 8-bit integers
    if name.startswith("v_mfma_i32_16x16x16i8"):
        return "matrix", 32
    if name.startswith("v_pk_fma_f32"):
        return "fma", 2
    if re.match(r"v_(fma|fmac|fmamk|fmaak)_f32", name):
        return "fma", 1
    return ("vector", 0) if name.startswith("v_") else ("scalar", 0) if name.startswith("s_") else ("other", 0)


def parse(assembly, name):
    """The instructions of a kernel in what Clang prints."""
    begin = re.search(r"\n" + name + r":", assembly)
    end = assembly.find(".amdhsa_kernel", begin.end()) if begin else -1
    instructions, jumps, labels = [], [], {}
    for line in assembly[begin.end():end].split("\n") if begin else ():
        label, found = LABEL.match(line), LINE.match(line)
        if label:
            labels[label.group(1)] = len(instructions)
        if not found:
            continue
        if found.group(1).startswith(("s_cbranch", "s_branch")):
            jumps.append((len(instructions), found.group(2).split()[0]))
        instructions.append(Instruction(found.group(1), *kind_of(found.group(1), line)))
    resolve(instructions, jumps, labels)
    return instructions


def figures_of(assembly, name):
    """The part of the metadata that describes a kernel."""
    parts = re.split(r"\n  - ", assembly[assembly.index("amdhsa.kernels"):])
    return next(part for part in parts if re.search(rf"\.name:\s+{name}\n", part))


def build(tools, target, source, options, folder, kernel):
    """Compiles a kernel of an OpenCL program, `options` are its language and others; `folder` is for intermediate files."""
    path = os.path.join(folder, "k.s")
    tools.clang("-x", "cl", f"-cl-std={options[0]}", "--target=amdgcn-amd-amdhsa", f"-mcpu={target.word}", "-w", "-O3",
                f"--rocm-device-lib-path={tools.rocm}", "-S", "-o", path, source)
    with open(path, encoding="utf-8") as file:
        assembly = file.read()
    about = figures_of(assembly, kernel)

    def figure(word):
        return int((re.search(rf"\.{word}:\s+(\d+)", about) or [0, 0])[1])
    size = re.search(rf"\n{kernel}:.*?; codeLenInByte = (\d+)", assembly, re.S)
    return Kernel(kernel, parse(assembly, kernel), registers=figure("vgpr_count"),
                  spilled=4 * figure("vgpr_spill_count"),  # scalar ones go to lanes of vector registers
                  private_bytes=figure("private_segment_fixed_size"), local_bytes=figure("group_segment_fixed_size"),
                  code_bytes=int(size.group(1)) if size else 0)
