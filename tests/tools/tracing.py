"""--trace: the files that Perfetto and chrome://tracing read, and koine devices --measure.

usage: tracing.py KOINE HOUSE_TESTS
"""
import os

from koine import case, expect, koine, problem, run_cases, strict, train, write

HOST, COMPUTE, TRANSFER = "host", "compute queue", "transfer queue"


def spans(folder, name="trace.json"):
    """{thread: its spans in order}, with times in microseconds; checks what every trace must satisfy."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        events = strict(file.read())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    expect(sorted(names.values()) == sorted([HOST, COMPUTE, TRANSFER]), f"the threads are {names}")
    found = {name: [] for name in names.values()}
    for event in events:
        expect(event["ph"] in "MX" and event["pid"] == 1, f"found {event}")
        if event["ph"] == "X":
            expect(event["ts"] >= 0 and event["dur"] >= 0, f"found {event}")
            found[names[event["tid"]]].append(event)
    for name, row in found.items():  # a row in a viewer has room for one at a time; microseconds are rounded
        row = sorted((event["ts"], event["ts"] + event["dur"], event["name"]) for event in row)
        for one, other in zip(row, row[1:]):
            expect(one[1] <= other[0] + 0.01, f"{name}: {one} and {other} overlap")
    end = max(event["ts"] + event["dur"] for event in found[HOST])
    for thread in (COMPUTE, TRANSFER):
        for event in found[thread]:
            expect(list(event["args"]) == ["kernel", "flops", "bytes"], f"found {event}")
            # One axis: give or take what tying the clocks costs.
            expect(event["ts"] + event["dur"] < end + 2e5, f"after the host's end, {end}: {event}")
    return found


@case
def of_a_training(folder):
    train(folder, "--steps", "6", "--batch", "32", "--validation", "0.2", "--trace", "trace.json", "--quiet")
    found = spans(folder)
    names = [event["name"] for event in found[HOST]]
    expect([name for name in names if name.startswith("step")] == [f"step {i}" for i in range(1, 7)], f"found {names}")
    expect(names[0] == "opening and compiling" and names.count("evaluating") == 2 and "saving" in names, f"found {names}")
    starts = [event["ts"] for event in found[HOST]]
    expect(starts == sorted(starts), "the host's stretches are not in order")
    kernels = [event for event in found[COMPUTE] if event["args"]["kernel"]]
    expect(len(kernels) >= 6 and any(event["args"]["flops"] for event in kernels), f"found {found[COMPUTE]}")
    expect(found[TRANSFER], "nothing on the transfer queue")


@case
def the_next_batch_goes_there_beside_a_step(folder):
    """By the order in which work was queued: uploads after a step's last kernel are those of the next batch."""
    train(folder, "--steps", "24", "--batch", "10", "--trace", "trace.json", "--quiet")
    spans(folder)
    with open(os.path.join(folder, "trace.json"), encoding="utf-8") as file:
        events = strict(file.read())["traceEvents"]
    hosts, = [event["tid"] for event in events if event["name"] == "thread_name" and event["args"]["name"] == HOST]
    steps, work = [], []
    for event in events:  # what an interval of the host queued follows it
        if event["ph"] == "X" and event["tid"] == hosts:
            work = []
            steps += [work] if event["name"].startswith("step ") else []
        elif event["ph"] == "X":
            work.append("kernel" if event["args"]["kernel"] else event["name"])
    ends = [max(i for i, name in enumerate(work) if name == "kernel") for work in steps]
    before = [work[:end].count("upload") for work, end in zip(steps, ends)]
    after = [work[end:].count("upload") for work, end in zip(steps, ends)]
    expect(len(steps) == 24 and before[0] >= 2, f"before the kernels {before}, after them {after}")
    expect(all(after[i] + before[i + 1] == 2 for i in range(23)), f"before the kernels {before}, after them {after}")
    expect(sum(after[:-1]) > 0, "no batch was uploaded during a step")


@case
def of_inference_and_bench(folder):
    train(folder, "--steps", "1", "--quiet")
    koine("infer", "tiny.safetensors", "--input", "x.npy", "--output", "y2.npy", "--batch", "40", "--trace", "infer.json",
          folder=folder).needs(0)
    found = spans(folder, "infer.json")
    expect([event["name"] for event in found[HOST]] == ["opening and compiling"] + 3 * ["batch"], f"found {found[HOST]}")
    expect(found[COMPUTE], "nothing on the compute queue")
    koine("bench", "tiny.koine", "--batch", "8", "--seconds", "0", "--trace", "bench.json", folder=folder).needs(0)
    found = spans(folder, "bench.json")
    expect({event["name"] for event in found[HOST]} == {"step"} and found[COMPUTE], f"found {found[HOST][:9]}")
    expect(5 <= len(found[HOST]) <= 20, f"{len(found[HOST])} steps")


@case
def devices_measured(folder):
    names = ["gflops", "gb_s", "upload_gb_s", "download_gb_s", "launch_us"]
    found = koine("devices", "--measure", "--json").needs(0).objects()
    chosen, = [device for device in found if device["chosen"]]
    expect(all(chosen[name] > 0 for name in names), f"found {chosen}")
    expect(all("gflops" not in device for device in found if not device["chosen"]), f"found {found}")
    koine("devices", "--measure").needs(0, out=("measured: ", "GFLOP/s, memory ", "a launch "))
    koine("devices").needs(0)


@case
def what_makes_no_sense(folder):
    problem(folder)
    koine("bench", "tiny.koine", "mlp", "--trace", "t", folder=folder).needs(2, err="--trace applies to one model")
    train(folder, "--trace", "nowhere/t", status=1, out="", err="'nowhere/t' cannot be written")
    write(folder, "bad.koine", "nothing")
    koine("train", "bad.koine", "--data", "digits", "--trace", "t", folder=folder).needs(1)


run_cases()
