"""Cycles of files: files that need each other's functions, so that none can be read first.

usage: cycles.py SOURCE_ROOT
"""
import pathlib
import re
import sys

from report import code_only, run

SOURCE = pathlib.Path(sys.argv[1]) / "src"

# Declared in a module and filled in by a module above it: using them needs no file of that module.
TABLES = {"kn_operator_table", "kn_operator_table_count", "kn_device_verdicts", "kn_model_origins", "kn_model_origin_count"}

ROWS = "a row names the functions that lower its variants, and these describe nodes by the row's own helpers"
# Those that may stay, with the reason.
KNOWN = {
    ("ops/build", "ops/gather/blocks", "ops/gather/embedding", "ops/gradient", "ops/pointwise/arithmetic", "ops/pointwise/compare",
     "ops/reduce/cumulative", "ops/shape/build", "ops/shape/move"): "gradients are built of operators, whose rows name their gradients",
    ("ops/conv/blocked", "ops/conv/conv", "ops/conv/depthwise", "ops/conv/depthwise_wide", "ops/conv/fused_depthwise",
     "ops/conv/implicit", "ops/conv/plain", "ops/conv/rows", "ops/conv/wide", "ops/conv/winograd",
     "ops/conv/winograd_tiled"): ROWS,
    ("ops/matmul/amx", "ops/matmul/blocks", "ops/matmul/blocks_bytes", "ops/matmul/library", "ops/matmul/matmul", "ops/matmul/plain",
     "ops/matmul/skinny", "ops/matmul/tiled", "ops/matmul/wide"): ROWS,
    ("ops/matmul/integer", "ops/matmul/integer_plain", "ops/matmul/integer_tiled", "ops/matmul/integer_wide"): ROWS,
    ("ops/attention/attention", "ops/attention/matrix", "ops/attention/plain", "ops/attention/tiled", "ops/attention/wide"): ROWS,
    ("train/config", "train/moments", "train/optimizer", "train/parameters", "train/rules", "train/schedule", "train/shards",
     "train/spread"):
        "the table of optimizers names the rules, which call their helpers",
    ("graph/custom_kernel", "graph/custom_rules"): "the row of a custom kernel names its rules, which read its patterns",
    ("graph/dimension", "graph/dimension_text"): "expressions of sizes, and their text both ways",
    ("formats/onnx_attribute", "formats/onnx_model", "formats/onnx_parts", "formats/onnx_tensor", "formats/onnx_value",
     "formats/onnx_writer"): "messages of the format contain one another: a graph is an attribute of a node of a graph",
    ("run/precompile", "run/ready"): "kernels are made ready, or precompiled by the function that makes one",
}

FUNCTION = re.compile(r"^(?!static\b|typedef\b|extern\b|else\b|return\b)[A-Za-z_][\w\s*]*?\b(kn_\w+)\s*\([^;{}]*\)\s*\{", re.M)
DATA = re.compile(r"^(?:const\s+)?(?:kn_\w+|struct \w+|int|char)\s[\w\s*]*?\b(kn_\w+)(?:\[\])?\s*=", re.M)


def needs():
    """For each file, those that define what it uses."""
    texts = {path.relative_to(SOURCE).with_suffix("").as_posix(): code_only(path.read_text(encoding="utf-8"))
             for path in sorted(SOURCE.rglob("*.c"))}
    where = {}
    for name, text in texts.items():
        for match in [*FUNCTION.finditer(text), *DATA.finditer(text)]:
            where.setdefault(match.group(1), name)
    return {name: sorted({where[word] for word in re.findall(r"\bkn_\w+", text)
                          if word in where and word not in TABLES and where[word] != name})
            for name, text in texts.items()}


def cycles(edges):
    """The strongly connected components of more than one file (Tarjan, 1972)."""
    order, low, stack, found = {}, {}, [], []

    def visit(name):
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in edges[name]:
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] != order[name]:
            return
        component = []
        while not component or component[-1] != name:
            component.append(stack.pop())
        if len(component) > 1:
            found.append(tuple(sorted(component)))

    sys.setrecursionlimit(10000)
    for name in edges:
        if name not in order:
            visit(name)
    return found


def listed():
    found = set(cycles(needs()))
    return ([f"src: a cycle that is not listed: {', '.join(files)}" for files in sorted(found - set(KNOWN))] +
            [f"src: no cycle any more, so it need not be listed: {', '.join(files)}" for files in sorted(set(KNOWN) - found)])


def seen():
    """The search itself."""
    edges = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": ["d"], "f": ["a"]}
    return [] if sorted(cycles(edges)) == [("a", "b", "c"), ("d", "e")] else [f"found {cycles(edges)}"]


run([("cycles are listed", listed), ("cycles are found", seen)])
