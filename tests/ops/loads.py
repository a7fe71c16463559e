"""The loads from global memory by the products of a training step, with the kernels for many threads, counted by a
simulator: at most 4 bytes for 16 multiply-adds.

usage: loads.py PROGRAM HOUSE_FOLDER OCLGRIND
"""
import os
import re
import subprocess
import sys

PROGRAM, HOUSE, OCLGRIND = os.path.abspath(sys.argv[1]), *sys.argv[2:]
sys.path.insert(0, HOUSE)
from report import run  # noqa: E402

BYTES, MULTIPLY_ADDS = 4, 16
SIZE = 128
PRODUCTS = 5  # two layers forward, two gradients by weights, one by data


def launches(layer):
    """(kernel, [(number, instruction)…]) of each launch of a training step."""
    done = subprocess.run([OCLGRIND, "--inst-counts", PROGRAM, layer], capture_output=True, text=True, check=True)
    parts = re.split(r"Instructions executed for kernel '(\w+)':", done.stdout)
    return [(name, re.findall(r"^ *(\d+) - (.+)$", text, flags=re.M)) for name, text in zip(parts[1::2], parts[2::2])]


def loaded(lines):
    """Bytes loaded from global memory, by plain loads and by vloadN of a global pointer (address space 1)."""
    total = 0
    for count, what in lines:
        plain = re.match(r"load global \((\d+) bytes\)", what)
        vector = re.match(r"call _Z\d+vload(\d+)mPU3AS1K?f\(\)", what)
        total += int(plain.group(1)) if plain else int(count) * int(vector.group(1)) * 4 if vector else 0
    return total


def multiply_adds(lines):
    total = 0
    for count, what in lines:
        lanes = re.search(r"llvm\.fmuladd\.(?:v(\d+))?f32", what)
        total += int(count) * int(lanes.group(1) or 1) if lanes else 0
    return total


def case(layer):
    def few_loads():
        complaints, products = [], 0
        for name, lines in launches(layer):
            work, moved = multiply_adds(lines), loaded(lines)
            if work < SIZE ** 3:
                continue
            products += 1
            said = f"{name}: {moved} bytes for {work} multiply-adds, {moved * MULTIPLY_ADDS / work:.2f} for {MULTIPLY_ADDS}"
            print(f"  {said}")
            # Both operands must be read once: fewer bytes would be a mistake in counting.
            if not 2 * SIZE * SIZE * 4 <= moved <= BYTES * work / MULTIPLY_ADDS:
                complaints.append(said)
        return complaints if products == PRODUCTS else [*complaints, f"{products} products, expected {PRODUCTS}"]
    return (f"{layer} layers load little", few_loads)


run([case("linear"), case("conv")])
