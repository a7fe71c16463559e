"""The output of the commands: JSON with exactly its fields, arrays, plans, times; and what a terminal shows.

usage: results.py KOINE HOUSE_TESTS [COUNT_BUFFERS_LIBRARY]
"""
import fcntl
import gzip
import math
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import xml.etree.ElementTree

from koine import CLASSES, ENVIRONMENT, KOINE, SAMPLES, TINY, WIDTH, Skipped
from koine import bytes_of, case, expect, koine, numbers_of, problem, read_npy, run_cases, strict, train, write, write_npy

COUNT_BUFFERS = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
DEVICE_KEYS = ("index platform_index device_index name type platform version driver usable problem identity "
               "compute_units memory_bytes largest_block_bytes local_bytes shares_memory embedded chosen").split()
PLAN_KEYS = ("model mode math batch device peak_bytes state_bytes scratch_bytes scratch_bound_bytes kept_bytes device_bytes "
             "steps kernels conversions devices transfers transfer_bytes recomputed moment_bytes exchange_bytes host_bytes staging_bytes gflop").split()
BENCH_KEYS = ("case mode math precision batch device median_ms best_ms p99_ms per_s gflops first_s loss kernels plan_bytes "
              "rss_base_bytes rss_peak_bytes n").split()

# ---- devices, models, verify


@case
def devices(folder):
    found = koine("devices", "--json").needs(0, err="").objects(*DEVICE_KEYS)
    chosen = [device for device in found if device["chosen"]]
    expect(len(chosen) == 1 and chosen[0]["usable"] and not chosen[0]["problem"], f"chosen: {chosen}")
    expect(all(device["usable"] or device["problem"] for device in found), f"found {found}")
    text = koine("devices").needs(0, out=(chosen[0]["name"], "selected by default"), err="").out
    for word in (str(chosen[0]["index"]), chosen[0]["name"], chosen[0]["type"].lower(),
                 f"{chosen[0]['platform_index']}:{chosen[0]['device_index']}"):
        koine("devices", "--device", word).needs(0, out="selected, as requested", err="")
    expect(text.count("units") == sum(device["usable"] for device in found), f"found {text}")


@case
def models(folder):
    found = koine("models", "--json").needs(0, err="").objects("name", "about", "parameters", "flops", "loss", "settings")
    known = {model["name"]: model["parameters"] for model in found}
    expect(known["linear"] == 7850 and known["mlp"] == 669706 and known["lenet"] == 1199882, f"found {known}")
    flops = {model["name"]: model["flops"] for model in found}
    expect(flops["linear"] == 2 * 7840 + 10 and all(flops.values()), f"found {flops}")
    text = koine("models").needs(0, err="").out
    expect([line.split()[0] for line in text.splitlines()] == list(known), f"found {text}")
    expect("lenet         1x28x28     1.20 M parameters  Classifies small grey images: " in text, f"found {text}")
    expect(all(len(model["about"]) in range(20, 85) and model["about"].endswith(".") for model in found), f"found {found}")
    koine("models", "lenet").needs(0, err="", out=("1199882 parameters, ", "MFLOP/sample, loss cross-entropy",
                                                   "x float32 (batch,1,28,28)", "logits float32 (batch,10)",
                                                   "channels=1, size=28, classes=10"))
    koine("models", "lenet", "--json").needs(0, err="").objects("name", "about", "parameters", "flops", "loss", "settings")


@case
def sizes_behind_the_name_of_a_model(folder):
    found = koine("models", "gpt,layers=2,width=64,heads=2", "--json").needs(0, err="").objects()[0]
    expect(found["name"] == "gpt" and found["parameters"] == 2 * (12 * 64 * 64 + 13 * 64) + (128 + 96 + 96 + 2) * 64
           and found["settings"] == {"window": 128, "vocabulary": 96, "layers": 2, "width": 64, "heads": 2}, f"found {found}")
    koine("plan", "lenet,classes=3", "--batch", "2").needs(0, err="", out="3")
    koine("plan", "lenet,classes=3", "--set", "classes=4", "--batch", "2").needs(0, err="")
    koine("train", "mlp,width=16,size=12", "--data", "digits:test", "--set", "size=28", "--steps", "1", "--quiet",
          folder=folder).needs(0, err="")
    text = koine("models", "mlp.safetensors", "--text", folder=folder).needs(0, err="").out
    expect("set size 28\nset classes 10\nset width 16\n" in text, text)
    koine("models", "gpt,layer=2").needs(1, out="", err="gpt,layer=2: no setting is called 'layer'; settings: window=128, "
                                         "vocabulary=96, layers=6, width=384, heads=6; did you mean 'layers'?")
    for name, what in (("gpt,", "''"), ("gpt,layers", "'layers'"), ("gpt,layers=2,=3", "'=3'"),
                       ("gpt,layers=2x", "'layers=2x'"), ("gpt,layers=99999999999999999999", "'layers=9")):
        koine("models", name).needs(1, out="", err=(f"{name}: found {what}", "expected NAME=NUMBER, separated by commas"))
    write(folder, "gpt,layers=2", "koine 1\nmodel own\ninput x 4\nlinear 2\n")  # an existing path wins
    koine("models", "gpt,layers=2", folder=folder).needs(0, err="", out="own: 10 parameters")
    koine("models", "gtp,layers=2").needs(1, out="", err="did you mean 'gpt'?")


@case
def a_model_as_text(folder):
    text = koine("models", "mlp", "--text").needs(0, err="", out="koine 1\n").out
    path = write(folder, "own.koine", text)
    expect(koine("models", path, "--text").out == text, "printing what was printed gives another text")
    koine("models", "--grammar").needs(0, err="", out=("# ", "repeat", "conv", "linear", "freeze"))


@case
def cases_are_counted(folder):
    found = koine("verify", "--count", "--json").needs(0, err="").objects("name", "cases")
    known = {operator["name"]: operator["cases"] for operator in found}
    expect(len(known) == len(found) > 100 and known["conv2d"] > 3, f"found {known}")
    expect(all(count for name, count in known.items()), f"found {known}")
    text = koine("verify", "--count").needs(0, err="").out
    expect(f"{sum(known.values())} cases of {len(known)} operators" == text.splitlines()[-1], f"found {text}")


@case
def verify(folder):
    found = koine("verify", "--operators", "relu,add", "--json").needs(0).objects(
        "name", "right", "error", "seconds", "message")
    expect(all(one["right"] and one["error"] <= 1 and not one["message"] for one in found), f"found {found}")
    expect(any(one["name"].startswith("relu#") for one in found), f"found {found}")
    koine("verify", "--operators", "relu", "--smoke", "--quiet").needs(0, out=" right, 0 wrong", err="")
    lines = [strict(line) for line in koine("verify", "--operators", "relu,add", "--smoke", "--json", "--name-operators", "--quiet").needs(0).out.splitlines()]
    names = [line["operator"] for line in lines if "operator" in line]
    expect(sorted(names) == ["add", "relu"] and "operator" in lines[0], f"found {lines}")
    name = ""
    for line in lines:
        name = line.get("operator", name)
        expect("operator" in line or line["name"].startswith(name + "#"), f"{line} is below {name}")
    koine("verify", "--operators", "relu", "--smoke", "--name-operators").needs(0, out="checking relu\n")
    text = koine("verify", "--operators", "add", "--quick", "--verbose").needs(0, out="right add#").out
    expect(len(text.splitlines()) < len(found), f"found {text}")
    quick, smallest = ([strict(line)["name"].split(" ", 1)[1] for line in koine("verify", "--operators", "sum", way, "--json", "--quiet").needs(0).out.splitlines()]
                       for way in ("--quick", "--smoke"))
    expect(len(set(quick)) == len(quick) < len(smallest) and set(quick) == set(smallest), f"found {quick} of {smallest}")


# ---- plan


@case
def plan(folder):
    problem(folder)
    found = {}
    for mode in ("train", "infer"):
        found[mode] = koine("plan", "tiny.koine", "--batch", "8", "--mode", mode, "--json", folder=folder).needs(
            0, err="").objects(*PLAN_KEYS)[0]
        one = found[mode]
        expect((one["model"], one["mode"], one["math"], one["batch"]) == ("tiny", mode, "fast", 8), f"found {one}")
        expect(one["peak_bytes"] >= one["state_bytes"] + one["scratch_bytes"] > 0, f"found {one}")
        expect(one["scratch_bytes"] >= one["scratch_bound_bytes"] > 0 and one["steps"] >= one["kernels"] > 0,
               f"found {one}")
        expect(one["peak_bytes"] <= one["device_bytes"], f"found {one}")
        text = koine("plan", "tiny.koine", "--batch", "8", "--mode", mode, folder=folder).needs(
            0, err="", out=("batch = 8", "matmul", "peak", "of the", "fast math")).out
        expect(re.search(rf"peak\s+{one['peak_bytes']} bytes", text), f"another peak than in JSON: {text}")
    koine("plan", "tiny.koine", "--math", "exact", folder=folder).needs(0, err="", out="exact math")
    # Forward: 8 samples through 6 x 16 and 16 x 3, two operations each, and the rest.
    expect(2 * 8 * (96 + 48) <= found["infer"]["gflop"] * 1e9 < 3 * 8 * (96 + 48), f"found {found['infer']}")
    expect(found["train"]["peak_bytes"] > found["infer"]["peak_bytes"], f"found {found}")
    sgd = koine("plan", "tiny.koine", "--batch", "8", "--optimizer", "sgd", "--json", folder=folder).objects()[0]
    expect(sgd["state_bytes"] < found["train"]["state_bytes"], "adam keeps two moments, and sgd one")


@case
def plan_of_a_batch_that_does_not_fit(folder):
    problem(folder)
    peak = koine("plan", "tiny.koine", "--batch", "50", "--json", folder=folder).objects()[0]["peak_bytes"]
    found = koine("plan", "tiny.koine", "--batch", "1000", "--memory", str(peak), "--json", folder=folder).needs(
        0, err=("a batch of 1000 does not fit", f"only {peak} are allowed", "this is the plan of ")).objects(*PLAN_KEYS)[0]
    batch = found["batch"]
    expect(50 <= batch < 1000 and found["peak_bytes"] <= peak, f"found {found}")
    koine("plan", "tiny.koine", "--batch", str(batch), "--memory", str(peak), folder=folder).needs(0, err="")
    koine("plan", "tiny.koine", "--batch", str(batch + 1), "--memory", str(peak), folder=folder).needs(
        0, err=f"this is the plan of {batch}, the largest that does")
    koine("plan", "tiny.koine", "--memory", "100B", folder=folder).needs(1, out="", err="even with a batch of 1")


@case
def a_plan_that_computes_values_twice(folder):
    layers = "\n".join(["linear 64", "tanh"] * 12)
    write(folder, "deep.koine", f"koine 1\ninput x 64\n{layers}\nlogits = linear 3\n")
    plan = ("plan", "deep.koine", "--batch", "512")
    whole = koine(*plan, "--json", folder=folder).objects(*PLAN_KEYS)[0]
    least = koine(*plan, "--recompute", "--json", folder=folder).objects(*PLAN_KEYS)[0]
    expect(whole["recomputed"] == 0 < least["recomputed"], f"{whole} {least}")
    expect(least["scratch_bytes"] < 0.7 * whole["scratch_bytes"] and least["gflop"] > whole["gflop"], f"{whole} {least}")
    budget = (whole["peak_bytes"] + least["peak_bytes"]) // 2
    found = koine(*plan, "--memory", str(budget), folder=folder).needs(
        0, err="", out=("scratch at its peak, step ", "activations", "the cheapest first: done",
                        " more FLOP"))
    expect(int(re.search(r"peak +(\d+) bytes", found.out).group(1)) <= budget, f"{found}")
    koine(*plan, "--memory", str(least["state_bytes"]), folder=folder).needs(
        1, out="", err=("even with a batch of 1", "even with recomputation"))


@case
def kept_memory_is_named_by_its_first_user(folder):
    found = koine("plan", "lenet", "--mode", "infer", "--batch", "1", folder=folder).needs(0)
    if "matmul/wide.cl:kn_matmul_pack" in found.out:  # on devices with wide vectors: packed weights
        expect(re.search(r"workspace +\d{7,} bytes  matmul linear1\.product", found.out), found.out)


@case
def plan_beyond_the_indices_of_kernels(folder):
    koine("plan", "lenet", "--mode", "infer", "--batch", "2000000000", "--memory", "50MB", "--json").needs(
        0, err="a batch of 2000000000 does not fit").objects(*PLAN_KEYS)


if COUNT_BUFFERS:
    def counted(folder, *arguments):
        """The number of allocated buffers, and the largest number of bytes allocated at a time."""
        path = os.path.join(folder, "count")
        koine(*arguments, folder=folder, environment={"LD_PRELOAD": COUNT_BUFFERS, "COUNT_BUFFERS": path}).needs(0)
        return [int(word) for word in bytes_of(path).split()]

    @case
    def planned_memory_is_what_buffers_have(folder):
        for model, *more in (["lenet"], ["lenet", "--recompute"], ["mlp", "--kernels", "gpu", "--precision", "bfloat16"]):
            words = ["bench", model, "--batch", "96", "--mode", "train", "--seconds", "0", "--json", *more]
            planned = koine(*words, folder=folder).needs(0).objects()[0]["plan_bytes"]
            peak = counted(folder, *words)[1]
            expect(abs(peak - planned) <= 0.02 * planned, f"{planned} bytes are planned, and buffers have {peak}: {model} {more}")

    @case
    def plan_allocates_nothing(folder):
        problem(folder)

        def buffers(*arguments):
            return counted(folder, *arguments)[0]
        koine("devices", "--device", "0")
        limited = ("plan", "tiny.koine", "--device", "0", "--batch", "100000", "--memory", "1MB")
        for words in (limited[:4], limited):  # trials of their kernels have buffers
            koine(*words, folder=folder)
        opened = buffers("devices", "--device", "0")
        expect(buffers(*limited[:4]) == opened, "more buffers than to open the device")
        expect(buffers(*limited) == opened, "looking for a batch that fits takes buffers")
        expect(buffers("train", "tiny.koine", "--data", "npy:x.npy,y.npy", "--device", "0", "--steps", "1") > opened,
               "no buffers are counted at all")


@case
def plan_as_a_drawing(folder):
    problem(folder)
    steps = koine("plan", "tiny.koine", "--batch", "8", "--json", folder=folder).objects(*PLAN_KEYS)[0]["steps"]
    dot = koine("plan", "tiny.koine", "--batch", "8", "--dot", folder=folder).needs(0, err="", out="digraph plan {").out
    edges = [(int(a), int(b)) for a, b in re.findall(r"^  s(\d+) -> s(\d+)$", dot, flags=re.M)]
    names = re.findall(r'^  s(\d+) \[label="\1  ([^"]*)"', dot, flags=re.M)
    expect([int(name) for name, _ in names] == list(range(steps)), f"found {dot}")
    expect(all(a < b for a, b in edges) and len(set(edges)) == len(edges), f"found {edges}")
    # The backward pass reads results of the forward pass, and the loss has no reader.
    products = [i for i, (_, label) in enumerate(names) if label.startswith("matmul")]
    expect(len(products) >= 4 and any(a == products[0] for a, _ in edges), f"found {dot}")
    readers = {b for _, b in edges}
    expect(sum(i not in readers for i in range(steps)) <= 2, f"steps that read no step: {dot}")
    svg = koine("plan", "tiny.koine", "--batch", "8", "--svg", folder=folder).needs(0, err="").out
    root = xml.etree.ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    expect(root.tag == space + "svg" and len(root.findall(space + "g")) == steps, f"found {svg}")
    expect(len(root.findall(space + "path")) == len(edges), f"{len(edges)} edges, found {svg}")
    boxes = [group.find(space + "rect").attrib for group in root.findall(space + "g")]
    places = {(box["x"], box["y"]) for box in boxes}
    expect(len(places) == steps, "boxes lie on one another")
    expect(all(int(boxes[a]["y"]) < int(boxes[b]["y"]) for a, b in edges), "an arrow goes up")
    koine("plan", "tiny.koine", "--mode", "infer", "--dot", folder=folder).needs(0, out="->")
    koine("plan", "tiny.koine", "--dot", "--svg", folder=folder).needs(2, out="", err="give one of --dot, --svg")


# ---- eval and infer


@case
def evaluated(folder):
    end = train(folder, "--epochs", "3", "--batch", "32", "--validation", "0.2", "--json").objects()[0]
    keys = ("model", "data", "samples", "loss", "accuracy", "samples_per_s", "top5", "perplexity", "classes", "confusion")
    data = ["--data", "npy:x.npy,y.npy"]
    whole = koine("eval", "tiny.safetensors", *data, "--json", folder=folder).needs(0, err="").objects(*keys)[0]
    expect((whole["model"], whole["data"], whole["samples"]) == ("tiny", data[1], SAMPLES), f"found {whole}")
    for batch in ("1", "7", "100", "1000"):
        other = koine("eval", "tiny.safetensors", *data, "--json", "--batch", batch, folder=folder).objects(*keys)[0]
        expect(other["samples"] == SAMPLES and math.isclose(other["loss"], whole["loss"], rel_tol=1e-5) and
               other["accuracy"] == whole["accuracy"], f"with batches of {batch}: {other}, not {whole}")
    koine("eval", "tiny.safetensors", *data, folder=folder).needs(0, err="", out=(
        f"loss {whole['loss']:.4f}, accuracy {100 * whole['accuracy']:.2f}% on 100 samples of npy:"))
    small = koine("eval", "tiny.safetensors", *data, "--batch", "100", "--memory", "8kB", "--json", folder=folder)
    small.needs(0, err="evaluation continues with ")
    expect(small.objects(*keys)[0]["accuracy"] == whole["accuracy"], f"found {small}")
    expect(end["event"] == "end", f"found {end}")


@case
def validation_is_what_eval_says(folder):
    train(folder, "--epochs", "2")
    write(folder, "linear.koine", "koine 1\nmodel own\ninput x 1x28x28\nflatten\nlogits = linear 10\n")
    end = koine("train", "linear.koine", "--data", "digits", "--steps", "3", "--json", folder=folder).objects()[0]
    found = koine("eval", "own.safetensors", "--data", "digits", "--json", folder=folder).objects()[0]
    expect(found["samples"] == 10000 and found["accuracy"] == end["accuracy"], f"{found} and {end}")
    expect(math.isclose(found["loss"], end["validation_loss"], rel_tol=1e-5), f"{found} and {end}")


@case
def computed(folder):
    train(folder, "--epochs", "20", "--batch", "10", "--lr", "0.01")
    name = os.path.join(folder, "x.npy")

    def logits(*more):
        koine("infer", "tiny.safetensors", "--input", "x.npy", "--output", "z.npy", "--overwrite", *more, folder=folder).needs(
            0, out="", err="'logits' of 100 samples written to z.npy")
        return read_npy(os.path.join(folder, "z.npy"))
    shape, numbers = logits()
    expect(shape == (SAMPLES, CLASSES), f"found {shape}")
    _, other = logits("--batch", "7")
    expect(all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) for a, b in zip(numbers, other)), "batches of 7 differ")
    logits("--batch", "100", "--memory", "1MB")
    found = koine("infer", "tiny.safetensors", "--input", "x=x.npy", "--output", "logits=w.npy", "--json", "--quiet",
                  folder=folder).needs(0, err="").objects("samples", "output", "file")
    expect(found == [{"samples": SAMPLES, "output": "logits", "file": "w.npy"}], f"found {found}")
    _, targets = read_npy(os.path.join(folder, "y.npy"))
    right = sum(max(range(CLASSES), key=lambda c: numbers[i * CLASSES + c]) == targets[i] for i in range(SAMPLES))
    evaluated = koine("eval", "tiny.safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    expect(math.isclose(right / SAMPLES, evaluated["accuracy"]), f"{right} are right, and eval says {evaluated}")
    koine("infer", "tiny.safetensors", "--input", "x.npy", "--output", "z.npy", "--overwrite", "--quiet", folder=folder).needs(
        0, out="", err="")
    expect(os.path.exists(name), "the input is gone")


@case
def bytes_mean_in_infer_what_they_mean_in_training(folder):
    """To the bit, with and without preceding numbers."""
    train(folder, "--epochs", "5")
    levels = [int(abs(number) * 255) for number in numbers_of(4 * WIDTH)]
    write_npy(os.path.join(folder, "bytes.npy"), "|u1", (4, WIDTH), levels)
    scale = struct.unpack("<f", struct.pack("<f", 1 / 255))[0]
    write_npy(os.path.join(folder, "floats.npy"), "<f4", (4, WIDTH), [level * scale for level in levels])
    found = []
    for names in (["bytes.npy"], ["floats.npy"], ["bytes.npy", "floats.npy"], ["floats.npy", "bytes.npy"]):
        koine("infer", "tiny.safetensors", *names, "--batch", "4", "--output", "z.npy", "--overwrite", folder=folder).needs(0)
        found.append(list(read_npy(os.path.join(folder, "z.npy"))[1]))
    expect(found[0] == found[1] and found[2] == found[3] == found[0] * 2, f"found {found}")


@case
def rows_and_streams(folder):
    """The same numbers as an array and as rows, from files and from standard input, in all forms that results have."""
    train(folder, "--epochs", "20", "--batch", "10", "--lr", "0.01")
    infer = ("infer", "tiny.safetensors", "--input")

    def path(name):
        return os.path.join(folder, name)
    _, x = read_npy(path("x.npy"))
    rows = [",".join(repr(number) for number in x[i:i + WIDTH]) for i in range(0, len(x), WIDTH)]
    write(folder, "plain.csv", "\n".join(rows))
    write(folder, "heading.csv", "a,b,c,d,e,f\r\n" + " \r\n".join(rows).replace(",", " , ") + "\r\n\r\n")
    koine(*infer, "x.npy", "--output", "z.npy", "--overwrite", folder=folder).needs(0)
    whole = read_npy(path("z.npy"))
    for name, source in (("plain.csv", None), ("heading.csv", None), ("-", "plain.csv"), ("-", "x.npy")):
        with open(path(source) if source else os.devnull, "rb") as given:
            koine(*infer, name, "--output", "w.npy", "--overwrite", folder=folder, given=given).needs(0, out="")
        expect(read_npy(path("w.npy")) == whole, f"{name} of {source} gave other numbers")
    logits = [whole[1][i:i + CLASSES] for i in range(0, len(whole[1]), CLASSES)]
    found = koine(*infer, "plain.csv", "--json", folder=folder).needs(0, err="")
    for i, row in enumerate(found.objects("sample", "class", "probability", "logits")):
        best = max(logits[i])
        expect(row["sample"] == i and row["class"] == str(logits[i].index(best)), f"found {row} for {logits[i]}")
        expect(math.isclose(row["probability"], 1 / sum(math.exp(n - best) for n in logits[i]), rel_tol=1e-4), f"found {row}")
        expect(struct.pack("<3f", *row["logits"]) == struct.pack("<3f", *logits[i]), f"found {row} for {logits[i]}")
    koine(*infer, "x.npy", "--output", "y.jsonl", folder=folder).needs(0, out="")
    expect(bytes_of(path("y.jsonl")).decode() == found.out, "a file of lines holds something else")
    text = koine(*infer, "x.npy", folder=folder).needs(0).out.split("\n")
    expect(len(text) == SAMPLES + 1 and re.fullmatch(r"0: \d \d+\.\d%, \d \d+\.\d%, \d \d+\.\d%", text[0]), f"found {text}")
    table = koine(*infer, "x.npy", "--output", "-", folder=folder).needs(0).out.split("\n")
    expect(table[0] == "class,probability" and table[1].split(",")[0] == text[0].split()[1], f"found {table[:2]}")
    with open(path("sent.npy"), "wb") as sent:
        koine(*infer, "x.npy", "--output", "-", "--format", "npy", folder=folder, stdout=sent).needs(0)
    expect(bytes_of(path("sent.npy")) == bytes_of(path("z.npy")), "an array that was sent is another")
    for rows, complaint in (("1,2,3,4,5\n", "line 1: expected 6 numbers, as the model reads them, found less"),
                            ("1,2,3,4,5,6,7\n", "line 1: expected 6 numbers, as the model reads them, found more"),
                            ("a,b\n1,x,3,4,5,6\n", "line 2: expected a finite number in column 2, found 'x'"),
                            ("1,nan,3,4,5,6\n", "found 'nan'"), ("a,b\n", "the input holds no samples")):
        write(folder, "bad.csv", rows)
        koine(*infer, "bad.csv", folder=folder).needs(1, out="", err=complaint)


@case
def what_infer_cannot_take(folder):
    train(folder, "--steps", "1")
    write_npy(os.path.join(folder, "flat.npy"), "<f4", (12,), [0] * 12)
    write_npy(os.path.join(folder, "none.npy"), "<f4", (0, WIDTH), [])
    for given, output, text in (
            ("flat.npy", "z.npy", "'flat.npy' is (12), but the model's input 'x' is (batch,6)"),
            ("none.npy", "z.npy", "the input holds no samples"),
            ("nothing.npy", "z.npy", 'cannot open "nothing.npy"'),
            ("tiny.koine", "z.npy", "Expected arrays, X.npy, tables, X.csv, images"),
            ("nothing.png", "z.npy", 'cannot open "nothing.png": No such file'),
            ("y=x.npy", "z.npy", "has no input 'y'; its first is 'x'"),
            ("x.npy", "probabilities=z.npy", "has no output 'probabilities'; koine models tiny.safetensors "),
            ("x.npy,x.npy", "z.npy", "fed twice"),
            ("x.npy", "nowhere/z.npy", "the folder does not exist")):
        koine("infer", "tiny.safetensors", "--input", given, "--output", output, folder=folder).needs(
            1, out="", err=text)
        expect(not os.path.exists(os.path.join(folder, "z.npy")), f"{given} gave a result")


# ---- data from files that others made


@case
def images_and_labels_as_mnist_has_them(folder):
    images, labels = 40, [i % 10 for i in range(40)]
    pixels = bytes((17 * i + 3 * (i // 784)) % 256 for i in range(images * 784))
    for part, packed in (("train", True), ("t10k", False)):
        for name, magic, sizes, data in ((f"{part}-images-idx3-ubyte", 0x803, (images, 28, 28), pixels),
                                         (f"{part}-labels-idx1-ubyte", 0x801, (images,), bytes(labels))):
            path = os.path.join(folder, name + (".gz" if packed else ""))
            with (gzip.open if packed else open)(path, "wb") as file:
                file.write(struct.pack(f">I{len(sizes)}I", magic, *sizes) + data)
    koine("train", "linear", "--data", "idx:.", "--epochs", "1", folder=folder).needs(
        0, out="accuracy", err="on 40 samples of idx:.")
    found = koine("eval", "linear.safetensors", "--data", "idx:.", "--json", folder=folder).objects()[0]
    expect(found["samples"] == images, f"found {found}")


# ---- bench


def sound(found, case_name, mode, batch):
    expect((found["case"], found["mode"], found["math"], found["batch"]) == (case_name, mode, "fast", batch),
           f"found {found}")
    expect(0 < found["best_ms"] <= found["median_ms"] <= found["p99_ms"], f"found {found}")
    expect(math.isclose(found["per_s"], batch / found["median_ms"] * 1000, rel_tol=1e-4), f"found {found}")
    expect(found["n"] >= 5 and found["first_s"] > 0 and found["gflops"] > 0, f"found {found}")
    expect(0 < found["rss_base_bytes"] < found["rss_peak_bytes"], f"found {found}")
    expect(found["kernels"] > 0 and found["plan_bytes"] > 0, f"found {found}")


@case
def bench_of_training(folder):
    problem(folder)
    begin = time.monotonic()
    found = koine("bench", "tiny.koine", "linear", "--batch", "8", "--seconds", "1", "--json", folder=folder)
    found = found.needs(0).objects(*BENCH_KEYS)
    expect(len(found) == 2 and time.monotonic() - begin >= 2, f"not a second each: {found}")
    for one, name in zip(found, ("tiny", "linear")):
        sound(one, name, "train", 8)
        expect(one["loss"] >= 0, f"found {one}")


@case
def bench_of_inference(folder):
    write(folder, "numbers.koine", TINY.replace("logits = linear 3", "linear 2\nloss mse"))
    found = koine("bench", "numbers.koine", "--batch", "16", "--mode", "infer", "--seconds", "0.2", "--json", folder=folder)
    found = found.needs(0).objects(*BENCH_KEYS)[0]
    sound(found, "tiny", "infer", 16)
    expect(found["loss"] is None, f"found {found}")


@case
def bench_of_operators(folder):
    found = koine("bench-operators", "--operators", "relu,softmax", "--seconds", "0", "--json").needs(0).objects(
        "name", "inputs", "attributes", "ms", "gflops", "gb_s", "of_limit", "bound")
    names = [operator["name"] for operator in found]
    expect({"relu", "softmax", "softmax_gradient"} <= set(names), f"found {names}")
    expect(all(operator["ms"] > 0 and operator["gb_s"] > 0 for operator in found), f"found {found}")


@case
def bench_of_products(folder):
    found = koine("bench-gemm", "--size", "32", "--k", "48", "--json").needs(0).objects(
        *BENCH_KEYS, "sizes", "times_plain_one_core", "times_plain_all_cores", "cores")[0]
    sound(found, "gemm", "infer", 1)
    expect(found["sizes"] == [32, 32, 48] and found["cores"] >= 1, f"found {found}")
    expect(math.isclose(found["gflops"], 2e-6 * 32 * 32 * 48 / found["median_ms"], rel_tol=1e-4), f"found {found}")
    expect(found["times_plain_one_core"] > 0 and found["times_plain_all_cores"] > 0, f"found {found}")


@case
def bench_of_plans(folder):
    found = koine("bench-plan", "--sizes", "2", "--json").needs(0).objects("case", "mode", "layers", "steps", "seconds",
                                                                              "passes")
    expect([row["layers"] for row in found] == [250, 500], f"found {found}")
    expect(found[0]["steps"] < found[1]["steps"], f"found {found}")
    for row in found:
        expect(len(row["passes"]) >= 10 and 0 < sum(row["passes"].values()) < row["seconds"], f"found {row}")


# ---- fractions of the device's limits

PROFILE_KEYS = ("limit_gflops", "limit_gb_s", "busy_ms", "busy_best_ms", "parts")
PART_KEYS = ["label", "kernel", "queue", "times", "ms", "best_ms", "gflops", "gb_s", "of_limit", "bound"]


def sound_profile(found):
    expect(found["limit_gflops"] > 0 and found["limit_gb_s"] > 0, f"found {found}")
    expect(0 < found["busy_best_ms"] <= found["busy_ms"] * 1.001, f"found {found}")
    expect(any(part["bound"] for part in found["parts"]), f"no part with its limit: {found}")
    for part in found["parts"]:
        expect(list(part) == PART_KEYS, f"found {part}")
        expect(0 < part["best_ms"] <= part["ms"] * 1.001 and part["times"] > 0, f"found {part}")
        math_share, memory_share = part["gflops"] / found["limit_gflops"], part["gb_s"] / found["limit_gb_s"]
        expect((part["of_limit"] is None) == (part["bound"] is None), f"found {part}")
        expect(part["bound"] in (None, "math", "memory"), f"found {part}")
        expect(part["bound"] is None or math.isclose(part["of_limit"], max(math_share, memory_share), rel_tol=1e-3),
               f"{part} of {found['limit_gflops']} GFLOP/s and {found['limit_gb_s']} GB/s")


@case
def bench_with_a_profile(folder):
    problem(folder)
    found = koine("bench", "tiny.koine", "--batch", "8", "--seconds", "0.2", "--profile", "--json", folder=folder)
    found = found.needs(0).objects(*BENCH_KEYS, *PROFILE_KEYS)[0]
    sound(found, "tiny", "train", 8)
    sound_profile(found)
    koine("bench", "tiny.koine", "--batch", "8", "--seconds", "0.2", "--profile", folder=folder).needs(
        0, out=("GFLOP/s", "of limit", "kn_matmul", "the device's limits are"))


@case
def steps_are_timed_before_they_are_profiled(folder):
    """Profiling slows steps down, so the printed times come from queues without it."""
    if not COUNT_BUFFERS:
        raise Skipped("queues are not listed in this build")
    problem(folder)
    for words in ([], ["--profile"]):
        queues = os.path.join(folder, f"queues{len(words)}")
        koine("bench", "tiny.koine", "--batch", "8", "--seconds", "0.1", *words, folder=folder,
              environment={"LD_PRELOAD": COUNT_BUFFERS, "LIST_QUEUES": queues}).needs(0)
        found = bytes_of(queues).decode()
        expect(found[0] == "t" and ("p" in found) == bool(words), f"found {found} with {words}")


@case
def plan_that_is_measured(folder):
    problem(folder)
    for mode in ("train", "infer"):
        found = koine("plan", "tiny.koine", "--batch", "8", "--mode", mode, "--measure", "--json", folder=folder)
        found = found.needs(0).objects(*PLAN_KEYS, *PROFILE_KEYS)[0]
        sound_profile(found)
        launches = sum(part["times"] for part in found["parts"] if part["queue"] == "compute" and part["kernel"])
        expect(launches <= found["steps"] + 0.01, f"{launches} launches of {found['steps']} steps: {found}")
    koine("plan", "tiny.koine", "--batch", "8", "--measure", folder=folder).needs(
        0, out=("batch = 8", "of limit", "step, as it runs", "the device's limits are"))


# ---- a terminal


def on_terminal(columns, arguments, folder, **environment):
    """standard error of koine on a terminal with so many columns, and its exit status."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:  # a bare root has no /dev/pts
        raise Skipped(f"no terminal can be made here: {error}") from error
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    child = subprocess.Popen([KOINE, *arguments], cwd=folder, env={**ENVIRONMENT, "TERM": "xterm", **environment}, stdout=-3,
                             stdin=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
    os.close(ours)
    return shown.decode(), child.wait()


@case
def progress_on_a_terminal(folder):
    # With --seconds, the time that is left is known from the first step on.
    arguments = ["train", *problem(folder, 6000), "--batch", "1", "--epochs", "2", "--validation", "0.1", "--seconds", "900"]
    for columns in (100, 40):
        shown, status = on_terminal(columns, [*arguments, "--no-cache"], folder)
        expect(status == 0, f"status {status}: {shown}")
        lines = [line for line in re.split(r"\r\n|\r\x1b\[K", shown) if line]
        bars = [line for line in lines if re.match(r"epoch \d/2 \[#*", line)]
        expect(any(line.startswith("compiling [") for line in lines), f"no progress of compiling: {shown!r}")
        expect(len(bars) >= 3, f"no bar of epochs: {shown!r}")
        expect(all(len(line) < columns for line in lines if "[" in line), f"wider than the terminal: {shown!r}")
        expect(all(re.match(r"epoch \d/2 \[[# ]+\]  (validating \d+ of \d+|loss \d+\.\d{4})(  |$)", line) for line in bars), f"cut off: {bars}")
        if columns == 100:
            expect(any(re.search(r"loss \d.*accuracy \d.*samples/s  \d+:\d\d left  [\d.]+ [kM]B$", line) for line in bars),
                   bars)
        ends = [line for line in lines if re.match(r"epoch \d/2  loss", line)]
        expect(len(ends) == 2, f"no line of an epoch stays: {shown!r}")
        rest = shown.split("\r\x1b[K")[-1]
        expect("[#" not in rest, f"a bar is left standing: {rest!r}")


@case
def no_time_left_is_told_before_steps_are_steady(folder):
    shown, status = on_terminal(100, ["train", "lenet", "--data", "digits:test", "--batch", "300", "--steps", "5"], folder)
    expect(status == 0 and " left" not in shown, f"status {status}: {shown!r}")


@case
def a_curve_at_the_end(folder):
    arguments = ["train", *problem(folder), "--batch", "10", "--epochs", "3", "--lr", "0.01"]

    def shown_with(columns, **environment):
        shown, status = on_terminal(columns, arguments, folder, **environment)
        expect(status == 0, f"status {status}: {shown}")
        return shown, [line for line in re.split(r"\r\n|\r\x1b\[K", shown) if "│" in line or "└" in line]
    utf8, plain = {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C"}
    _, lines = shown_with(80, **utf8)
    expect(len(lines) == 5 and all("\x1b[34m" in line for line in lines[:4]) and lines[4].endswith("─ 30 steps"), lines)
    shown, lines = shown_with(40, NO_COLOR="1", **utf8)
    expect(len(lines) == 5 and not any("\x1b" in line for line in lines), f"found {lines}")
    expect(all(len(line) < 40 for line in lines) and {len(line) for line in lines[:4]} == {11 + 16}, f"found {lines}")
    expect(set("".join(line[11:] for line in lines[:4])) <= set(" ▁▂▃▄▅▆▇█") and " " not in lines[3][11:], f"found {lines}")
    expect(not shown_with(20, **utf8)[1] and not shown_with(80, **plain)[1], "a curve where it cannot be shown")
    koine(*arguments, folder=folder, environment=utf8).needs(0, err="epoch 3/3")
    expect("│" not in koine(*arguments, folder=folder, environment=utf8).err, "a curve in a pipe")


@case
def no_progress_where_it_is_not_wanted(folder):
    arguments = ["train", *problem(folder), "--batch", "1", "--seconds", "0.5"]
    shown, status = on_terminal(100, [*arguments, "--quiet"], folder)
    expect((shown, status) == ("", 0), f"shown: {shown!r}")


# ---- from the start of the process to the first step; time decides nothing here


@case
def warm_start(folder):
    def first_step(model):
        log = os.path.join(folder, "log")
        if os.path.exists(log):
            os.remove(log)
        begin = time.monotonic()
        child = subprocess.Popen([KOINE, "train", model, "--data", "digits:test", "--steps", "1", "--quiet", "--log",
                                  log], cwd=folder, env=ENVIRONMENT, stdout=-3, stdin=subprocess.DEVNULL)
        while child.poll() is None and not (os.path.exists(log) and bytes_of(log)):
            time.sleep(0.005)
        taken = time.monotonic() - begin
        expect(child.wait() == 0, f"status {child.returncode}")
        return taken
    for model in ("linear", "mlp", "lenet"):
        cold, warm = first_step(model), first_step(model)
        print(f"  {model}: the first step is done {warm:.2f} s after the start ({cold:.2f} s the time before)")


run_cases()
