#!/usr/bin/env python3
"""Runs the kernels of plans by the CUDA driver, without OpenCL: products of the matrix unit are checked, all are timed.

usage: ptx.py FOLDER

FOLDER has a folder for each plan, as `pack` makes them: plan.json, and the programs in PTX. Prints a JSON object per
launch. Needs only Python and the driver's libcuda.so.1. The exit status is 1 if a product is wrong or a kernel fails.
"""
import array
import ctypes
import json
import os
import random
import re
import struct
import sys

FORMATS = {"64": "<q", "32": "<i", "16": "<h", "8": "<b", "f32": "<f", "f64": "<d"}
REPEATS = 10


class Failure(Exception):
    """A call of the driver that failed, or a kernel that cannot be launched."""


class Driver:
    """The CUDA driver's first device."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as problem:
            raise Failure(f"the CUDA driver cannot be loaded: {problem}") from None
        device, context, name = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(256)
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDeviceGetName", name, 256, device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.name = name.value.decode()

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise Failure(f"{name}: {(text.value or b'').decode() or status}")

    def kernel(self, ptx, name):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def memory(self, count, data=b""):
        """`count` bytes, which begin with `data`, and then are 0."""
        place = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(max(count, 16)))
        self.call("cuMemsetD8_v2", place, ctypes.c_ubyte(0), ctypes.c_size_t(max(count, 16)))
        if data:
            self.call("cuMemcpyHtoD_v2", place, ctypes.c_char_p(data), ctypes.c_size_t(len(data)))
        return place

    def read(self, place, count):
        data = ctypes.create_string_buffer(count)
        self.call("cuMemcpyDtoH_v2", data, place, ctypes.c_size_t(count))
        return data.raw

    def free(self, place):
        self.call("cuMemFree_v2", place)

    def launch(self, function, launch, values):
        """`values`: the arguments, packed."""
        groups = [all_items // own for all_items, own in zip(launch["global"], launch["local"])]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(value, ctypes.c_void_p) for value in values))
        self.call("cuLaunchKernel", function, *groups, *launch["local"], 0, None, pointers, None)

    def seconds(self, function, launch, values):
        """The mean of some launches."""
        events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in events:
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", events[0], None)
        for _ in range(REPEATS):
            self.launch(function, launch, values)
        self.call("cuEventRecord", events[1], None)
        self.call("cuEventSynchronize", events[1])
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), *events)
        return milliseconds.value / 1e3 / REPEATS


# ---- numbers


def to_bytes(numbers, kind):
    """Small integers as float32, float16 or bfloat16."""
    if kind == "float16":
        return struct.pack(f"<{len(numbers)}e", *numbers)
    data = array.array("f", numbers).tobytes()
    return data if kind == "float32" else b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))


def product(a, b, m, n, k, transposed):
    """The product of a, (m,k) or transposed (k,m), and b, (k,n) or transposed (n,k)."""
    rows = [[a[j * m + i] if transposed[0] else a[i * k + j] for j in range(k)] for i in range(m)]
    columns = [[b[i * k + j] if transposed[1] else b[j * n + i] for j in range(k)] for i in range(n)]
    return [sum(x * y for x, y in zip(row, column)) for row in rows for column in columns]


# ---- launches


def parameters(ptx, kernel):
    """The types of a kernel's parameters: "64", "32", "f32" …"""
    entry = re.search(rf"\.entry\s+{kernel}\s*\(([^)]*)\)", ptx)
    if not entry:
        raise Failure(f"the program has no kernel {kernel}")
    types = re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z])(\d+)[^,]*", entry[1])
    return [kind + bits if kind == "f" else bits for kind, bits in types]


def is_checked(launch):
    return launch["kernel"] == "kn_matmul" and launch.get("kinds")


def run(driver, folder, launch):
    """Runs and times a launch; returns what is printed about it."""
    with open(os.path.join(folder, launch["program"] + ".ptx"), "rb") as file:
        ptx = file.read()
    types = parameters(ptx.decode(), launch["kernel"])
    if len(types) != len(launch["arguments"]):
        raise Failure(f"the kernel has {len(types)} parameters instead of {len(launch['arguments'])}")
    given, memory, values = {}, {}, []
    sizes = {argument["name"]: argument.get("value") for argument in launch["arguments"]}
    if is_checked(launch):
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        given = {"a": [random.randint(-3, 3) for _ in range(m * k)], "b": [random.randint(-3, 3) for _ in range(k * n)]}
    try:
        for argument, kind in zip(launch["arguments"], types):
            name = argument["name"]
            if "bytes" in argument:
                data = to_bytes(given[name], launch["kinds"][name]) if name in given else b""
                memory[name] = driver.memory(argument["bytes"], data)
                values.append(ctypes.pointer(memory[name]))
            elif "value" in argument and kind in FORMATS:
                value = argument["value"] if "f" in kind else int(argument["value"])
                values.append(ctypes.create_string_buffer(struct.pack(FORMATS[kind], value)))
            else:
                raise Failure(f"the argument {name} is not supported")
        function = driver.kernel(ptx + b"\0", launch["kernel"])
        driver.launch(function, launch, values)
        driver.call("cuCtxSynchronize")
        found = {"label": launch["label"], "kernel": launch["kernel"], "mma": b"mma.sync" in ptx}
        if given:
            result = array.array("f", driver.read(memory["c"], 4 * m * n)).tolist()
            expected = product(given["a"], given["b"], m, n, k, launch["transposed"])
            found["right"] = result == expected
        seconds = driver.seconds(function, launch, values)
        found.update(us=round(1e6 * seconds, 3), gflops=round(launch["flops"] / max(seconds, 1e-9) / 1e9, 1))
        return found
    finally:
        for place in memory.values():
            driver.free(place)


def main(folder):
    driver, good = Driver(), True
    print(json.dumps({"device": driver.name}), flush=True)
    for plan in sorted(os.listdir(folder)):
        with open(os.path.join(folder, plan, "plan.json"), encoding="utf-8") as file:
            launches = json.load(file)
        for launch in sorted(launches, key=lambda one: not is_checked(one)):
            try:
                found = run(driver, os.path.join(folder, plan), launch)
            except Failure as failure:
                found = {"label": launch["label"], "kernel": launch["kernel"], "failed": str(failure)}
            good = good and found.get("right", True) and "failed" not in found
            print(json.dumps({"plan": plan, **found}), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        sys.exit(main(sys.argv[1]))
    except Failure as problem:
        sys.exit(f"ptx.py: {problem}")
