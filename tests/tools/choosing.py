"""Several devices compared: --device auto and koine bench-crossover.

usage: choosing.py KOINE HOUSE_TESTS
"""
import os
import re
import xml.etree.ElementTree as xml

from koine import case, expect, koine, problem, run_cases, write


def seen(environment):
    found = koine("devices", "--json", environment=environment)
    return [one for one in found.objects() if one["usable"]] if found.status == 0 else []


def choose_devices():
    """An environment with two devices, and these: PoCL shows its processor twice by names that depend on its age."""
    for names in ("pthread basic", "cpu cpu-minimal"):
        usable = seen({"POCL_DEVICES": names})
        if len(usable) > 1:
            return {"POCL_DEVICES": names}, usable
    return {}, seen({})


TWICE, USABLE = choose_devices()


def devices():
    return USABLE


def chosen(result, what):
    """The index of the chosen device; checks the line about the choice."""
    usable = devices()
    said = [line for line in result.err.splitlines() if line.startswith("auto: ")]
    expect(len(said) == 1, f"expected one line about the choice: {result}")
    if len(usable) == 1:
        expect(f"device {usable[0]['index']} ({usable[0]['name']}) is the only usable device" in said[0], f"found {said}")
        return usable[0]["index"]
    expect(said[0].startswith(f"auto: {what} takes "), f"found {said}")
    times = {int(index): float(ms) for ms, index in re.findall(r"([\d.e+-]+) ms on (\d+) \(", said[0])}
    taken = re.search(r"; using device (\d+), ([\d.e+-]+) times as fast as the next$", said[0])
    expect(taken and sorted(times) == sorted(one["index"] for one in usable), f"found {said}")
    best, next_best = sorted(times.values())[:2]
    expect(times[int(taken[1])] == best and abs(float(taken[2]) * best / next_best - 1) < 0.02, f"found {said}")
    return int(taken[1])


@case
def auto_of_each_command(folder):
    found = koine("train", *problem(folder), "--steps", "3", "--batch", "32", "--device", "auto", folder=folder,
                  environment=TWICE).needs(0)
    index = chosen(found, "a training step of 32 samples, transfers included,")
    name = next(one["name"] for one in devices() if one["index"] == index)
    expect(f", on {name}\n" in found.err, f"another device than the one chosen: {found}")
    chosen(koine("eval", "tiny.safetensors", "--data", "npy:x.npy,y.npy", "--batch", "40", "--device", "auto",
                 folder=folder, environment=TWICE).needs(0, out="loss "),
           "evaluating a batch of 40 samples, transfers included,")
    chosen(koine("infer", "tiny.safetensors", "--input", "x.npy", "--output", "z.npy", "--device", "auto",
                 folder=folder, environment=TWICE).needs(0), "a batch of 100 samples, transfers included,")
    found = koine("bench", "tiny.koine", "--batch", "8", "--seconds", "0", "--json", "--device", "auto", folder=folder,
                  environment=TWICE).needs(0)
    index = chosen(found, "a training step of 8 samples, transfers included,")
    expect(found.objects()[0]["device"] == next(one["name"] for one in devices() if one["index"] == index), f"{found}")


@case
def auto_from_the_environment_and_in_silence(folder):
    problem(folder)
    arguments = ("bench", "tiny.koine", "--mode", "infer", "--batch", "8", "--seconds", "0")
    chosen(koine(*arguments, folder=folder, environment={**TWICE, "KOINE_DEVICE": "auto"}).needs(0),
           "a batch of 8 samples, transfers included,")
    koine(*arguments, "--quiet", "--device", "auto", folder=folder, environment=TWICE).needs(0, err="")
    koine(*arguments, "--device", "0", folder=folder, environment={**TWICE, "KOINE_DEVICE": "auto"}).needs(0, err="")
    koine("devices", "--device", "auto", environment=TWICE).needs(0, out="selected by default")


@case
def auto_where_a_batch_does_not_fit(folder):
    arguments = ("train", *problem(folder), "--steps", "1", "--batch", "100", "--device", "auto", "--memory")
    koine(*arguments, "1kB", folder=folder, environment=TWICE).needs(1, out="", err="even with a batch of 1")
    half = max(koine("plan", "tiny.koine", "--batch", "50", "--json", "--device", str(one["index"]), folder=folder,
                     environment=TWICE).needs(0).objects()[0]["peak_bytes"] for one in devices())
    found = koine(*arguments, str(half), folder=folder, environment=TWICE).needs(0, err="the gradients of parts are added")
    for one in devices() if len(devices()) > 1 else []:
        expect(f"auto: device {one['index']} ({one['name']}) is left out" in found.err, f"{found}")


# ---- layers on different devices


@case
def layers_pinned_to_a_device(folder):
    problem(folder)
    first, second = (str(devices()[i]["index"]) for i in (0, -1))
    tiny = ("tiny.koine", "--device", first, "--pin", f"linear*={second}")
    found = koine("plan", *tiny, "--json", folder=folder, environment=TWICE).needs(
        0, err=f"pinned to '{second}': {devices()[-1]['name']}").objects()[0]
    expect(found["devices"] == 2 and found["transfers"] >= 2 and found["transfer_bytes"] > 0, f"found {found}")
    text = koine("plan", *tiny, folder=folder, environment=TWICE).needs(
        0, out=("device main: ", f"device {second}: ", "send linear1", "transfers between devices")).out
    expect(f" to {second} " in text and " from main " in text, f"found {text}")
    koine("plan", *tiny, "--dot", folder=folder, environment=TWICE).needs(0, out=f" on {second}\\n")
    koine("train", *tiny, "--data", "npy:x.npy,y.npy", "--steps", "3", "--quiet", "--trace", "t.json", folder=folder,
          environment=TWICE).needs(0)
    with open(os.path.join(folder, "t.json"), encoding="utf-8") as file:
        text = file.read()
    expect(f"compute queue of {second}" in text and text.count('"name": "download"') >= 6, "no transfers in the trace")


@case
def a_pinned_training_and_its_file(folder):
    """The same device twice: the same numbers. The text of a model may say it too, and another --pin goes before it."""
    problem(folder)
    index = str(devices()[0]["index"])
    with open(os.path.join(folder, "tiny.koine"), encoding="utf-8") as file:
        text = file.read()
    write(folder, "text.koine", text.replace("linear 16", f"linear 16 device={index}"))
    losses = {}
    for name, model, pin in (("one", "tiny.koine", ()), ("pinned", "tiny.koine", ("--pin", f"relu*={index},linear*={index}")),
                             ("text", "text.koine", ()), ("unpinned", "text.koine", ("--pin", "*=main"))):
        where = ("--device", index, "--quiet")
        koine("train", model, "--data", "npy:x.npy,y.npy", "--steps", "4", "--save", name + ".safetensors", *where, *pin,
              folder=folder, environment=TWICE).needs(0, err="")
        losses[name] = koine("eval", name + ".safetensors", "--data", "npy:x.npy,y.npy", "--json", *where, *pin,
                             folder=folder, environment=TWICE).needs(0, err="").objects()[0]["loss"]
    expect(len(set(losses.values())) == 1, f"found {losses}")


@case
def pins_that_make_no_sense(folder):
    problem(folder)
    for pin in ("linear", "linear=", "=0", "linear*=0,"):
        koine("plan", "tiny.koine", "--pin", pin, folder=folder).needs(2, out="", err="expected PATTERN=DEVICE")
    koine("plan", "tiny.koine", "--pin", "conv*=0", folder=folder).needs(1, out="", err="'tiny' has no layer of that name")
    koine("plan", "tiny.koine", "--pin", "linear*=nowhere", folder=folder).needs(1, out="", err="device 'nowhere' is named by a pin")


# ---- crossover

KEYS = "operation size math index device median_ms gflops fastest".split()


@case
def crossover(folder):
    usable = devices()
    found = koine("bench-crossover", "--operators", "train,matmul", "--sizes", "3", "--seconds", "0", "--json", "--plot",
                  "c.svg", folder=folder, environment=TWICE).needs(0).objects(*KEYS)
    expect({one["operation"] for one in found} == {"matmul", "train"}, f"found {found}")
    for operation, first in (("matmul", 16), ("train", 1)):
        rows = [one for one in found if one["operation"] == operation]
        # A device that is slow on this machine is dropped, but each is tried at the smallest size.
        expect([one["index"] for one in rows if one["size"] == first] == [one["index"] for one in usable], f"found {rows}")
        expect({one["size"] for one in rows} <= {first, 2 * first, 4 * first}, f"found {rows}")
        leader = None
        for size in sorted({one["size"] for one in rows}):
            here = [one for one in rows if one["size"] == size]
            times = {one["index"]: one["median_ms"] for one in here if one["median_ms"] is not None}
            fastest = [one["index"] for one in here if one["fastest"]]
            best = min(times, key=times.get)
            expect(all(ms > 0 for ms in times.values()) and len(fastest) == 1, f"found {here}")
            expect(fastest[0] == best or (fastest[0] == leader and times[best] > 0.949 * times[leader]), f"found {here}")
            leader = fastest[0]
    products = [one for one in found if one["operation"] == "matmul" and one["median_ms"]]
    expect(all(abs(one["gflops"] * one["median_ms"] * 1e6 / (2 * one["size"] ** 3) - 1) < 0.01 for one in products),
           f"found {products}")
    plot = xml.parse(os.path.join(folder, "c.svg")).getroot()
    texts = ["".join(text.itertext()) for text in plot.iter("{http://www.w3.org/2000/svg}text")]
    expect(all(f"{one['index']}: {one['name']}" in texts for one in usable), f"found {texts}")
    lines = list(plot.iter("{http://www.w3.org/2000/svg}path"))
    expect(len(lines) == 2 * len(usable) and all(line.get("d").startswith("M") for line in lines), "lines are missing")


@case
def crossover_as_a_table(folder):
    text = koine("bench-crossover", "--operators", "conv2d", "--sizes", "2", "--seconds", "0", "--quiet",
                 environment=TWICE).needs(0, out=("convolution", "fastest: device "), err="").out
    rows = [line.split() for line in text.splitlines() if re.match(r" +(8|16) ", line)]
    expect([row[0] for row in rows] in (["8", "16"], ["8"]), f"found {text}")
    expect(all(len(row) == len(devices()) + 2 for row in rows), f"found {text}")
    koine("bench-crossover", "--plot", "nowhere/a.svg", folder=folder).needs(1, out="", err="'nowhere/a.svg' cannot be")


run_cases()
