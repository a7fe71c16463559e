"""NVIDIA: Clang's OpenCL and libclc make PTX, ptxas makes machine code, nvdisasm prints it."""
import os
import re

from lab.code import Instruction, Kernel, resolve

FEATURES = ["-Xclang", "-target-feature", "-Xclang", "+ptx80"]
LABEL = re.compile(r"\s*(\.L_x_\d+|\.L_\d+):")
LINE = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9._]*)(.*)")
INTEGER = re.compile(r"(IMAD|IADD|LEA|LOP|SHF|ISETP|VIADD|IABS|SEL|PRMT|MOV|CS2R|U[A-Z]|R2UR|LDC|IMNMX|VIMNMX)")


def kind_of(name):
    width = 16 if ".128" in name else 8 if ".64" in name else 2 if ".U16" in name else 4
    for start, kind in (("LDGSTS", "load"), ("LDG", "load"), ("LD.E", "load"), ("LDSM", "fetch"), ("LDS", "fetch"),
                        ("STS", "put"), ("STG", "store"), ("ST.E", "store"), ("LDL", "spill"), ("STL", "spill")):
        if name.startswith(start):
            return kind, width
    if name.startswith("BAR"):
        return "barrier", 0
    if name.startswith(("HMMA.16816", "HMMA.1688")):
        return "matrix", 64  # of 16-bit numbers; 1688, half as many of TF32, takes as long
    if name.startswith("IMMA.16832"):
        return "matrix", 64  # of pairs of 8-bit integers
    if name.startswith("FFMA"):
        return "fma", 2 if name.startswith("FFMA2") else 1
    return ("integer", 0) if INTEGER.match(name) else ("other", 0)


def parse(assembly, name):
    """The instructions of a kernel in what nvdisasm prints, and their bytes."""
    section = re.search(r"\n\.text\." + name + r":.*?(?=\n\s*\.section|\Z)", assembly, re.S)
    instructions, jumps, labels, size = [], [], {}, 0
    for line in section.group(0).split("\n") if section else ():
        if re.match(r"\s*(\.type\s+)?\$\S*__internal", line) and instructions:
            break  # the slow paths of divisions
        label, found = LABEL.match(line), LINE.match(line)
        if label:
            labels[label.group(1)] = len(instructions)
        if not found or found.group(2) == "NOP":
            continue
        size = int(found.group(1), 16) + 16
        jump = re.search(r"(\.L[\w$]+)", found.group(3)) if found.group(2).startswith("BRA") else None
        if jump:
            jumps.append((len(instructions), jump.group(1)))
        instructions.append(Instruction(found.group(2), *kind_of(found.group(2))))
    resolve(instructions, jumps, labels)
    return instructions, size


def to_ptx(tools, target, source, language, path):
    """Compiles an OpenCL program to the file `path`.ptx; the step before it stays next to it."""
    machine = ["--target=nvptx64--nvidiacl", "-w", "-Xclang", "-target-cpu", "-Xclang", target.word, *FEATURES, "-O3"]
    libraries = []
    for library in (tools.libclc_nvidia, tools.libdevice):
        libraries += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", library]
    tools.clang("-x", "cl", f"-cl-std={language}", *machine, "-Xclang", "-disable-llvm-passes", *libraries, "-S",
                "-emit-llvm", "-o", path + ".ll", source)
    # Clang puts a kernel's body into a separate function, which drivers do not have: it is put back.
    with open(path + ".ll", encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"define (?:dso_local )?(?:protected )?(?:spir_func )?(void @__clang_ocl_kern_imp_\w+\()",
                  r"define internal \1", text)
    # libclc has no get_global_offset for NVIDIA; drivers know it as a constant.
    text = re.sub(r"declare ((?:dso_local )?(?:spir_func )?)i64 (@_Z17get_global_offsetj)\(.*",
                  r"define internal \1i64 \2(i32 %0) alwaysinline { ret i64 0 }", text)
    with open(path + ".ll", "w", encoding="utf-8") as file:
        file.write(re.sub(r"(attributes #\d+ = \{[^}]*?) noinline", r"\1", text))
    tools.clang(*machine, "-mllvm", "-inline-threshold=1000000", "-S", "-o", path + ".ptx", "-x", "ir", path + ".ll")


def build(tools, target, source, options, folder, kernel):
    """Compiles a kernel of an OpenCL program, `options` are its language and others; `folder` is for intermediate files."""
    path = os.path.join(folder, "k")
    to_ptx(tools, target, source, options[0], path)
    log = tools.nvidia("ptxas", f"-arch={target.word}", "-v", "-O3", "-o", path + ".cubin", path + ".ptx")
    about = re.search(rf"Compiling entry function '{kernel}'.*?(?=Compiling entry|\Z)", log, re.S).group(0)
    instructions, size = parse(tools.nvidia("nvdisasm", "-c", path + ".cubin"), kernel)

    def figure(pattern):
        return int((re.search(pattern, about) or [0, 0])[1])
    return Kernel(kernel, instructions, registers=figure(r"Used (\d+) registers"),
                  spilled=figure(r"(\d+) bytes spill stores") + figure(r"(\d+) bytes spill loads"),
                  private_bytes=figure(r"(\d+) bytes stack frame"), local_bytes=figure(r"(\d+) bytes smem"),
                  code_bytes=size)
