"""Several devices beside one another: --device auto.

usage: choosing.py KOINE HOUSE_TESTS
"""
import re

from koine import case, expect, koine, problem, run_cases

# One implementation can show its processor twice; others show what they have.
TWICE = {"POCL_DEVICES": "pthread basic"}


def devices():
    return [one for one in koine("devices", "--json", environment=TWICE).needs(0).objects() if one["usable"]]


def chosen(result, what):
    """The index of the device that was taken, and nothing else of what was said is wrong."""
    usable = devices()
    said = [line for line in result.err.splitlines() if line.startswith("auto: ")]
    expect(len(said) == 1, f"expected one line about the choice: {result}")
    if len(usable) == 1:
        expect(f"device {usable[0]['index']} ({usable[0]['name']}) is the only one" in said[0], f"found {said}")
        return usable[0]["index"]
    expect(said[0].startswith(f"auto: {what} takes "), f"found {said}")
    times = {int(index): float(ms) for ms, index in re.findall(r"([\d.e+-]+) ms on (\d+) \(", said[0])}
    taken = re.search(r"; device (\d+) is taken, ([\d.e+-]+) times as fast as the next$", said[0])
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
           "judging a batch of 40 samples, transfers included,")
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
    koine("devices", "--device", "auto", environment=TWICE).needs(0, out="taken unless told otherwise")


@case
def auto_where_a_batch_does_not_fit(folder):
    arguments = ("train", *problem(folder), "--steps", "1", "--batch", "80", "--device", "auto", "--memory")
    koine(*arguments, "1kB", folder=folder, environment=TWICE).needs(1, out="", err="even with a batch of 1")
    found = koine(*arguments, "10kB", folder=folder, environment=TWICE).needs(0, err="training goes on with")
    for one in devices() if len(devices()) > 1 else []:
        expect(f"auto: device {one['index']} ({one['name']}) is left out" in found.err, f"{found}")


run_cases()
