"""koine plan --target and --programs: plans for devices that files describe, on a machine without any OpenCL.

usage: targets.py KOINE HOUSE_TESTS
"""
import functools
import glob
import os

from koine import add, bytes_of, case, expect, koine, lines_of, run_cases, write

TARGETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "gpu-lab", "targets")
GPU = """koine-target 1
# a small one
name               Some GPU
kernels            gpu
compute_units      8     # of four lanes
work_group_items   64
local_memory       16KiB
memory             1GiB
largest_allocation 134217728
capabilities       double shared_memory
"""
STEP_KEYS = ["step", "label", "kind", "once", "device", "flops", "bytes"]


def plan(folder, *arguments):
    """Without a single OpenCL platform."""
    empty = os.path.join(folder, "no-platforms")
    os.makedirs(empty, exist_ok=True)
    return koine("plan", *arguments, environment={"OCL_ICD_VENDORS": empty, "OCL_ICD_FILENAMES": None})


def planned(path, folder):
    for mode in ("train", "infer"):
        found = plan(folder, "lenet", "--mode", mode, "--target", path, "--json").needs(0, err="").objects()[0]
        with open(path, encoding="utf-8") as file:
            expect(f" {found['device']}\n" in file.read(), f"another device: {found}")
        expect(found["steps"] > 5 and found["peak_bytes"] > 1e6, f"no plan: {found}")


for target in sorted(glob.glob(os.path.join(TARGETS, "*.target"))):
    add("plan for " + os.path.basename(target), functools.partial(planned, target))


@case
def without_a_target_there_is_no_device(folder):
    plan(folder, "lenet").needs(1, out="")


@case
def the_plan_obeys_the_limits(folder):
    path, programs = write(folder, "gpu.target", GPU), os.path.join(folder, "programs")
    plan(folder, "resnet18c", "--batch", "8", "--target", path, "--programs", programs).needs(
        0, out=["conv/implicit.cl", "of 1.07 GB of memory"])
    launches = [step for step in lines_of(os.path.join(programs, "launches.jsonl")) if step["kind"] == "kernel"]
    for launch in launches:
        size = 1
        for whole, part in zip(launch["global"], launch["local"]):
            size *= part
            expect(whole % part == 0, f"a part of a work-group: {launch}")
        expect(size <= 64, f"more than 64 work-items: {launch}")
    plan(folder, "resnet18c", "--batch", "8", "--memory", "1MB", "--target", path).needs(1, out="")
    large = write(folder, "large.target", GPU.replace("work_group_items   64", "work_group_items   256"))
    other = os.path.join(folder, "other")
    plan(folder, "resnet18c", "--batch", "8", "--target", large, "--programs", other).needs(0)
    tiles = [{tuple(step["tiles"]["tile"]) for step in lines_of(os.path.join(where, "launches.jsonl")) if "tiles" in step}
             for where in (programs, other)]
    expect(max(tiles[0]) < max(tiles[1]), f"the same tiles for 64 and for 256 work-items: {tiles}")


def check_programs(folder, found):
    """What is written: steps in order, with programs that are there, and costs that add up to the plan's."""
    steps = lines_of(os.path.join(folder, "launches.jsonl"))
    names = {os.path.basename(path)[:-3] for path in glob.glob(os.path.join(folder, "*.cl"))}
    expect([step["step"] for step in steps] == list(range(found["steps"])), f"different steps than the plan's: {len(steps)}")
    expect(len(names) == found["kernels"], f"{len(names)} programs, the plan has {found['kernels']}")
    expect(names == {step["program"] for step in steps if "program" in step}, "programs without launches, or the reverse")
    expect(abs(sum(step["flops"] for step in steps) * 1e-9 - found["gflop"]) < 1e-3 * found["gflop"], "other work")
    for step in steps:
        expect(list(step)[:len(STEP_KEYS)] == STEP_KEYS, f"other members: {list(step)}")
        if step["kind"] != "kernel":
            continue
        text = bytes_of(os.path.join(folder, step["program"] + ".cl")).decode()
        expect(step["kernel"] in text, f"no {step['kernel']} in its program")
        expect("#include" not in text, f"program {step['program']} includes another file")
        options = bytes_of(os.path.join(folder, step["program"] + ".options")).decode()
        expect(options == "-cl-std=CL1.2\n", f"other options: {options!r}")
    return steps


@case
def programs_and_launches_of_a_target(folder):
    path, programs = write(folder, "gpu.target", GPU), os.path.join(folder, "deep", "programs")
    run = functools.partial(plan, folder, "lenet", "--batch", "96", "--target", path, "--programs", programs, "--json")
    found = run().needs(0, err="").objects()[0]
    steps = check_programs(programs, found)
    # Of the second convolution: 64 channels of 32, 3 x 3, images of 24 x 24.
    conv = next(step for step in steps if step.get("kernel") == "kn_conv" and step["tiles"]["rows"] == 64)
    tiles = conv["tiles"]
    expect((tiles["depth"], tiles["batches"], tiles["products"]) == (32 * 9, 1, 1), f"another product: {tiles}")
    expect(tiles["columns"] % 96 == 0, f"columns are not pixels of 96 images: {tiles}")
    expect(conv["flops"] >= 2 * tiles["rows"] * tiles["columns"] * tiles["depth"], f"less work than the product: {conv}")
    groups = [-(-tiles["rows"] // tiles["tile"][0]), -(-tiles["columns"] // tiles["tile"][1])]
    expect([conv["global"][0] // conv["local"][0], conv["global"][1]] == groups[::-1], f"other tiles: {conv}")
    names = {argument["name"]: argument for argument in conv["arguments"]}
    expect(names["images"]["value"] == 96 and names["weight"]["bytes"] == 64 * 32 * 9 * 4, f"other arguments: {names}")
    expect(names["weight"]["reads"] and not names["weight"]["writes"] and names["y"]["writes"], f"{names}")
    run().needs(1, out="", err=["launches.jsonl", "--overwrite"])
    koine("plan", "lenet", "--target", path, "--programs", programs, "--overwrite").needs(0)


@case
def programs_of_a_device_that_is_here(folder):
    programs = os.path.join(folder, "programs")
    found = koine("plan", "mlp", "--mode", "infer", "--programs", programs, "--json").needs(0).objects()[0]
    check_programs(programs, found)


@case
def a_target_whose_local_memory_is_global(folder):
    for capabilities, direct in (("double", False), ("double global_local_memory", True)):
        path = write(folder, "gpu.target", GPU.replace("double shared_memory", capabilities))
        programs = os.path.join(folder, f"programs {direct}")
        plan(folder, "lenet", "--target", path, "--programs", programs).needs(0)
        texts = [bytes_of(file).decode() for file in glob.glob(os.path.join(programs, "*.cl"))]
        for kernel in ("kn_matmul", "kn_conv", "kn_conv_data", "kn_conv_weight"):
            products = [text for text in texts if f"kernel void {kernel}(" in text and "#define KN_ONLY_kn_sum_parts 1" not in text]
            expect(products and all(("#define KN_DIRECT 1" in text) == direct for text in products),
                   f"{len(products)} programs of {kernel}, and those with local memory are not as the target has it")


@case
def a_target_of_wide_vectors(folder):
    wide = GPU.replace("kernels            gpu", "kernels            cpu")
    path = write(folder, "wide.target", wide + "vector_width 16\nvector_registers 32\n")
    plan(folder, "lenet", "--target", path).needs(0, out="conv/first.cl")
    plan(folder, "lenet", "--target", path, "--kernels", "gpu").needs(0, out="conv/implicit.cl")
    path = write(folder, "half.target", wide)
    plan(folder, "lenet", "--target", path).needs(1, out="", err=[path, "vector_width"])


MISTAKES = {
    "another first line": ("koine-target 1", "koine-target 2", ["line 1", "'koine-target 2'", "expected 'koine-target 1'"]),
    "an unknown word": ("compute_units ", "compute_unit ", ["line 5", "'compute_unit'", "compute_units"]),
    "a word far from all": ("kernels ", "colour ", ["line 4", "'colour'"]),
    "no number": ("64\n", "many\n", ["line 6", "work_group_items is 'many'", "1 to 65536"]),
    "no value": ("64\n", "\n", ["line 6", "work_group_items is ''", "1 to 65536"]),
    "a negative number": ("64\n", "-64\n", ["line 6", "'-64'", "1 to 65536"]),
    "a fraction": ("64\n", "64.5\n", ["line 6", "'64.5'", "1 to 65536"]),
    "too large a number": ("1GiB", "9000000000GiB", ["line 8", "memory is '9000000000GiB'", "16GiB"]),
    "another unit": ("16KiB", "16KB", ["line 7", "local_memory is '16KB'", "48KiB"]),
    "other kernels": ("kernels            gpu", "kernels            npu", ["line 4", "kernels is 'npu'", "gpu or cpu"]),
    "an unknown capability": ("double shared_memory", "double fast", ["line 10", "'double fast'", "integer_dot"]),
    "a capability of a newer language": ("double shared_memory", "integer_dot", ["integer_dot", "opencl_c 3.0"]),
    "no name": ("name               Some GPU\n", "", ["'name' is missing"]),
    "a line twice": ("capabilities", "kernels gpu\ncapabilities", ["line 10", "kernels is given again", "line 4"]),
    "an odd alignment": ("capabilities", "alignment 100\ncapabilities", ["line 10", "alignment is '100'", "power of two"]),
    "an odd width": ("capabilities", "vector_width 5\ncapabilities", ["line 10", "vector_width is '5'", "4, 8 or 16"]),
    "no peak": ("capabilities", "peak_gflops nan\ncapabilities", ["line 10", "peak_gflops is 'nan'", "above 0"]),
    "a zero byte": ("Some GPU", "Some\0GPU", ["zero byte"]),
}


def mistaken(old, new, parts, folder):
    path = write(folder, "some.target", GPU.replace(old, new, 1))
    found = plan(folder, "lenet", "--target", path).needs(1, out="", err=[path, *parts, "expected"])
    expect(found.err.count("\n") == 1, f"more than a line: {found}")


for name, (old, new, parts) in MISTAKES.items():
    add("target file with " + name, functools.partial(mistaken, old, new, parts))


def explained(text):
    """By node, the reason of each kernel, in order."""
    nodes = {}
    for line in text.splitlines():
        if not line.startswith(" "):
            node = nodes[line.split(":")[0]] = {}
        elif not line.endswith(":"):
            kernel, reason = line.split(None, 1)
            node[kernel] = reason
    return nodes


@case
def a_choice_is_explained(folder):
    path = write(folder, "gpu.target", GPU)
    found = explained(plan(folder, "lenet", "--target", path, "--why", "conv2").needs(0, err="").out)
    expect(sorted(found) == ["conv2d conv2.product", "conv2d_data conv2.product", "conv2d_weight conv2.product", "sum conv2"],
           f"other nodes: {sorted(found)}")
    kernels = found["conv2d conv2.product"]
    expect(list(kernels)[-1] == "plain" and kernels["plain"].startswith("possible; 1 step"), f"the last: {kernels}")
    expect(kernels["wide"] == "for CPUs" and kernels["wide_first"] == "does not support these shapes or types",
           f"other reasons: {kernels}")
    rdna2 = os.path.join(TARGETS, "gfx1030.target") # has no matrix unit
    units = explained(plan(folder, "lenet", "--target", rdna2, "--why", "conv2").needs(0, err="").out)["conv2d conv2.product"]
    expect(units["matrix_split"] == "needs a matrix unit" and units["matrix"] == "needs a matrix unit and 16-bit values",
           f"other reasons: {units}")
    expect([name for name, reason in kernels.items() if reason.startswith("used: the first")] == ["implicit"],
           f"another kernel is used: {kernels}")
    exact = explained(plan(folder, "lenet", "--target", path, "--why", "conv2d conv2.product",
                           "--math", "exact").needs(0, err="").out)
    expect(list(exact) == ["conv2d conv2.product"] and
           exact["conv2d conv2.product"]["winograd4_tiled"] == "has a larger error; only with fast math", f"found {exact}")
    wide = write(folder, "cpu.target", GPU.replace("gpu", "cpu") + "vector_width 8\nvector_registers 16\n")
    first = explained(plan(folder, "lenet", "--target", wide, "--why", "conv1.product").needs(0, err="").out)
    expect(first["conv2d conv1.product"]["first"].startswith("used: ") and
           first["conv2d conv1.product"]["matrix"] == "for GPUs with a matrix unit and 16-bit values", f"found {first}")


@case
def an_explanation_needs_a_node(folder):
    path = write(folder, "gpu.target", GPU)
    plan(folder, "lenet", "--target", path, "--why", "conv9").needs(1, out="", err="'conv9'")
    plan(folder, "lenet", "--target", path, "--why", "relu1").needs(1, out="", err="'relu1'")
    for more in ("--json", "--dot", "--measure"):
        plan(folder, "lenet", "--why", "conv1", more).needs(2, out="", err="--why")
    for name in ("", "conv1,tuning=off", "c" * 200):
        plan(folder, "lenet", "--target", path, "--why", name).needs(2, out="", err="--why")


@case
def misuse(folder):
    path = write(folder, "gpu.target", GPU)
    for more in (("--measure",), ("--pin", "conv1=cpu"), ("--device", "0")):
        plan(folder, "lenet", "--target", path, *more).needs(2, out="", err=["--target", more[0]])
    plan(folder, "lenet", "--target", path + "x").needs(1, out="", err=path + "x")
    plan(folder, "lenet", "--target", folder).needs(1, out="", err=folder)
    plan(folder, "lenet", "--target", path, "--programs", path).needs(1, out="", err=path)


run_cases()
