"""koine train --report: one self-contained HTML file that describes the training.

usage: page.py KOINE HOUSE_TESTS [COUNT_BUFFERS]
"""
import base64
import html.parser
import os
import re
import resource
import shlex
import struct
import subprocess
import sys
import zlib

from koine import SAMPLES, Skipped, WIDTH, bytes_of, case, expect, koine, numbers_of, problem, run_cases, write, write_npy

COUNT_BUFFERS = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(html.parser.HTMLParser):
    """Complains of tags that do not match and of anything that is loaded from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.open, self.count, self.images, self.text, self.rows = [], {}, [], "", []
        self.feed(text)
        self.close()
        expect(not self.open, f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        about = dict(attributes)
        self.count[tag] = self.count.get(tag, 0) + 1
        for name in ("src", "href"):
            expect(name not in about or about[name].startswith("data:"), f"<{tag}> loads {about.get(name)}")
        expect(not any(name.startswith("on") for name in about) and tag not in ("script", "link", "iframe"), f"<{tag}>")
        if tag == "img":
            self.images.append(about["src"])
        if tag == "path":
            expect(re.fullmatch(r"(M-?[\d.]+ -?[\d.]+(L-?[\d.]+ -?[\d.]+)*)?", about["d"]), f"a path: {about['d'][:80]}")
        for value in about.values():
            expect(not re.search(r"\bnan\b|\binf\b", value or ""), f"a number that is none: <{tag} {attributes}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            expect(self.open and self.open[-1] == tag, f"</{tag}> ends {self.open}")
            self.open.pop()

    def handle_data(self, data):
        self.text += data


def png(source):
    """(width, height, channels, pixels) of a data URI."""
    data = base64.b64decode(source.removeprefix("data:image/png;base64,"), validate=True)
    expect(data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG")
    at, packed, header = 8, b"", None
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at:at + 8])
        piece = data[at + 8:at + 8 + length]
        expect(zlib.crc32(name + piece) == struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0], "a checksum")
        header = piece if name == b"IHDR" else header
        packed += piece if name == b"IDAT" else b""
        at += 12 + length
    width, height, depth, kind = struct.unpack(">IIBB", header[:10])
    expect(depth == 8 and kind in (0, 2), f"found {header}")
    channels = 3 if kind else 1
    raw = zlib.decompress(packed)
    rows = [raw[y * (width * channels + 1):(y + 1) * (width * channels + 1)] for y in range(height)]
    expect(len(raw) == height * (width * channels + 1) and not any(row[0] for row in rows), "rows are not whole")
    return width, height, channels, b"".join(row[1:] for row in rows)


def report(folder, model, data, *more):
    found = koine("train", model, "--data", data, "--report", "r.html", "--overwrite", *more, folder=folder)
    found.needs(0, err="report in r.html")
    with open(os.path.join(folder, "r.html"), encoding="utf-8") as file:
        text = file.read()
    page = Page(text)
    expect('name="viewport"' in text and "viewBox" in text, "it is not made for phones")
    for part in ("Curves", "Time per operator", "Memory", "Plan", "Command", "peak"):
        expect(part in page.text, f"'{part}' is missing: {page.text}")
    return page, text


@case
def classes_and_pictures(folder):
    problem(folder)
    x = [abs(number) for number in numbers_of(SAMPLES * 48)]
    write_npy(os.path.join(folder, "x.npy"), "<f4", (SAMPLES, 3, 4, 4), x)
    write(folder, "see.koine", "koine 1\nmodel <see>\ninput x 3x4x4\nconv 4 3\nflatten\nlogits = linear 3\n".replace("<see>", "see"))
    page, text = report(folder, "see.koine", "npy:x.npy,y.npy", "--epochs", "3", "--validation", "0.3", "--batch", "10")
    expect("Accuracy, %" in page.text and "training" in page.text and "Confusion matrix" in page.text, page.text)
    expect(re.search(r"Loss [\d.e-]+ over the last epoch, accuracy [\d.]+%, validation loss [\d.e-]+, accuracy ", page.text), page.text)
    rows = re.findall(r"<tr><th>\d</th>(.*?)</tr>", text)
    cells = [[int(number) for number in re.findall(r">(\d+)</td>", row)] for row in rows]
    expect(len(cells) == 3 and sum(map(sum, cells)) == 30, f"found {cells}")
    wrong = sum(sum(row) for row in cells) - sum(cells[c][c] for c in range(3))
    expect(len(page.images) - 1 == min(wrong, 24) > 0, f"{len(page.images)} images for {wrong} mistakes")
    for source in page.images[:-1]:
        width, height, channels, pixels = png(source)
        expect((width, height, channels) == (4, 4, 3) and max(pixels) == 255 and min(pixels) == 0, "not the picture")
    # Four filters of 3x3, six pixels for a weight and two between them.
    expect("Filters of the first layer" in page.text, page.text)
    width, height, channels, pixels = png(page.images[-1])
    expect((width, height, channels) == (42, 42, 3) and max(pixels[:126 * 2]) == 0, f"filters of {width}x{height}")
    expect(pixels[126 * 2 + 6:126 * 2 + 9] == pixels[126 * 7 + 21:126 * 7 + 24] and max(pixels) >= 254, "not the filters")
    # The command is there as it was given.
    line = re.search(r'<pre id="command">koine (.*?)</pre>', text).group(1)
    expect(shlex.split(line)[:4] == ["train", "see.koine", "--data", "npy:x.npy,y.npy"], f"found {line}")


@case
def numbers_and_inputs(folder):
    problem(folder)
    x = numbers_of(SAMPLES * WIDTH)
    truth = [3 * x[i * WIDTH + 2] - x[i * WIDTH + 4] for i in range(SAMPLES)]
    write_npy(os.path.join(folder, "y.npy"), "<f4", (SAMPLES, 1), truth)
    write(folder, "line.koine", f"koine 1\nmodel line\ninput x {WIDTH}\nlinear 1\nloss mse\n")
    page, text = report(folder, "line.koine", "npy:x.npy,y.npy", "--epochs", "20", "--lr", "0.1", "--batch", "20",
                        "--validation", "0.2")
    expect("Predicted and true values" in page.text and "Root mean squared error" in page.text, page.text)
    expect(text.count("<circle class=\"fill0\" opacity") == 20, "a dot for each sample that is evaluated")
    ranks = re.findall(r"input (\d)", page.text[page.text.index("Importance of inputs"):])
    expect(ranks[:2] == ["2", "4"] and sorted(ranks) == list("012345"), f"found {ranks}")


@case
def a_constant_rate_is_drawn_at_its_value(folder):
    problem(folder)
    for rate in ("0.002", "1e-06"):
        _, text = report(folder, "tiny.koine", "npy:x.npy,y.npy", "--epochs", "2", "--lr", rate, "--schedule", "constant")
        chart = re.search(r'aria-label="Learning rate".*?</svg>', text, re.S).group(0)
        ticks = {float(number): float(y) - 4 for y, number in re.findall(r'y="([\d.]+)" text-anchor="end">([^<]+)<', chart)}
        drawn = {float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", chart)}
        expect(len(ticks) > 2 and drawn == {ticks[float(rate)]}, f"drawn at {drawn}, and the axis has {ticks}")


@case
def text_is_written(folder):
    write(folder, "walk.txt", "abc<d>&" * 80)
    write(folder, "walk.koine", "koine 1\nmodel walk\ninput x 8 int32\nembedding 16 8\nlogits = linear 16\n")
    page, text = report(folder, "walk.koine", "text:walk.txt", "--steps", "200", "--lr", "0.05")
    written = re.search(r'<pre id="written"><b>(.*?)</b>(.*?)</pre>', text, re.S)
    expect(written and "Confusion matrix" not in page.text, page.text)
    whole = html.unescape(written.group(1) + written.group(2))
    expect(len(whole) == 3 + 200 and "abc<d>&abc" in whole, f"found {whole}")


@case
def what_the_curves_say(folder):
    problem(folder)
    labels = [int(abs(number) * 3e6) % 3 for number in numbers_of(SAMPLES, seed=9)]
    write_npy(os.path.join(folder, "y.npy"), "<i4", (SAMPLES,), labels)  # nothing but learning by heart helps
    big = f"koine 1\nmodel big\ninput x {WIDTH}\nlinear 64\nrelu\nlogits = linear 3\n"
    write(folder, "big.koine", big)
    page, _ = report(folder, "big.koine", "npy:x.npy,y.npy", "--epochs", "40", "--lr", "0.02", "--validation", "0.3",
                     "--batch", "10")
    expect("Overfitting: the validation loss was lowest after epoch" in page.text, page.text)
    page, _ = report(folder, "big.koine", "npy:x.npy,y.npy", "--epochs", "1")
    expect("One epoch is not enough" in page.text, page.text)
    page, _ = report(folder, "big.koine", "npy:x.npy,y.npy", "--epochs", "2", "--batch", "10")
    expect("Without validation data" in page.text, page.text)
    problem(folder)
    page, _ = report(folder, "tiny.koine", "npy:x.npy,y.npy", "--epochs", "4", "--batch", "10", "--validation", "0.3",
                     "--lr", "0.01", "--schedule", "constant")
    expect("Underfitting: the training loss still fell" in page.text, page.text)


def stays(folder, before, found, *words):
    """If writing fails, the old page stays, and the failure is reported."""
    found.needs(1, err=("no report in 'r.html'; the model is saved", *words))
    expect(bytes_of(os.path.join(folder, "r.html")) == before, "the page was touched")
    expect(not [name for name in os.listdir(folder) if "tmp" in name], f"found {os.listdir(folder)}")


@case
def where_the_disk_is_full(folder):
    """No file may become larger than the model and compiled kernels, which an image of its filters is."""
    write_npy(os.path.join(folder, "x.npy"), "<f4", (4, 3, 32, 32), numbers_of(4 * 3 * 32 * 32))
    write_npy(os.path.join(folder, "y.npy"), "<i4", (4,), [0, 1, 2, 0])
    write(folder, "big.koine", "koine 1\ninput x 3x32x32\nconv 64 31\nflatten\nlogits = linear 3\n")
    words = ["train", "big.koine", "--data", "npy:x.npy,y.npy", "--epochs", "1", "--report", "r.html", "--overwrite"]
    koine(*words, folder=folder).needs(0)
    before = bytes_of(os.path.join(folder, "r.html"))
    expect(len(before) > 5000000, f"the page has {len(before)} bytes")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000000, 4000000))
    stays(folder, before, koine(*words, folder=folder, preexec_fn=limit, stdout=subprocess.PIPE, stderr=subprocess.PIPE),
          "'r.html' could not be written: File too large")


@case
def where_memory_runs_out(folder):
    """The last allocated buffer is one that the report needs."""
    if not COUNT_BUFFERS:
        raise Skipped("buffers are not counted in this build")
    problem(folder)
    words = ["train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--epochs", "2", "--overwrite"]
    counts, count = [], os.path.join(folder, "count")
    for more in ([], ["--report", "r.html"]):
        koine(*words, *more, folder=folder, environment={"LD_PRELOAD": COUNT_BUFFERS, "COUNT_BUFFERS": count}).needs(0)
        counts.append(int(bytes_of(count).split()[0]))
    expect(counts[1] > counts[0], f"found {counts} buffers")
    before = bytes_of(os.path.join(folder, "r.html"))
    stays(folder, before, koine(*words, "--report", "r.html", folder=folder, environment={
        "LD_PRELOAD": COUNT_BUFFERS, "FAIL_BUFFERS": str(counts[1])}))


@case
def where_it_cannot_be_written(folder):
    problem(folder)
    for path, words in (("nowhere/r.html", "the folder does not exist"), (".", "is a folder")):
        koine("train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--report", path, folder=folder).needs(
            1, out="", err=words)
    expect(not os.path.exists(os.path.join(folder, "tiny.safetensors")), "it was trained all the same")


run_cases()
