"""Helpers of the tests of the command: running it, small data and models, strict JSON.

A test is a function with @case; it gets a new folder, and checks with `expect`.
"""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib

KOINE = os.path.abspath(sys.argv[1])
sys.path.insert(0, sys.argv[2])  # tests/house
import report  # noqa: E402

Skipped = report.Skipped

# Settings of the developer for the command, or for all commands, must not affect the tests.
SETTINGS = ("KOINE_DEVICE", "KOINE_KERNEL_DIR", "NO_COLOR", "COLUMNS", "LINES", "TERM")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in SETTINGS}
cases = []


class Complaint(Exception):
    """A failed check."""


def expect(right, complaint):
    if not right:
        raise Complaint(complaint)


def case(function):
    """Makes a test of a function of a folder; its name is the function's, in words."""
    add(function.__name__.replace("_", " "), function)
    return function


def add(name, function):
    def run_case():
        folder = tempfile.mkdtemp(prefix="koine-test-")
        try:
            function(folder)
            return []
        except Complaint as complaint:
            return [str(complaint)]
        except Skipped:
            raise
        except Exception:  # a crash of the test is a failure of the case
            return traceback.format_exc().splitlines()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    cases.append((name, run_case))


def run_cases(part=0, parts=1):
    report.run(report.part_of(cases, part, parts))


class Result:
    def __init__(self, arguments, status, out, err):
        self.arguments, self.status, self.out, self.err = arguments, status, out, err

    def __str__(self):
        return f"koine {' '.join(self.arguments)}\nstatus {self.status}\nout: {self.out}\nerr: {self.err}"

    def needs(self, status=0, out=None, err=None):
        """Complains unless it ended so; `out` and `err` are texts that must be in it, '' that it is empty."""
        expect(self.status == status, f"expected status {status}: {self}")
        for name, text, wanted in (("out", self.out, out), ("err", self.err, err)):
            for one in [] if wanted is None else [wanted] if isinstance(wanted, str) else wanted:
                expect(one in text if one else not text, f"expected {one!r} in {name}: {self}")
        return self

    def objects(self, *keys):
        """standard output as one JSON object a line, each with just these keys in this order."""
        objects = [strict(line) for line in self.out.splitlines()]
        expect(objects, f"expected JSON: {self}")
        for found in objects:
            expect(not keys or list(found) == list(keys), f"expected the keys {keys}, found {list(found)}")
        return objects


def koine(*arguments, folder=None, environment=None, given=subprocess.DEVNULL, **more):
    """`given`: an open file, for standard input. None in the environment takes a name out of it. What hangs is ended by tools/watch_test.py with the whole test."""
    variables = {name: value for name, value in {**ENVIRONMENT, **(environment or {})}.items() if value is not None}
    done = subprocess.run([KOINE, *arguments], cwd=folder, env=variables,
                          stdin=given, capture_output=not more, text=True, **more)
    # Slow compilation is reported, which depends on the machine.
    err = re.sub(r"^compiled kernels in .*\n", "", done.stderr or "", flags=re.M)
    return Result(arguments, done.returncode, done.stdout or "", err)


def chosen_device():
    """Of `koine devices`: the one that commands use."""
    return next(one for one in koine("devices", "--json").needs(0).objects() if one["chosen"])


def strict(text):
    """One JSON text, without what JSON does not have (NaN) and without a key twice."""
    def refuse(word):
        raise Complaint(f"'{word}' is no JSON number: {text}")

    def pairs(items):
        expect(len(dict(items)) == len(items), f"a key twice: {text}")
        return dict(items)
    return json.loads(text, parse_constant=refuse, object_pairs_hook=pairs)


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [strict(line) for line in file]


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def children_of(parent):
    """Their process ids, in order. Minimal images of Linux have neither ps nor pgrep."""
    if not os.path.exists("/proc/self/stat"):
        found = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.split()
        return sorted(int(pid) for pid, of in zip(found[::2], found[1::2]) if int(of) == parent)
    children = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == parent:
                    children.append(int(name))
        except OSError:
            pass  # it has ended
    return sorted(children)


def wait_for_steps(folder, child, count):
    """Until a training has written so many lines to its log, or ends."""
    path = os.path.join(folder, "log")
    while child.poll() is None and not (os.path.exists(path) and bytes_of(path).count(b"\n") >= count):
        time.sleep(0.002)


def write_bytes(folder, name, data):
    """With the folders that are in its name."""
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


# ---- images and sounds


def needs_headers(found):
    """Skips the case where a build without libjpeg or libpng said so."""
    if "install the headers" in found.err:
        raise Skipped("this build reads no pictures")
    return found


def png_chunk(name, data, wrong=0):
    """wrong: what the checksum is off by."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) ^ wrong)


def png(rows, width=4, wrong=0):
    """Grey pixels, rows of bytes; `width` is the width in the header, `wrong` is added to the checksum of the pixels."""
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), 8, 0, 0, 0, 0)) +
            png_chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)), wrong) + png_chunk(b"IEND", b""))


def wave(data, rate=8000, kind=1, bits=16, size=None, channels=1):
    """`size` is what the head says of the data, in bytes."""
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, kind, channels, rate, 2 * rate, 2, bits) + b"data" +
            struct.pack("<I", len(data) if size is None else size) + data)


def wave_of(numbers, rate=8000):
    """One channel of 16 bits."""
    return wave(struct.pack(f"<{len(numbers)}h", *numbers), rate)


# ---- npy files, as numpy.save writes them

TYPES = {"<f4": "f", "<i4": "i", "<i8": "q", "|u1": "B"}


def write_npy(path, kind, shape, numbers):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (kind, "".join(f"{n}, " for n in shape))
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(numbers)}{TYPES[kind]}", *numbers))


def read_npy(path):
    """(shape, numbers)"""
    data = bytes_of(path)
    expect(data[:6] == b"\x93NUMPY", f"{path} is not an npy file")
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    about = eval(data[10:begin].decode(), {"__builtins__": {}})  # a literal
    count = math.prod(about["shape"])
    return about["shape"], struct.unpack(f"<{count}{TYPES[about['descr']]}", data[begin:])


# ---- safetensors files

KINDS = {"F32": "f", "F64": "d", "I32": "i", "I64": "q", "U32": "I", "F16": "e", "BF16": "H"}


def write_safetensors(path, tensors):
    """tensors: {name: (kind, shape, numbers)}"""
    header, data = {}, b""
    for name, (kind, shape, numbers) in tensors.items():
        piece = struct.pack(f"<{len(numbers)}{KINDS[kind]}", *numbers)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    """{name: (kind, shape, numbers)}"""
    data, found = bytes_of(path), {}
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    for name, about in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, end = about["data_offsets"]
            count = math.prod(about["shape"])
            numbers = struct.unpack(f"<{count}{KINDS[about['dtype']]}", data[begin + first:begin + end])
            if about["dtype"] == "BF16":  # the upper half of a float
                numbers = struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(number << 16 for number in numbers)))
            found[name] = (about["dtype"], about["shape"], numbers)
    return found


# ---- a small problem: which of three numbers is the largest

SAMPLES, WIDTH, CLASSES = 100, 6, 3
TINY = """koine 1
model tiny
input x 6
linear 16
relu
logits = linear 3
"""


def numbers_of(count, seed=1):
    """From -1 to 1, the same everywhere."""
    numbers, state = [], seed
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        numbers.append((state >> 40) / 2**23 - 1)
    return numbers


def problem(folder, samples=SAMPLES):
    """Writes x.npy, y.npy and tiny.koine; returns the arguments of `koine train`."""
    x = numbers_of(samples * WIDTH)
    y = [max(range(CLASSES), key=lambda c: x[i * WIDTH + c]) for i in range(samples)]
    write_npy(os.path.join(folder, "x.npy"), "<f4", (samples, WIDTH), x)
    write_npy(os.path.join(folder, "y.npy"), "<i4", (samples,), y)
    write(folder, "tiny.koine", TINY)
    return ["tiny.koine", "--data", "npy:x.npy,y.npy"]


def train(folder, *more, status=0, model="tiny.koine", **needs):
    problem(folder)
    return koine("train", model, "--data", "npy:x.npy,y.npy", "--overwrite", *more, folder=folder).needs(status, **needs)
