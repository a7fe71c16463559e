"""The examples of the README, of docs and of every help text, line by line as written there.

usage: examples.py KOINE HOUSE_TESTS

Papers that use one another's results share a folder with a little made data. A shell runs the lines; its `koine`
appends LESS to them (of an option that is given twice the last one counts), and what keeps the machine's tuning as it is.
"""
import contextlib
import csv
import functools
import io
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

import byte_model
import text_encoder
from koine import (ENVIRONMENT, KOINE, Skipped, add, expect, numbers_of, read_npy, read_safetensors, run_cases,
                   strict, wave_of, write, write_bytes, write_npy)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/caffe"))
import files  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = (("README.md", "docs/examples.md"), ("docs/tutorials/train.md",), ("docs/tutorials/onnx.md",),
          ("docs/tutorials/ci.md",))
# In this order: later ones use files of earlier ones.
HELPED = ("", "models", "datasets", "train", "eval", "infer", "generate", "convert", "plan", "bench", "bench-gemm",
          "bench-operators", "bench-crossover", "bench-plan", "tune", "verify", "devices", "doctor", "report", "tokens", "serve", "version")
# Blocks that begin so are run; others build something, or depend on the machine, as doctor does.
RUN = re.compile(r"(koine (?!doctor|report|serve)|printf) ?")
LESS = {"train": "--steps 2 --batch 32", "generate": "--length 10", "bench": "--seconds 0.01", "bench-gemm": "--seconds 0.01",
        "bench-operators": "--seconds 0.01", "bench-crossover": "--seconds 0.01", "tune": "--seconds 10 --kernel-cache tuned", "serve": "--port 0"}
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PHOTOS = ("cat", "frog", "horse")

# ---- JPEG files of blocks of 8 by 8 that are of one colour each

# JPEG's own table for differences of brightness in its example: the numbers of codes with 1 to 16 bits, and their values
COUNTS, WORDS = (0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0), tuple(range(12))


def codes():
    """The bits of each word, as a text."""
    found, code, at = {}, 0, 0
    for length, count in enumerate(COUNTS, 1):
        for word in WORDS[at:at + count]:
            found[word] = f"{code:0{length}b}"
            code += 1
        at += count
        code *= 2
    return found


CODES = codes()


def segment(marker, data):
    return struct.pack(">BBH", 255, marker, len(data) + 2) + data


def jpeg(size, colour):
    """A square image: colour(row, column) is (red, green, blue) of a block."""
    bits, before = [], [0, 0, 0]
    for row in range(size // 8):
        for column in range(size // 8):
            red, green, blue = colour(row, column)
            bright = 0.299 * red + 0.587 * green + 0.114 * blue
            for i, value in enumerate((bright - 128, (blue - bright) * 0.564, (red - bright) * 0.713)):
                level = max(-1023, min(1023, round(8 * value)))
                step, before[i] = level - before[i], level
                length = abs(step).bit_length()
                bits.append(CODES[length] + (f"{step if step > 0 else step + (1 << length) - 1:0{length}b}" if length else ""))
                bits.append("0")  # no more in this block
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    packed = int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\0")
    return (b"\xff\xd8" + segment(0xdb, bytes([0] + [1] * 64)) +
            segment(0xc0, struct.pack(">BHHB", 8, size, size, 3) + b"\1\x11\0\2\x11\0\3\x11\0") +
            segment(0xc4, bytes([0, *COUNTS, *WORDS])) + segment(0xc4, bytes([0x10, 1, *[0] * 15, 0])) +
            segment(0xda, b"\3\1\0\2\0\3\0\0\x3f\0") + packed + b"\xff\xd9")


def picture(which, sample):
    """Of a colour by the class, brighter here and there."""
    def colour(row, column):
        light = 40 if (row * 5 + column * 3 + sample * 7 + which) % 4 == 0 else 0
        return [min(255, light + 20 + 200 * (which * step // 2 % 3) // 2) for step in (1, 3, 7)]
    return jpeg(32, colour)


def spoken(rate, seconds, which):
    """One channel of 16 bits: two pitches, one after the other."""
    count = int(rate * seconds)
    pitches = [300 + 250 * (which // 2), 900 + 250 * (which // 2)][::1 if which % 2 else -1]
    numbers = [round(9000 * math.sin(2 * math.pi * pitches[i * 2 // count] * i / rate)) for i in range(count)]
    return wave_of(numbers, rate)


# ---- files of the examples


def stage(folder):
    rows = [f"{'' if i % 9 == 8 else i % 20},{'ab'[i % 2]},{'' if i % 13 == 12 else f'{i * 7 % 30}.5'}" for i in range(60)]
    write(folder, "wind.csv", "height,place,speed\n" + "\n".join(rows) + "\n")
    write(folder, "new.csv", "place,height\na,10\nb,\n")
    write(folder, "book.txt", "The quick brown fox jumps over the lazy dog.\n" * 60)
    byte_model.write(os.path.join(folder, "smollm2.gguf"))
    byte_model.write_folder(os.path.join(folder, "SmolLM2"), vocabulary=False)
    text_encoder.write(os.path.join(folder, "minilm"))
    write(folder, "sentences.txt", "a b\nb\n")
    write(folder, "poems.txt", "The moon is a boat of silver on the sea.\n" * 60)
    messages = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]
    write(folder, "talk.jsonl", (json.dumps({"messages": messages}) + "\n") * 8)
    write(folder, "tokenizer.json", json.dumps({
        "model": {"type": "BPE", "vocab": {"<unk>": 0, "l": 1, "o": 2, "lo": 3}, "merges": ["l o"], "unk_token": "<unk>"}}))
    for i in range(3):
        write_bytes(folder, f"pictures/{i}.jpg", picture(i, i))
    for c, name in enumerate(CLASSES):
        for i in range(6):
            for pictures in ("cifar", "photos") if name in PHOTOS else ("cifar",):
                write_bytes(folder, f"{pictures}/{'train' if i < 4 else 'test'}/{name}/{i % 4}.jpg", picture(c, i))
        write_bytes(folder, f"letters/{chr(ord('A') + c)}/1.jpg", picture(c, 0))
    for c in range(8):
        for i, (rate, seconds) in enumerate(((16000, 0.5), (8000, 1.2), (8000, 0.4))):
            write_bytes(folder, f"words/{c}/{i}.wav", spoken(rate, seconds, c))
    net = [("input", "data"), *[("input_dim", size) for size in (1, 1, 28, 28)],
           files.layer("InnerProduct", "ip", "data", blobs=[((10, 784), numbers_of(7840)), ((10,), numbers_of(10))],
                       inner_product_param=[("num_output", 10)]), files.layer("Softmax", "prob", "ip")]
    write(folder, "deploy.prototxt", files.text(net))
    write_bytes(folder, "net.caffemodel", files.binary(net))
    write_npy(os.path.join(folder, "x.npy"), "<f4", (2, 1, 28, 28), numbers_of(2 * 784))
    write_npy(os.path.join(folder, "xs.npy"), "<f4", (32, 1, 28, 28), numbers_of(32 * 784))
    write_npy(os.path.join(folder, "ys.npy"), "<i4", (32,), [i % 10 for i in range(32)])
    subprocess.run([KOINE, "convert", "deploy.prototxt", "net.onnx", "--weights", "net.caffemodel", "--quiet"],
                   cwd=folder, env=ENVIRONMENT, check=True)
    write_bytes(folder, "word.wav", spoken(22050, 0.7, 3))
    shutil.copy(ROOT / "tools/gpu-lab/targets/gfx1100.target", folder)
    cases = "".join(f'{name}) exec {shlex.quote(KOINE)} "$@" {less} ;;\n' for name, less in LESS.items())
    cases = (f'report) case "$*" in *--read*) ;; *) set -- "$@" --device 0 --only relu ;; esac ;;\n'
             f'train) case "$*" in *unet*) set -- "$@" --validate-samples 8 ;; esac ;;\nesac\ncase "$1" in\n{cases}')
    write_bytes(folder, "bin/koine", f'#!/bin/sh\ncase "$1" in\n{cases}esac\nexec {shlex.quote(KOINE)} "$@"\n'.encode())
    os.chmod(os.path.join(folder, "bin/koine"), 0o755)


# ---- expected results besides files, by the beginning of a line


def digits(out, _):
    expect(re.fullmatch(r"(pictures/\d\.jpg:( \d \d+\.\d%,?){3}\n){3}", out), f"found {out!r}")


def speeds(out, folder):
    with open(os.path.join(folder, "speeds.csv"), encoding="utf-8") as file:
        rows = list(csv.reader(file))
    expect(not out and rows[0] == ["speed"] and len(rows) == 3 and all(math.isfinite(float(row[0])) for row in rows[1:]), f"found {rows}")


def speeds_of_a_pipe(out, _):
    expect(re.fullmatch(r"0: speed \S+\n1: speed \S+\n", out), f"found {out!r}")


def report(_, folder):
    page = pathlib.Path(folder, "report.html").read_text(encoding="utf-8")
    expect(page.rstrip().endswith("</html>") and "--augment" in page and all(name in page for name in CLASSES), "the page lacks something")


def frogs_and_a_ship(out, _):
    rows = [strict(line) for line in out.splitlines()]
    names = [f"cifar/test/{name}.jpg" for name in ("frog/0", "frog/1", "ship/1")]
    expect([row["file"] for row in rows] == names and all(row["class"] in CLASSES for row in rows), f"found {rows}")


def a_word(out, _):
    expect(re.fullmatch(r"word\.wav:( \d \d+\.\d%,?){3}\n", out), f"found {out!r}")


def convolutions_stay(_, folder):
    before, after = (read_safetensors(os.path.join(folder, f"{name}.safetensors")) for name in ("lenet", "letters"))
    for name in ("conv1.weight", "conv2.bias", "linear1.weight"):
        expect((before[name] == after[name]) == name.startswith("conv"), f"{name} is not as it should be")


def letters(_, folder):
    with open(os.path.join(folder, "letters.csv"), encoding="utf-8") as file:
        row = next(csv.DictReader(io.StringIO(file.read())))
    expect(row["file"] == "letters/B/1.jpg" and row["class"] in "ABCDEFGHIJ" and 0.1 <= float(row["probability"]) <= 1, f"found {row}")


def probabilities(_, folder):
    shape, found = read_npy(os.path.join(folder, "y.npy"))
    expect(shape == (2, 10) and all(abs(sum(found[i:i + 10]) - 1) < 1e-5 for i in (0, 10)), f"found {shape} {found}")


CHECKS = {"koine infer lenet": digits, "koine infer table": speeds, "printf": speeds_of_a_pipe, "koine train cifar-cnn --data images:cifar": report,
          "koine infer cifar-cnn": frogs_and_a_ship, "koine infer keyword": a_word,
          "koine train lenet --data images": convolutions_stay, "koine infer letters": letters,
          "koine infer deploy": probabilities}

# ---- running


def serve(line, folder, environment):
    """Starts a server, and ends it by a signal when it has printed its address."""
    child = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    try:
        first = child.stdout.readline()
        child.terminate()
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    return subprocess.CompletedProcess(line, child.returncode, first + out, err)


def example(lines, folder, checks, _):
    environment = {**ENVIRONMENT, "PATH": os.path.join(folder, "bin") + os.pathsep + ENVIRONMENT.get("PATH", os.defpath)}
    for line in lines:
        if line.startswith("koine serve"):
            done = serve(line, folder, environment)
        else:
            done = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if "install the headers" in done.stderr:
            raise Skipped("this build reads no pictures")
        if "built without it; install" in done.stderr:
            raise Skipped("this build has no server")
        problem = done.returncode == 1 and line.startswith("koine doctor")  # of this machine
        expect(done.returncode == 0 or problem, f"{line}\nstatus {done.returncode}\nout: {done.stdout}\nerr: {done.stderr}")
        for name in re.findall(r"(?:--output|--save|--report|>) (\S+)", line):
            expect(os.path.getsize(os.path.join(folder, name)) > 0, f"{line} left no {name}")
        for begin, check in checks.items():
            if line.startswith(begin):
                check(done.stdout, folder)


def examples(document):
    """(title, lines) of each block of commands; the title is the sentence before it."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for title, block in re.findall(r"^(\S[^\n]*(?:\n\S[^\n]*)*)\n\n((?:    [^\n]*\n)+)", text, flags=re.M):
        lines = [line.strip() for line in block.splitlines()]
        if RUN.match(lines[0]):
            yield re.split("[,;:.]", " ".join(title.split()))[0].lower(), lines


def examples_of_help(command):
    """(title, lines) of each line."""
    text = subprocess.run([KOINE, *command.split(), "--help"], env={**ENVIRONMENT, "COLUMNS": "100"}, capture_output=True, text=True,
                          check=True).stdout.replace(" \\\n     ", "")
    block = re.search(r"(?:\nexamples:\n|To\s+begin:\n\n)((?:  .*\n)+)", text)
    for line in block.group(1).splitlines():
        yield line.strip(), [line.strip()]


def help_is_read(_):
    listed = re.findall(r"^  ([a-z-]+)  +\S", subprocess.run([KOINE, "--help"], env=ENVIRONMENT, capture_output=True, text=True,
                                                          check=True).stdout, flags=re.M)
    expect(sorted(listed) == sorted(HELPED[1:]), f"koine --help lists {listed}, and this test runs the examples of {HELPED}")


every = {document: list(examples(document)) for together in DOCUMENTS for document in together}


def all_are_there(_):
    lines = [line for found in every.values() for _, block in found for line in block]
    expect(len(every["README.md"]) == 5, f"the README has the examples {[title for title, _ in every['README.md']]}")
    expect(all(every.values()) and len(lines) > 40, f"found {every}")
    for begin in CHECKS:
        expect(any(line.startswith(begin) for line in lines), f"no example begins with {begin}")


with contextlib.ExitStack() as folders:
    for together in DOCUMENTS:
        folder = folders.enter_context(tempfile.TemporaryDirectory(prefix="koine-test-"))
        stage(folder)
        for document in together:
            for title, block in every[document]:
                add(f"{document}: {title}", functools.partial(example, block, folder, CHECKS))
    folder = folders.enter_context(tempfile.TemporaryDirectory(prefix="koine-test-"))
    stage(folder)
    for command in HELPED:
        for title, block in examples_of_help(command):
            add(f"help of {command or 'koine'}: {title}", functools.partial(example, block, folder, {}))
    add("help of all commands is read", help_is_read)
    add("all examples are there", all_are_there)
    run_cases()
