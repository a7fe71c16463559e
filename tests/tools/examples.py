"""The worked examples of the README that need files: pictures as JPEG, and sounds.

usage: examples.py KOINE HOUSE_TESTS
"""
import math
import os
import struct

from koine import case, expect, koine, run_cases, write

# JPEG's own table for differences of brightness in its example: how many codes have 1 to 16 bits, and what they stand for
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
    """A square picture of blocks of 8 by 8 that are of one colour each: colour(row, column) is (red, green, blue)."""
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


def write_bytes(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
NET = """koine 1
model small
input x 3x32x32
conv 8 3 padding=1
relu
maxpool 4
flatten
logits = linear 10
"""


@case
def pictures_with_augmentation_and_a_report(folder):
    """Ten classes by their colour, brighter here and there."""
    for part, count in (("train", 6), ("test", 2)):
        for c, name in enumerate(CLASSES):
            for i in range(count):
                def colour(row, column):
                    light = 40 if (row * 5 + column * 3 + i * 7 + c) % 4 == 0 else 0
                    return [min(255, light + 20 + 200 * (c * step // 2 % 3) // 2) for step in (1, 3, 7)]
                write_bytes(folder, f"cifar/{part}/{name}/{i}.jpg", jpeg(32, colour))
    write(folder, "small.koine", NET)
    found = koine("datasets", "images:cifar", "--augment", "flip,crop=4", "--json", folder=folder)
    if "install the headers" in found.err:
        return found.needs(1, err="build again")
    row = found.needs(0).objects()[0]
    expect(row["samples"] == 60 and row["test_samples"] == 20 and row["classes"] == 10 and row["left_out"] == 0, f"found {row}")
    found = koine("train", "small.koine", "--data", "images:cifar", "--augment", "flip,crop=2,brightness=0.1", "--epochs", "40",
                  "--batch", "20", "--lr", "0.01", "--report", "report.html", folder=folder)
    found.needs(0, out="saved in small.safetensors")
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
        page = file.read()
    expect(page.rstrip().endswith("</html>") and all(name in page for name in CLASSES) and "--augment" in page, "the page lacks something")
    row = koine("eval", "small.safetensors", "--data", "images:cifar", "--json", folder=folder).objects()[0]
    expect(row["samples"] == 20 and row["accuracy"] > 0.5, f"found {row['accuracy']}")
    found = koine("infer", "small.safetensors", "--input", "cifar/test/frog/1.jpg", "--output", "-", folder=folder).needs(0)
    logits = [float(number) for number in found.out.split("\n")[1].split(",")]
    expect(len(logits) == 10 and all(map(math.isfinite, logits)), f"it wrote {found.out!r}")


def word(rate, seconds, pitches):
    """One channel of 16 bits: pitches one after the other."""
    count = int(rate * seconds)
    numbers = [round(9000 * math.sin(2 * math.pi * pitches[i * len(pitches) // count] * i / rate)) for i in range(count)]
    return (b"RIFF" + struct.pack("<I", 36 + 2 * count) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16) +
            b"data" + struct.pack(f"<I{count}h", 2 * count, *numbers))


@case
def commands_in_sound_files(folder):
    """`keyword` on files of any rate and length: pairs of the same pitches in another order, as in `tones`."""
    for c in range(8):
        pitches = [300 + 250 * (c // 2), 900 + 250 * (c // 2)][::1 if c % 2 else -1]
        write_bytes(folder, f"words/{c}/a.wav", word(16000, 0.5, pitches))
        write_bytes(folder, f"words/{c}/b.wav", word(8000, 1.2, pitches))
    found = koine("train", "keyword", "--data", "wav:words?rate=8000", "--batch", "4", "--steps", "2", "--augment",
                  "shift=400,noise=0.01", folder=folder)
    found.needs(0, err="on 16 samples", out="saved in keyword.safetensors")
    found = koine("infer", "keyword.safetensors", "--input", "words/3/a.wav", "--output", "-", folder=folder).needs(0)
    expect(len(found.out.split("\n")[1].split(",")) == 8, f"it wrote {found.out!r}")
    row = koine("eval", "keyword.safetensors", "--data", "wav:words", "--batch", "4", "--json", folder=folder).objects()[0]
    expect(row["samples"] == 16, f"found {row}")


run_cases()
