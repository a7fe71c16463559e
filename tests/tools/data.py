"""The command's data sources: their list, regression, text and generation.

usage: data.py KOINE HOUSE_TESTS
"""
import math
import os
import re
import struct
import zipfile
import zlib

from koine import (case, expect, koine, needs_headers, png, png_chunk, read_safetensors, run_cases, wave_of, write, write_bytes,
                   write_npy)

WALK = "koine 1\nmodel walk\ninput x 6 int32\nembedding 8 8\nlstm 12\nlogits = linear 8\n"
LINE = "abcdéf\nabcdéf\n"  # each character determines the next one


def walk(folder, *options, text=LINE * 30, **wanted):
    write(folder, "walk.koine", WALK)
    write(folder, "walk.txt", text)
    return koine("train", "walk.koine", "--data", "text:walk.txt", "--overwrite", "--epochs", "30", "--batch", "16", "--lr", "0.03",
                 *options, folder=folder).needs(0, **wanted)


@case
def sources_are_listed(folder):
    found = koine("datasets").needs(0, out=("digits", "wind", "text:FILE", "npy:X.npy,Y.npy", "npz:FILE", "cifar10:FOLDER"), err="")
    listed = [row["data"] for row in koine("datasets", "--json").objects("data", "text")]
    expect(listed == re.findall(r"^  (\S+)$", found.out, flags=re.M), f"--json lists {listed}")


@case
def wind_tells_how_much_it_explains(folder):
    found = koine("train", "wind", "--data", "wind", "--steps", "150", "--lr", "0.02", folder=folder)
    found.needs(0, out=("R2 ", "% of what can be explained", "saved to wind.safetensors"))
    found = koine("eval", "wind.safetensors", "--data", "wind", "--json", folder=folder).objects()[0]
    expect(0 < found["r2"] < 0.83 and found["accuracy"] is None and found["samples"] == 5000, f"found {found}")


def table(folder, name="days.csv"):
    """Speed falls with the height, differs by the place, and is now and then not known."""
    rows = ["place,height,day,speed"]
    for i in range(240):
        height, place = i * 37 % 100, "ab"[i % 2]
        known = "" if i % 20 == 19 else f"{20 - 0.1 * height + 3 * (i % 2):.2f}"
        rows.append(f"{place},{'' if i % 11 == 10 else height},2024-{1 + i % 12:02}-15,{known}")
    write(folder, name, "\n".join(rows) + "\n")


@case
def tables_are_learnt(folder):
    table(folder)
    found = koine("train", "table", "--data", "csv:days.csv,target=speed", "--validation", "0.2", "--epochs", "40",
                  "--batch", "32", "--lr", "0.01", "--set", "width=16", folder=folder)
    found.needs(0, err=("3 columns become 7 inputs", "height: number, mean", "place: category of 2: a, b",
                        "speed: number", "12 rows without a target are skipped"), out=("R2 0.9", "saved to table.safetensors"))
    write(folder, "new.csv", "day,place,height\n2024-05-15,a,0\n2024-05-15,b,100\n2024-05-15,a,\n")
    found = koine("infer", "table.safetensors", "--input", "new.csv", "--output", "-", folder=folder).needs(0)
    lines = found.out.split("\n")
    expect(lines[0] == "speed" and len(lines) == 5, f"it wrote {found.out!r}")
    expect(abs(float(lines[1]) - 20) < 2 and abs(float(lines[2]) - 13) < 2, f"it wrote {found.out!r}")
    koine("infer", "table.safetensors", "--input", "new.csv", "--output", "out.csv", folder=folder).needs(0)
    with open(os.path.join(folder, "out.csv")) as file:
        expect(file.read() == found.out, "the file holds something else")
    row = koine("eval", "table.safetensors", "--data", "csv:days.csv", "--json", folder=folder).objects()[0]
    expect(row["r2"] > 0.9 and row["samples"] == 228, f"found {row}")
    write(folder, "few.csv", "day,place\n2024-05-15,a\n")
    koine("infer", "table.safetensors", "--input", "few.csv", "--output", "-", folder=folder).needs(
        1, err='few.csv lacks the column "height"')
    koine("train", "table", "--data", "csv:days.csv", folder=folder).needs(1, err="name the target column")
    koine("train", "table", "--data", "csv:days.csv,target=place", folder=folder).needs(
        1, err="which the model table-classes is for")
    koine("train", "table", "--data", "csv:days.csv,target=speed", "--set", "widht=4", folder=folder).needs(
        1, err="did you mean 'width'?")
    koine("train", "table", "--data", "csv:days.csv,target=speed", "--set", "width=x", folder=folder).needs(
        2, err="expected NAME=NUMBER")


@case
def classes_of_tables_have_names(folder):
    table(folder)
    koine("train", "table-classes", "--data", "csv:days.csv,target=place", "--epochs", "30", "--batch", "16", "--lr", "0.01",
          "--set", "width=16", folder=folder).needs(0, err="place: 2 classes: a, b (target)")
    found = koine("infer", "table-classes.safetensors", "--input", "days.csv", "--output", "-", folder=folder).needs(0)
    lines = found.out.split("\n")
    expect(lines[0] == "place,probability" and len(lines) == 242, f"it wrote {found.out[:100]!r}")
    right = sum(line[0] == "ab"[i % 2] for i, line in enumerate(lines[1:-1]))
    expect(right > 200 and all(0.5 <= float(line[2:]) <= 1 for line in lines[1:-1]), f"{right} of 240 right")


@case
def arrays_of_one_file_are_learnt(folder):
    write(folder, "two.koine", "koine 1\ninput x 2\nlogits = linear 2\n")
    write_npy(os.path.join(folder, "in.npy"), "<f4", (40, 2), [i % 2 for i in range(80)])
    write_npy(os.path.join(folder, "out.npy"), "<i8", (40,), [i % 2 for i in range(40)])
    for name, packing in (("plain.npz", zipfile.ZIP_STORED), ("packed.npz", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(os.path.join(folder, name), "w", packing) as file:
            file.write(os.path.join(folder, "in.npy"), "x.npy")
            file.write(os.path.join(folder, "out.npy"), "y.npy")
        koine("train", "two.koine", "--data", f"npz:{name}", "--steps", "2", folder=folder).needs(0, err="on 40 samples")
    koine("train", "two.koine", "--data", "npz:plain.npz,x=z,y=y", folder=folder).needs(1, err="it has x.npy, y.npy")
    koine("train", "two.koine", "--data", "cifar10:.", folder=folder).needs(1, err="data_batch_1.bin and the other")


def grey(value):
    """4 by 4 pixels."""
    return png([bytes([value] * 4)] * 4)


@case
def pictures_that_become_others_are_told_once(folder):
    """Two in colour, and one of another size; a conversion that was requested is not reported."""
    write(folder, "small.koine", "koine 1\ninput x 1x4x4\nflatten\nlogits = linear 2\n")
    write(folder, "colour.koine", "koine 1\ninput x 3x4x4\nflatten\nlogits = linear 2\n")
    colours = (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)) +
               png_chunk(b"IDAT", zlib.compress((b"\0" + bytes(range(12))) * 4)) + png_chunk(b"IEND", b""))
    for name, data in (("a/1.png", colours), ("a/2.png", colours), ("b/1.png", grey(9)), ("b/2.png", png([b"123456"] * 6, 6))):
        write_bytes(folder, "pets/" + name, data)

    def told(model, data):
        found = needs_headers(koine("train", model, "--data", data, "--steps", "1", "--save", "m.safetensors", "--overwrite",
                                    folder=folder)).needs(0)
        lines = [line for line in found.err.splitlines() if line.startswith("images: ")]
        expect(len(lines) < 2, f"told twice: {found}")
        return lines[0] if lines else ""
    for model, data, wanted in (
            ("small.koine", "images:pets", "images: 2 of 4 converted from RGB to grey, 1 of 4 scaled to 4x4 pixels"),
            ("colour.koine", "images:pets", "images: 2 of 4 converted from grey to RGB, 1 of 4 scaled to 4x4 pixels"),
            ("small.koine", "images:pets,grey", "images: 1 of 4 scaled to 4x4 pixels"),
            ("small.koine", "images:pets,grey,size=4", "")):
        expect(told(model, data) == wanted, f"{model}, {data}: expected {wanted!r}: {told(model, data)!r}")


@case
def onnx_files_read_pictures_and_rows(folder):
    """As the model that they were made from, with its class names."""
    write(folder, "small.koine", "koine 1\ninput x 1x4x4\nflatten\nlogits = linear 2\n")
    write(folder, "row.koine", "koine 1\ninput x 3\nlinear 4\nrelu\nlogits = linear 2\n")
    write(folder, "rows.csv", "1,2,3\n4,5,6\n-1,0,1\n")
    for i in range(4):
        write_bytes(folder, f"pets/{'ab'[i % 2]}/{i}.png", grey(60 * i))
    write_npy(os.path.join(folder, "x.npy"), "<f4", (4, 3), [0.1 * i for i in range(12)])
    write_npy(os.path.join(folder, "y.npy"), "<i4", (4,), [0, 1, 0, 1])
    for name, data, samples in (("small", "images:pets", ["pets/a/0.png", "pets/b"]), ("row", "npy:x.npy,y.npy", ["rows.csv"])):
        needs_headers(koine("train", f"{name}.koine", "--data", data, "--steps", "1", folder=folder)).needs(0)
        koine("convert", f"{name}.safetensors", f"{name}.onnx", folder=folder).needs(0)
        koine("convert", f"{name}.onnx", f"{name}2.onnx", folder=folder).needs(0)
        koine("convert", f"{name}.koine", f"{name}3.onnx", "--weights", f"{name}.safetensors", folder=folder).needs(0)
        koine("convert", f"{name}.safetensors", f"{name}2.safetensors", folder=folder).needs(0)
        wanted = koine("infer", f"{name}.safetensors", *samples, "--json", folder=folder).objects()
        expect(len(wanted) == 3 and all((row.get("class") in ("a", "b")) == (name == "small") for row in wanted), f"{name}: found {wanted}")
        for file in (f"{name}.onnx", f"{name}2.onnx", f"{name}3.onnx", f"{name}2.safetensors"):
            found = koine("infer", file, *samples, "--json", folder=folder).objects()
            expect([row.get("class") for row in found] == [row.get("class") for row in wanted] and
                   all(abs(a - b) < 1e-5 for one, other in zip(found, wanted) for a, b in zip(one["logits"], other["logits"])),
                   f"{file}: found {found}, expected {wanted}")
        koine("infer", f"{name}.onnx", *samples, "--output", f"{name}.csv", folder=folder).needs(0, err="of 3 samples written")
    koine("infer", "row.onnx", "--input", "x=x.npy", "--format", "csv", folder=folder).needs(0, out="class,probability\n")
    koine("infer", "row.onnx", "--input", "x=x.npy", "--output", "logits=z.npy", folder=folder).needs(0, err="written to z.npy")
    koine("infer", "row.onnx", "x.npy", "--output", "other=z.csv", folder=folder).needs(1, err="has no output 'other'")


@case
def pictures_of_a_folder_are_told_apart(folder):
    """Dark ones and light ones, then a folder without classes."""
    write(folder, "small.koine", "koine 1\ninput x 1x4x4\nflatten\nlogits = linear 2\n")

    def picture(name, value):
        write_bytes(folder, name, grey(value))
    for i in range(8):
        picture(f"pets/{'dark' if i < 4 else 'light'}/{i}.png", 10 * i if i < 4 else 170 + 10 * i)
    found = koine("train", "small.koine", "--data", "images:pets", "--epochs", "60", "--lr", "0.1", folder=folder)
    needs_headers(found).needs(0)
    for name, value in (("b.png", 5), ("a.png", 240), ("below/c.png", 30)):
        picture(f"new/{name}", value)
    rows = koine("infer", "small.safetensors", "--input", "new", "--json", folder=folder).objects(
        "sample", "file", "class", "probability", "logits")
    expect([(row["file"], row["class"]) for row in rows] ==
           [("new/a.png", "light"), ("new/b.png", "dark"), ("new/below/c.png", "dark")], f"found {rows}")
    text = koine("infer", "small.safetensors", "new/b.png", "new/below", folder=folder).needs(0).out
    expect(re.fullmatch(r"new/b\.png: dark \d+\.\d%, light \d+\.\d%\nnew/below/c\.png: dark .*\n", text), f"found {text!r}")
    with open(os.path.join(folder, "new/a.png"), "rb") as given:
        text = koine("infer", "small.safetensors", "-", folder=folder, given=given).needs(0).out
    expect(text.startswith("0: light "), f"found {text!r}")
    table = koine("infer", "small.safetensors", "--input", "new", "--output", "-", folder=folder).needs(0).out
    expect(table.startswith("file,class,probability\nnew/a.png,light,"), f"found {table!r}")
    with open(os.path.join(folder, "new/bad.png"), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\nno picture")
    koine("infer", "small.safetensors", "--input", "new", folder=folder).needs(1, out="", err="new/bad.png")
    koine("infer", "small.safetensors", "--input", "new", "--on-bad-sample", "skip", folder=folder).needs(
        0, out="new/below/c.png: dark", err=("left out 1", "new/bad.png"))
    os.mkdir(os.path.join(folder, "none"))
    koine("infer", "small.safetensors", "--input", "none", folder=folder).needs(1, out="", err="contains no .jpg")


@case
def faults_of_the_standard_input_are_its_own(folder):
    """No word of the file that it is kept in."""
    write(folder, "t.csv", "a,b,y\n" + "".join(f"{i},{i % 7},{3 * i}\n" for i in range(40)))
    koine("train", "table", "--data", "csv:t.csv,target=y", "--steps", "1", folder=folder).needs(0)
    for data, fault in ((b"a,b\nx,2\n", 'standard input: row 1, column "a": found "x"'),
                        (b"a\n2\n", 'standard input lacks the column "b"'), (b"a,b\n1\n", "standard input: line 2: found 1 values"),
                        (b"", "standard input: the file is empty"), (b"\x93NUMPY", "standard input: byte 0: not an npy file"),
                        (b"RIFF\0\0\0\0WAVE", "standard input"), (b"\x89PNG", "standard input")):
        write_bytes(folder, "given", data)
        with open(os.path.join(folder, "given"), "rb") as given:
            found = koine("infer", "table.safetensors", "-", folder=folder, given=given).needs(1, out="", err=fault)
        expect("/koine-" not in found.err, f"a temporary file is named: {found}")


@case
def classes_of_folders_are_matched_by_name(folder):
    """Data with fewer classes than the model knows, and with one that it does not know."""
    write(folder, "small.koine", "koine 1\ninput x 1x4x4\nflatten\nlogits = linear 2\n")
    for i in range(8):
        write_bytes(folder, f"pets/{'dark' if i < 4 else 'light'}/{i}.png", grey(10 * i if i < 4 else 170 + 10 * i))
        write_bytes(folder, f"one/light/{i}.png", grey(200 + i))
        write_bytes(folder, f"more/{'light' if i < 4 else 'middle'}/{i}.png", grey(200 + i))
        write_bytes(folder, f"numbers/{i % 2}/{i}.png", grey(200 * (i % 2)))
    needs_headers(koine("train", "small.koine", "--data", "images:pets", "--epochs", "60", "--lr", "0.1", folder=folder)).needs(0)
    found = koine("eval", "small.safetensors", "--data", "images:one", "--json", folder=folder).objects()[0]
    expect(found["accuracy"] == 1 and found["confusion"] == [[0, 0], [0, 8]], f"found {found}")
    expect([one["name"] for one in found["classes"]] == ["dark", "light"], f"found {found}")
    koine("eval", "small.safetensors", "--data", "images:more", folder=folder).needs(
        1, out="", err=('small.safetensors: data "images:more": class "middle" is not among the 2 classes', "dark, light", "remove its samples"))
    # A model without class names numbers classes by position.
    train = ("train", "small.koine", "--overwrite", "--epochs", "60", "--lr", "0.1", "--data", "images:numbers")
    koine(*train, folder=folder).needs(0)
    for data in ("images:numbers", "images:pets"):
        found = koine("eval", "small.safetensors", "--data", data, "--json", folder=folder).objects()[0]
        expect(found["accuracy"] == 1, f"found {found}")


@case
def broken_pictures_are_named(folder):
    write(folder, "small.koine", "koine 1\ninput x 1x4x4\nflatten\nlogits = linear 2\n")
    for archive, reads in (("good.zip", None), ("bad.zip", b"\x89PNG\r\n\x1a\nno picture")):
        with zipfile.ZipFile(os.path.join(folder, archive), "w", zipfile.ZIP_DEFLATED) as file:
            for i in range(8):
                file.writestr(f"pets/{'cat' if i % 2 else 'dog'}/{i}.png", grey(20 * i) if i != 3 or not reads else reads)
    train = ("train", "small.koine", "--steps", "2", "--data")
    found = koine(*train, "images:good.zip", folder=folder)
    if "install the headers" in found.err:
        return found.needs(1, err="rebuild")
    found.needs(0, err="on 8 samples")
    rows = koine("infer", "small.safetensors", "good.zip", "--json", folder=folder).objects(
        "sample", "file", "class", "probability", "logits")
    expect([row["file"] for row in rows] == [f"pets/{name}/{i}.png" for name in ("cat", "dog") for i in range(name == "cat", 8, 2)],
           f"found {rows}")
    koine(*train, "images:good.zip", "--cache", "20", folder=folder).needs(1, err="exceed the cache of 20 bytes")
    koine(*train, "images:bad.zip", folder=folder).needs(1, err="pets/cat/3.png")
    koine(*train, "images:bad.zip", "--on-bad-sample", "skip", folder=folder).needs(
        0, err=("left out 1 that could not be read", "pets/cat/3.png: ", "on 7 samples"))
    koine("eval", "small.safetensors", "--data", "images:bad.zip", "--on-bad-sample", "skip", folder=folder).needs(
        0, out="on 7 samples", err="pets/cat/3.png")
    koine(*train, "images:bad.zip", "--on-bad-sample", "pass", folder=folder).needs(2, err="fail or skip")


def sound(pitch, rate=8000, length=2000):
    """One channel of 16 bits."""
    numbers = [round(9000 * math.sin(2 * math.pi * pitch * i / rate)) for i in range(length)]
    return wave_of(numbers, rate)


@case
def sounds_are_learnt(folder):
    """High and low, learnt at 8 kHz; then one that was taken at 16 kHz, and a folder."""
    write(folder, "pitch.koine", "koine 1\nmodel pitch\ninput x 1x2000\nspectrogram 200 100 8 rate=8000\nflatten\nlogits = linear 2\n")
    for i in range(12):
        write_bytes(folder, f"tones/{'low' if i % 2 else 'high'}/{i}.wav", sound((300 if i % 2 else 2500) + 20 * i))
    found = koine("train", "pitch.koine", "--data", "wav:tones", "--epochs", "30", "--batch", "6", "--lr", "0.01", folder=folder)
    found.needs(0, err="on 12 samples", out="saved to pitch.safetensors")
    found = koine("eval", "pitch.safetensors", "--data", "wav:tones", "--json", folder=folder).objects()[0]
    expect(found["accuracy"] == 1 and found["classes"][0]["name"] == "high", f"found {found}")
    write_bytes(folder, "a.wav", sound(400, 16000, 4000))
    write_bytes(folder, "new/1.wav", sound(2600, 16000, 4000))
    write_bytes(folder, "new/2.wav", sound(350, 44100, 11025))
    out = koine("infer", "pitch.safetensors", "a.wav", "new", "--output", "-", folder=folder).needs(0).out
    expect([line.rsplit(",", 1)[0] for line in out.split("\n")] ==
           ["file,class", "a.wav,low", "new/1.wav,high", "new/2.wav,low", ""], f"it wrote {out!r}")
    write_bytes(folder, "tones/low/b.wav", b"RIFF....WAVE")
    train = ("train", "pitch.koine", "--steps", "1", "--data", "wav:tones")
    koine(*train, folder=folder).needs(1, err="low/b.wav: has no data chunk")
    koine(*train, "--on-bad-sample", "skip", folder=folder).needs(0, err=("left out 1 that could not be read", "on 12 samples"))
    koine("infer", "pitch.safetensors", "--input", "tones/low/b.wav", "--output", "-", folder=folder).needs(
        1, err="b.wav: has no data chunk")


@case
def inputs_are_standardized(folder):
    """Channels 100 +- 2 and 7: with the layer as without it, where the numbers were brought to mean 0 and deviation 1 before."""
    signs = [1 if i * 7 % 10 < 5 else -1 for i in range(80)]
    write_npy(os.path.join(folder, "y.npy"), "<i8", (40,), [i % 2 for i in range(40)])
    far = [number for i in range(40) for number in (100 + 2 * signs[2 * i], 100 + 2 * signs[2 * i + 1], 7, 7)]
    near = [number for i in range(40) for number in (signs[2 * i], signs[2 * i + 1], 0, 0)]
    losses = []
    for name, numbers, line in (("far", far, "standardize\n"), ("near", near, "")):
        write_npy(os.path.join(folder, f"{name}.npy"), "<f4", (40, 2, 2), numbers)
        write(folder, f"{name}.koine", f"koine 1\ninput x 2x2\n{line}flatten\nlogits = linear 2\n")
        train = ("train", f"{name}.koine", "--data", f"npy:{name}.npy,y.npy", "--lr", "0.1", "--batch", "40")
        koine(*train, "--steps", "2", folder=folder).needs(0)
        losses.append(koine("eval", f"{name}.safetensors", "--data", f"npy:{name}.npy,y.npy", "--json",
                            folder=folder).objects()[0]["loss"])
    expect(abs(losses[0] - losses[1]) < 1e-4, f"losses {losses}")
    koine("train", "--resume", "far.safetensors", "--data", "npy:near.npy,y.npy", "--steps", "3", "--save", "on.safetensors",
          folder=folder).needs(0)
    for name in ("far", "on"):  # the statistics stay with the weights
        tensors = read_safetensors(os.path.join(folder, f"{name}.safetensors"))
        found = (tensors["x.mean"][2], tensors["x.deviation"][2])
        expect(found == ((100, 7), (2, 1)), f"{name}: found {found}")
    write(folder, "middle.koine", "koine 1\ninput x 2x2\nrelu\nstandardize\nflatten\nlogits = linear 2\n")
    koine("train", "middle.koine", "--data", "npy:near.npy,y.npy", folder=folder).needs(1, err="expected an input")


@case
def samples_are_changed_at_random(folder):
    write(folder, "small.koine", "koine 1\ninput x 1x28x28\nflatten\nlogits = linear 10\n")
    changes = "flip,crop=3,rotate=10,scale=0.1,cutout=6,noise=0.1,brightness=0.2,contrast=0.2,mix-up=0.4,cut-mix=1"

    def bits(name, *options, steps="4"):
        koine("train", "small.koine", "--data", "digits:test", "--batch", "8", "--steps", steps, "--schedule", "constant",
              "--save", name, "--overwrite", *options, folder=folder).needs(0)
        rows = koine("eval", name, "--data", "digits:test", "--json", folder=folder).objects()
        return rows[0]["loss"]
    plain, changed = bits("a.safetensors"), bits("b.safetensors", "--augment", changes)
    expect(plain != changed, "nothing was changed")
    for workers in ("1", "7"):
        expect(bits("c.safetensors", "--augment", changes, "--workers", workers) == changed, "the workers decide")
    write(folder, "small.koine", "koine 1\naugment " + changes.replace(",", " ") + "\ninput x 1x28x28\nflatten\nlogits = linear 10\n")
    expect(bits("c.safetensors") == changed, "the model's text says otherwise")
    expect(bits("c.safetensors", "--augment", "none") == plain, "the option does not take the place of the text")
    write(folder, "small.koine", "koine 1\ninput x 1x28x28\nflatten\nlogits = linear 10\n")
    bits("d.safetensors", "--augment", changes, steps="2")
    expect(bits("d.safetensors", "--augment", changes, "--resume", "d.safetensors") == changed, "resumed otherwise")
    koine("train", "small.koine", "--data", "digits:test", "--batch", "8", "--steps", "5", "--resume", "d.safetensors",
          "--oversample", folder=folder).needs(0, err=("trained with augment flip,", "now it is none", "trained with oversample no"))
    koine("train", "small.koine", "--data", "wind", "--class-weights", "balanced", folder=folder).needs(1, err="a class for each")
    koine("train", "small.koine", "--data", "digits", "--class-weights", "ballanced", folder=folder).needs(2, err="balanced or none")
    for words, complaint in (("flop", "expected flip, crop, shift"), ("crop", "an integer above 0"), ("crop=2.5", "an integer"),
                             ("flip=1", "takes no number"), ("noise=0", "number above 0"), ("noise=x", "number above 0"), ("mix-up", "number above 0")):
        koine("train", "small.koine", "--data", "digits", "--augment", words, folder=folder).needs(2, err=complaint)
    koine("train", "wind", "--data", "wind", "--augment", "flip", "--steps", "1", folder=folder).needs(1, err="expected float32 images")
    koine("train", "wind", "--data", "wind", "--augment", "mix-up=1", "--steps", "1", folder=folder).needs(
        1, err="mix-up and cut-mix need one class per sample")
    koine("train", "wind", "--data", "wind", "--oversample", "--steps", "1", folder=folder).needs(
        1, err="one class per sample")
    koine("train", "lenet", "--data", "digits", "--oversample", "--no-shuffle", folder=folder).needs(2, err="omit one of them")
    koine("train", "lenet", "--data", "digits", "--workers", "17", folder=folder).needs(2, err="at most 16")


@case
def small_classes_may_count_more(folder):
    """The inputs say nothing about the class, and one class is nine times as frequent: the bias shows the class weights."""
    write(folder, "some.koine", "koine 1\ninput x 1\nlogits = linear 2\n")
    write_npy(os.path.join(folder, "x.npy"), "<f4", (100, 1), [0] * 100)
    write_npy(os.path.join(folder, "y.npy"), "<i8", (100,), [int(i % 10 == 0) for i in range(100)])
    for option, share in (((), 0.1), (("--class-weights", "balanced"), 0.5), (("--oversample",), 0.5)):
        koine("train", "some.koine", "--data", "npy:x.npy,y.npy", "--epochs", "80", "--batch", "100", "--lr", "0.1",
              "--overwrite", *option, folder=folder).needs(0)
        row = koine("eval", "some.safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
        # Of the mean cross-entropy of samples, nine in ten of which are of one class.
        wanted = -0.9 * math.log(1 - share) - 0.1 * math.log(share)
        expect(abs(row["loss"] - wanted) < 0.02, f"{option}: found {row}, expected a loss of {wanted}")


@case
def text_is_learnt_and_written(folder):
    walk(folder, err="7 tokens: \\nabcdfé", out=("validation loss 0.", " nats per character, accuracy "))
    found = koine("generate", "walk.safetensors", "--prompt", "cd", "--length", "12", "--temperature", "0",
                  folder=folder).needs(0)
    expect(found.out == "cdéf\nabcdéf\nab\n", f"it wrote {found.out!r}")
    row = koine("generate", "walk.safetensors", "--length", "7", "--temperature", "0", "--json", folder=folder).objects(
        "prompt", "text")[0]
    expect(row == {"prompt": "", "text": "abcdéf\n"}, f"found {row}")
    first, again, other = (koine("generate", "walk.safetensors", "--temperature", "3", "--seed", seed, folder=folder).out
                           for seed in ("5", "5", "6"))
    expect(first == again != other, "the seed does not decide")
    expect(len(first) == 301 and set(first) <= set(LINE), f"it wrote {first!r}")
    # With one candidate the likeliest token is drawn at any temperature; a limit beyond the vocabulary changes nothing.
    likeliest = koine("generate", "walk.safetensors", "--length", "20", "--temperature", "0", folder=folder).out
    for alone in (("--top-k", "1"), ("--top-p", "0.001")):
        koine("generate", "walk.safetensors", "--length", "20", "--temperature", "3", *alone, folder=folder).needs(
            0, out=likeliest)
    whole = koine("generate", "walk.safetensors", "--temperature", "3", "--seed", "7", folder=folder).out
    for all_of in (("--top-k", "1000"), ("--top-p", "1")):
        koine("generate", "walk.safetensors", "--temperature", "3", "--seed", "7", *all_of, folder=folder).needs(0, out=whole)
    few = koine("generate", "walk.safetensors", "--temperature", "3", "--seed", "7", "--top-k", "2", folder=folder).out
    expect(few not in (whole, likeliest), "two to draw from are neither one nor all")
    koine("generate", "lstm", "--top-k", "0").needs(2, err="--top-k is 0")
    koine("generate", "lstm", "--top-p", "1.5").needs(2, err="--top-p is 1.5")
    koine("generate", "walk.safetensors", "--prompt", "axb", folder=folder).needs(1, err="the prompt has 'xb")
    # Another text is read with the tokens of the first.
    write(folder, "other.txt", "dédédédé" * 20)
    row = koine("eval", "walk.safetensors", "--data", "text:other.txt", "--json", folder=folder).objects()[0]
    expect(row["accuracy"] < 0.9, f"found {row}")
    write(folder, "other.txt", "abz" * 60)
    koine("eval", "walk.safetensors", "--data", "text:other.txt", folder=folder).needs(
        1, err="U+007A, which is not among the 7")


@case
def signs_that_are_learnt_travel_along(folder):
    write(folder, "walk.koine", WALK)
    write(folder, "walk.txt", "abab " * 200)
    koine("train", "walk.koine", "--data", "text:walk.txt,vocabulary=8", "--overwrite", "--epochs", "30", "--lr", "0.03", "--batch", "8",
          folder=folder).needs(0, err="6 tokens:   a b ab abab  abab", out=" nats per token, accuracy ")
    found = koine("generate", "walk.safetensors", "--prompt", "abab", "--length", "3", "--temperature", "0",
                  folder=folder).needs(0)
    expect(found.out == "abab abab abab abab\n", f"it wrote {found.out!r}")
    koine("generate", "walk.safetensors", "--prompt", "abx", folder=folder).needs(1, err="the prompt has 'x")
    koine("eval", "walk.safetensors", "--data", "text:walk.txt", folder=folder).needs(0, out=" nats per token")


@case
def bytes_are_written(folder):
    write(folder, "bytes.koine", WALK.replace("walk", "bytes").replace("8 8", "256 8").replace("linear 8", "linear 256"))
    with open(os.path.join(folder, "raw"), "wb") as file:
        file.write(bytes([7, 255, 0, 9]) * 60)
    koine("train", "bytes.koine", "--data", "text:raw,bytes", "--epochs", "20", "--lr", "0.03", folder=folder).needs(
        0, out="nats per byte")
    koine("eval", "bytes.safetensors", "--data", "text:raw", folder=folder).needs(0, out="nats per byte")


# Attention over the past, learnt positions, and a window shorter than the text.
ATTEND = """koine 1
input x 6 int32
position_embedding = parameter 6x8 init=normal:1
token_embedding = embedding @x 8 8
seen = add @token_embedding @position_embedding
linear 24
attention heads=2 causal=1
add @ @seen
logits = linear 8
"""


@case
def a_sign_at_a_time_or_all_at_once(folder):
    write(folder, "attend.koine", ATTEND)
    write(folder, "walk.txt", LINE * 30)
    koine("train", "attend.koine", "--data", "text:walk.txt", "--steps", "9", folder=folder).needs(0)
    text = koine("generate", "attend.safetensors", "--prompt", "c", "--length", "9", "--temperature", "0",
                 folder=folder).needs(0).out
    for known in range(2, 9):  # what it wrote as the prompt of the rest
        found = koine("generate", "attend.safetensors", "--prompt", text[:known], "--length", str(10 - known),
                      "--temperature", "0", folder=folder).needs(0)
        expect(found.out == text, f"from {known} signs on it wrote {found.out!r}, and {text!r} from one")


@case
def what_cannot_write(folder):
    koine("generate").needs(2, err="generate needs a saved model")
    koine("generate", "lstm", folder=folder).needs(1, err="has no weights")
    koine("generate", "lstm", "--length", "0", folder=folder).needs(2, err="--length is 0")
    koine("generate", "lstm", "--temperature=-1", folder=folder).needs(2, err="at least 0")
    koine("train", "wind", "--data", "wind", "--steps", "1", folder=folder).needs(0)
    koine("generate", "wind.safetensors", folder=folder).needs(1, err="has no vocabulary")


@case
def too_many_signs(folder):
    write(folder, "walk.koine", WALK)
    write(folder, "many.txt", "abcdefghijklmnopqrstuvwxyz" * 10)
    koine("train", "walk.koine", "--data", "text:many.txt", folder=folder).needs(1, err="has 26 classes")


run_cases()
