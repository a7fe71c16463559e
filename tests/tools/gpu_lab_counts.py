"""tools/gpu-lab/counts: small kernels whose sectors, passes of local memory, bytes and multiply-adds are known by hand, and
a training step.

usage: gpu_lab_counts.py GPU_LAB_FOLDER HOUSE_TESTS [KOINE]
"""
import json
import os
import subprocess
import sys
import tempfile

FOLDER = os.path.abspath(sys.argv[1])
KOINE = sys.argv[3:]
sys.path[:0] = [FOLDER, sys.argv[2]]
from lab import compilers, counts  # noqa: E402
from report import Skipped, run  # noqa: E402

PROGRAM = """
kernel void copied(global const float *x, global float *y) {
    const int i = get_global_id(0);
    y[i] = x[i];
}
kernel void strided(global const float *x, global float *y) {
    const int i = get_global_id(0);
    y[i] = x[2 * i];
}
kernel void shifted(global const float *x, global float *y) {
    const int i = get_global_id(0);
    y[i] = x[i + 1];
}
kernel void same(global const float *x, global float *y) {
    y[get_global_id(0)] = x[5];
}
kernel void by_fours(global const float4 *x, global float4 *y) {
    const int i = get_global_id(0);
    y[i] = x[i];
}
kernel void by_sixteens(global const float *x, global float *y) {
    const int i = get_global_id(0);
    vstore16(vload16(i, x), i, y);
}
/* A tile of 32 x 32 numbers changes its sides. */
kernel void transposed(global const float *x, global float *y, int row, local float *tile) {
    const int i = get_local_id(0), j = get_local_id(1);
    tile[j * row + i] = x[32 * j + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[32 * j + i] = tile[i * row + j];
}
/* Rows of `row` fours, of which each work-item reads one four. */
kernel void fours_of_rows(global float4 *y, int row, local float4 *tile) {
    const int i = get_local_id(0);
    for (int j = 0; j < row; j++)
        tile[j * 32 + i] = (float4)(i);
    barrier(CLK_LOCAL_MEM_FENCE);
    y[i] = tile[i * row];
}
/* Work-group g of a dimension loads g times. */
kernel void by_group(global const float *x, global float *y) {
    const int i = get_local_id(0);
    float sum = 0;
    for (int j = 0; j < get_group_id(0) + 10 * get_group_id(2); j++)
        sum += x[i + 32 * j];
    y[get_global_id(0) + get_global_size(0) * get_global_id(2)] = sum;
}
/* Work-item i loads i times before each barrier. */
kernel void uneven(global const float *x, global float *y, local float *sums, int rounds) {
    const int i = get_local_id(0);
    float sum = 0;
    for (int round = 0; round < rounds; round++) {
        for (int j = 0; j < i; j++)
            sum += x[32 * j + i];
        sums[i] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    y[i] = sums[31 - i];
}
kernel void few_busy(global const float *x, global float *y, int count) {
    const int i = get_local_id(0);
    float sum = 0;
    if (i < 8)
        for (int j = 0; j < count; j++)
            sum += x[j];
    y[i] = sum;
}
/* (rows,depth) by (depth,columns), a work-item for each result. */
kernel void product(global const float *a, global const float *b, global float *c, int rows, int columns, int depth) {
    const int i = get_global_id(1), j = get_global_id(0);
    float sum = 0;
    for (int k = 0; k < depth; k++)
        sum = fma(a[min(i, rows - 1) * depth + k], b[k * columns + min(j, columns - 1)], sum);
    if (i < rows && j < columns) c[i * columns + j] = sum;
}
kernel void half_of_fours(global const float4 *x, global float4 *y, float factor, uint present) {
    const int i = get_global_id(0);
    y[i] = present == 2 ? mad(x[i], factor, x[i + 32]) : (float4)(0);
}
"""


def buffer(numbers):
    return {"name": "memory", "bytes": 4 * numbers}


def value(number):
    return {"name": "number", "value": number}


def launch(kernel, sizes, local, *arguments, **more):
    return {"kernel": kernel, "global": sizes, "local": local, "arguments": arguments, "program": "0", "flops": 0, **more}


def counter():
    try:
        return counts.build(compilers.default_folder())
    except compilers.Missing as missing:
        raise Skipped(missing) from None


def counted(*launches, wave=32, program=PROGRAM):
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "k.cl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        return counts.count(counter(), path, "-cl-std=CL1.2", launches, wave)


def check(bad, what, found, **expected):
    if isinstance(found, str):
        bad.append(f"{what}: {found}")
        return
    for name, number in expected.items():
        if found[name] != number:
            bad.append(f"{what}: {name} is {found[name]}, expected {number}")


def sectors_are_counted():
    bad, line = [], [[128, 1, 1], [64, 1, 1]]
    names = ("copied", "strided", "shifted", "same", "by_fours", "by_sixteens")
    memory = (buffer(2048), buffer(2048))
    found = dict(zip(names, counted(*[launch(name, *line, *memory) for name in names])))
    check(bad, "a copy", found["copied"], groups=1, load_requests=2, load_transfers=8, load_least=8, load_bytes=256,
          load_distinct=256, store_requests=2, store_transfers=8, store_least=8, store_bytes=256, store_distinct=256,
          local_requests=0)
    check(bad, "every second number", found["strided"], load_transfers=16, load_least=8, load_bytes=256, load_distinct=256,
          store_transfers=8)
    check(bad, "a shift by one", found["shifted"], load_transfers=10, load_least=8, load_distinct=256)
    check(bad, "one number for all", found["same"], load_requests=2, load_transfers=2, load_least=2, load_bytes=256,
          load_distinct=4)
    check(bad, "fours", found["by_fours"], load_requests=2, load_transfers=32, load_least=32, load_bytes=1024,
          store_transfers=32)
    # Four instructions, each of which touches half of a sector of each work-item.
    check(bad, "sixteens", found["by_sixteens"], load_requests=8, load_transfers=256, load_least=128, load_bytes=4096,
          load_distinct=4096, store_transfers=256, store_least=128)
    return bad


def wide_waves_ask_at_once():
    bad = []
    found, = counted(launch("copied", [128, 1, 1], [64, 1, 1], buffer(128), buffer(128)), wave=64)
    check(bad, "a wave of 64", found, load_requests=1, load_transfers=8, load_least=8)
    found, = counted(launch("copied", [128, 1, 1], [8, 1, 1], buffer(128), buffer(128)))
    check(bad, "a quarter of a wave", found, load_requests=1, load_transfers=1, load_least=1, slots=4 * found["instructions"])
    return bad


def conflicts_are_counted():
    bad, tile = [], [[32, 32, 1], [32, 32, 1]]
    plain, padded = counted(*[launch("transposed", *tile, buffer(1024), buffer(1024), value(row), {"local": 4 * 32 * row})
                              for row in (32, 33)])
    # 32 requests that write a row, and 32 that read a column: 32 passes each.
    check(bad, "columns of 32", plain, local_requests=64, local_transfers=32 + 32 * 32, local_least=64, local_bytes=8192,
          load_transfers=128, load_least=128)
    check(bad, "columns of 33", padded, local_requests=64, local_transfers=64, local_least=64)
    line = PROGRAM[:PROGRAM.index("tile[i * row + j]")].count("\n") + 1
    if not bad and not plain["local_place"].endswith(f":{line}"):
        bad.append(f"conflicts are at {plain['local_place']}, expected line {line}")
    # Groups of four numbers are served for eight work-items at a time: 4 passes per request. Skipping every second group needs twice as many.
    for row, passes in ((1, 4), (2, 8), (3, 4), (8, 32)):
        found, = counted(launch("fours_of_rows", [32, 1, 1], [32, 1, 1], buffer(128), value(row), {"local": 512 * row}))
        check(bad, f"rows of {row} fours", found, local_requests=row + 1, local_transfers=4 * row + passes,
              local_least=4 * row + 4)
    return bad


def work_groups_in_the_middle_run():
    bad = []
    found, = counted(launch("by_group", [7 * 32, 1, 1], [32, 1, 1], buffer(2048), buffer(224)))
    check(bad, "number 3 of 0 to 6", found, groups=1, load_requests=3, load_transfers=12, store_requests=1)
    found, = counted(launch("by_group", [7 * 32, 1, 2], [32, 1, 1], buffer(2048), buffer(448)))
    check(bad, "of two planes", found, groups=2, load_requests=3 + 13, load_distinct=128 * (3 + 13), store_requests=2)
    found, = counted(launch("by_group", [32, 1, 8], [32, 1, 1], buffer(4096), buffer(256)))
    check(bad, "planes 1, 3, 5 and 7 of 0 to 7", found, groups=4, load_requests=160)
    return bad


def requests_end_at_barriers():
    """The j-th load is that of work-items j+1 to 31, in both rounds."""
    bad = []
    found, = counted(launch("uneven", [32, 1, 1], [32, 1, 1], buffer(1024), buffer(32), {"local": 128}, value(2)))
    sectors = sum(4 - (j + 1) // 8 for j in range(31))
    check(bad, "two rounds", found, load_requests=62, load_transfers=2 * sectors, load_bytes=2 * 4 * 496,
          load_distinct=4 * 496)
    return bad


def work_is_counted():
    bad = []
    tiles = {"rows": 16, "columns": 48, "depth": 40, "batches": 1, "tile": [16, 16, 40], "products": 1, "parts": 1,
             "part_depth": 40}
    memory = (buffer(640), buffer(1920), buffer(768), value(16), value(48), value(40))
    fitting = launch("product", [48, 16, 1], [16, 16, 1], *memory, tiles=tiles)
    wasting = launch("product", [64, 24, 1], [32, 24, 1], *memory, tiles=tiles)  # two work-groups of 32 x 24 for 16 x 48
    found = counted(fitting, wasting)
    check(bad, "a product", found[0], multiply_adds=256 * 40, hot_multiply_adds=256 * 40)
    if bad:
        return bad
    # Besides a multiply-add a round has two loads, the end of the loop and places; nothing else has so many instructions.
    if not 5 * 256 * 40 <= found[0]["hot_instructions"] <= found[0]["instructions"] <= 20 * 256 * 40:
        bad.append(f"{found[0]['hot_instructions']} instructions in the loop of {256 * 40} multiply-adds")
    for one, its, share in zip((fitting, wasting), found, (1, 2)):
        sums = counts.Counts()
        sums.add(its, one)
        if sums.work_share != share:
            bad.append(f"the work is {sums.work_share} of the useful, expected {share}")
        if ("work" in sums.above) != (share > 1):
            bad.append(f"above the targets: {sums.above}")
        by_unit = counts.Counts()
        by_unit.add({**its, "unit": True}, one)
        if by_unit.work_share is not None or by_unit.sectors != sums.sectors:
            bad.append(f"by a matrix unit: {by_unit.line()}")
    # Pointer 0 is absent, pointer 1 is there.
    found, = counted(launch("half_of_fours", [32, 1, 1], [32, 1, 1], buffer(256), buffer(128), value(0.5), {"name": "present"}))
    check(bad, "two pointers", found, multiply_adds=0)
    found, = counted(launch("half_of_fours", [32, 1, 1], [32, 1, 1], buffer(256), buffer(128), value(0.5), value(2)))
    check(bad, "multiply-adds of fours", found, multiply_adds=128)
    found, = counted(launch("few_busy", [32, 1, 1], [32, 1, 1], buffer(1000), buffer(32), value(1000)))
    if isinstance(found, str) or not 0.25 <= found["instructions"] / found["slots"] < 0.26:
        bad.append(f"a quarter of the work-items is busy: {found}")
    return bad


def sums_stand_for_all_work_groups():
    bad = []
    one = launch("by_group", [4 * 32, 1, 8], [32, 1, 1], buffer(4096), buffer(1024))
    strided = launch("strided", [128, 1, 1], [64, 1, 1], buffer(256), buffer(128))
    found = counted(one, strided)
    sums = counts.Counts()
    sums.add(found[0], one)
    line = sums.line()
    expected = {"launches": 1, "sectors": 1, "passes": None, "work": None, "above": [],
                "asked_bytes": 8 * 128 * (160 + 4 + 4)}  # number 1 of 0 to 3 loads 1, 11, …
    for name, number in expected.items():
        if line[name] != number:
            bad.append(f"{name} is {line[name]}, expected {number}")
    step = counts.Step([(one, found[0]), (strided, found[1]), (strided, "a reason")])
    if [name for name, _ in step.by_kernel()] != ["strided", "by_group"]:
        bad.append(f"the worst is not first: {step.by_kernel()}")
    worst = dict(step.by_kernel())["strided"]
    if worst.sectors != 1.5 or worst.above != ["sectors"] or step.failures != ["strided (program 0): a reason"]:
        bad.append(f"found {worst.sectors}, {worst.above}, {step.failures}")
    return bad


def failures_are_told():
    bad = []
    short = launch("copied", [128, 1, 1], [64, 1, 1], buffer(32), buffer(128))
    right = launch("copied", [128, 1, 1], [64, 1, 1], buffer(128), buffer(128))
    found = counted(short, launch("absent", *right_sizes()), launch("copied", *right_sizes(), buffer(1)), right)
    for text, what in zip(("Invalid read", "no such kernel", "other arguments"), found):
        if text not in what:
            bad.append(f"expected '{text}', found {what}")
    check(bad, "after failures", found[3], load_transfers=8)
    found, = counted(right, program="kernel void copied(int x) { y = x; }")
    if not isinstance(found, str) or "undeclared identifier 'y'" not in found:
        bad.append(f"a program that is wrong: {found}")
    return bad


def right_sizes():
    return [128, 1, 1], [64, 1, 1]


def command(*arguments):
    return subprocess.run([sys.executable, "-B", os.path.join(FOLDER, "counts"), "--koine", *KOINE, "--jobs", "1", *arguments],
                          capture_output=True, text=True, check=False)


def unit_is_counted(target):
    """Products of 16 bits, some of them by the target's matrix unit."""
    done = command("--models", "mlp:8", "--json", "--target", target, "--precision", "bfloat16")
    kernels = {line["kernel"]: line for line in map(json.loads, done.stdout.splitlines())}
    if done.returncode or done.stderr or "kn_matmul" not in kernels:
        return [f"{target}: {done}"]
    its = kernels["kn_matmul"]
    if its["passes"] < 1 or its["sectors"] < 1 or not its["local_bytes"]:
        return [f"{target}: {its}"]
    return []


def a_step_is_counted():
    counter()
    bad = []
    done = command("--models", "lenet:8", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or done.stderr or not lines:
        return [f"{done}"]
    kernels = {line["kernel"]: line for line in lines}
    for name in ("kn_matmul", "kn_conv_first", "kn_conv"):
        if name in kernels and not kernels[name]["multiply_adds"]:
            bad.append(f"{name} has no multiply-adds")
    if "kn_matmul" not in kernels or not kernels["kn_matmul"]["work"] >= 1:
        bad.append(f"no products, or less than is useful: {kernels.get('kn_matmul')}")
    for line in lines:
        if line["sectors"] < 1 or (line["passes"] or 1) < 1 or line["sector_bytes"] < 0 or not 0 < line["busy"] <= 1:
            bad.append(f"less than the least: {line}")
    done = command("--models", "mlp:8", "--launches", "--target", "sm_90")
    if done.returncode or "waves of 32" not in done.stdout or "kn_matmul" not in done.stdout:
        bad.append(f"{done}")
    for target in ("sm_80", "gfx942"):
        bad += unit_is_counted(target)
    done = command("--target", "gfx9")
    if done.returncode != 1 or "'gfx9' is not a target" not in done.stderr:
        bad.append(f"a wrong target: {done}")
    return bad


cases = [sectors_are_counted, wide_waves_ask_at_once, conflicts_are_counted, work_groups_in_the_middle_run,
         requests_end_at_barriers, work_is_counted, sums_stand_for_all_work_groups, failures_are_told]
run([(case.__name__.replace("_", " "), case) for case in cases + [a_step_is_counted] * bool(KOINE)])
