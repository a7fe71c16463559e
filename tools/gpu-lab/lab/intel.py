"""Intel: ocloc runs the driver's own compiler (IGC), which leaves assembly and a description of each kernel."""
import os
import re

from lab.code import Instruction, Kernel, resolve

JUMPS = ("jmpi", "while", "goto", "goto.b", "brd")
LABEL = re.compile(r"(L\d+|_\w+|\w+):\s*$")
LINE = re.compile(r"\s*(?:\(W\)|\(W&?[^)]*\)|\([~]?f\d[^)]*\))?\s*([a-z][a-z0-9_.]*)(?:\s*(?:\([^)]*\)))?"
                  r"\s*(?:\((?:W|[\d|M&~f.]+)[^)]*\))?(.*)")


def kind_of(name, line, simd):
    size = re.search(r"\.d(\d+)(?:x(\d+))?", name)
    width = int(size[1]) // 8 * int(size[2] or 1) if size else 4
    if re.search(r"\.d\d+x\d+t", name) and int(size[2]) >= simd:
        width //= simd  # a block of which each work-item gets its part
    for start, memory, kind in (("load", ".slm", "fetch"), ("store", ".slm", "put"), ("load", ".ugm", "load"),
                                ("store", ".ugm", "store")):
        if name.startswith(start) and memory in name:
            return kind, width
    if name.startswith("load_block2d"):
        return "load", width
    if name.startswith("send"):
        return ("spill", 4) if "dc0" in name else ("other", 0)
    if name.startswith("dpas.8x8"):
        return "matrix", 128
    if name.startswith("sync.bar"):
        return "barrier", 0
    return ("fma", 1) if name.startswith("mad") and ":f" in line else ("other", 0)


def parse(assembly, simd=16):
    instructions, jumps, labels = [], [], {}
    for line in assembly.split("\n"):
        label, found = LABEL.match(line.strip()), LINE.match(line)
        if label and not line.startswith("//"):
            labels[label.group(1)] = len(instructions)
        if line.startswith("//") or line.strip().startswith(".") or not found:
            continue
        if found.group(1) in JUMPS:
            jumps += [(len(instructions), word) for word in re.findall(r"\b(L\d+|_\w+)\b", line)]
        instructions.append(Instruction(found.group(1), *kind_of(found.group(1), line, simd)))
    # Of the labels that a jump names, the one before it makes a loop.
    resolve(instructions, [(at, label) for at, label in jumps if labels.get(label, at + 1) <= at], labels)
    return instructions


def assembly_of(dump, kernel, simd):
    """The text of the last compilation for this width: the compiler tries again where registers do not suffice."""
    names = [name for name in os.listdir(dump) if name.endswith(".asm") and f"simd{simd}_entry" in name]
    texts = []
    for name in sorted(names, key=lambda name: (bool(re.search(r"_\d+_simd", name)), name)):
        with open(os.path.join(dump, name), encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    own = [text for text in texts if kernel in text[:3000]]
    return (own or texts)[-1]


def build(tools, target, source, options, folder, kernel):
    """Compiles a kernel of an OpenCL program, `options` are its language and others; `folder` is for intermediate files."""
    dump = os.path.join(folder, "dump")
    tools.ocloc("compile", "-file", source, "-device", target.word, "-options", "-cl-std=" + " ".join(options), "-out_dir",
                os.path.join(folder, "out"), dump=dump)
    about = ""
    for name in os.listdir(dump):
        if name.endswith(".zeinfo"):
            with open(os.path.join(dump, name), encoding="utf-8") as file:
                about += file.read()
    parts = re.split(r"\n  - name:", about.split("kernels_misc_info")[0])
    about = next(part for part in parts[1:] if part.split()[0] == kernel)

    def figure(word):
        return int((re.search(rf"\b{word}:\s+(\d+)", about) or [0, 0])[1])
    simd = figure("simd_size")
    assembly = assembly_of(dump, kernel, simd)
    instructions, spill = parse(assembly, simd), re.search(r"\.spill size (\d+)", assembly)
    return Kernel(kernel, instructions, registers=figure("grf_count") or 128,
                  spilled=int(spill[1]) if spill else figure("spill_size"), private_bytes=figure("private_size"),
                  local_bytes=figure("slm_size"), code_bytes=16 * len(instructions), wave=simd)
