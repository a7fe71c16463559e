#!/usr/bin/env python3
"""Times training steps of the networks of `koine report` in PyTorch on a GPU.

usage: torch_gpu.py [--networks NAME:BATCH,…] [--seconds S] [--device DEVICE]

Inputs stay on the device, and CUDA events measure: float32 (without TF32), TF32, and autocast to bfloat16 with
channels last, each as Python calls it (eager) and as a CUDA graph, which has no cost of Python. Prints a JSON object
per measurement; on a CPU only eager steps by the host's clock, to try this program. `networks.py` and `cases.py` are
those of tools/compare.
"""
import argparse
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "compare")]

NETWORKS = ("gpt:8,resnet50:32,lenet:256,mlp:512,resnet18c:256,lstm:64,gpt:64,vgg11c:256,mobilenetv2:128,alexnet:256,"
            "resnet50:128")
WAYS = ("float32", "tf32", "bfloat16")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=NETWORKS, help="networks with batch sizes")
    parser.add_argument("--seconds", type=float, default=1, help="minimum time per measurement (1)")
    parser.add_argument("--device", default="", help="cuda or cpu (cuda, if there is one)")
    return parser.parse_args()


def samples(torch, case, batch, device):
    """x and the classes."""
    shape = (batch, *case.shape)
    if case.tokens:
        return torch.randint(case.tokens, shape, device=device), torch.randint(case.classes, shape, device=device)
    return torch.randn(shape, device=device), torch.randint(case.classes, (batch,), device=device)


def step_of(torch, networks, case, batch, way, device):
    """A training step that returns the loss on the device."""
    network, (x, y) = networks.make(case.name).to(device).train(), samples(torch, case, batch, device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = way != "float32"
    if way == "bfloat16" and case.convolutions:
        network, x = network.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    on_gpu = device == "cuda"
    if case.optimizer == "adamw":
        optimizer = torch.optim.AdamW(network.parameters(), lr=3e-4, capturable=on_gpu)
    else:
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=way == "bfloat16", cache_enabled=False):
            out = network(x)
        loss = torch.nn.functional.cross_entropy(out.float().reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss
    return step


def graph_of(torch, step):
    """The step as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def milliseconds(torch, step, least, device):
    """The times of single steps."""
    times = []
    for _ in range(3):
        step()
    end = time.perf_counter() + least
    while time.perf_counter() < end or len(times) < 3:
        if device == "cuda":
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            step()
            events[1].record()
            events[1].synchronize()
            times.append(events[0].elapsed_time(events[1]))
        else:
            begin = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - begin))
    return times


def main():
    given = arguments()
    try:
        import torch
        import networks
    except ImportError as problem:
        sys.exit(f"torch_gpu.py: PyTorch is missing: {problem}")
    from cases import CASES
    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(json.dumps({"torch": torch.__version__, "device": name}), flush=True)
    good = True
    for word in given.networks.split(","):
        case, batch = CASES[word.partition(":")[0]], int(word.partition(":")[2] or 1)
        for way in WAYS if device == "cuda" else ("float32", "bfloat16"):
            for graph in (False, True) if device == "cuda" else (False,):
                found = {"case": case.name, "batch": batch, "precision": way, "graph": graph}
                try:
                    step = step_of(torch, networks, case, batch, way, device)
                    times = milliseconds(torch, graph_of(torch, step) if graph else step, given.seconds, device)
                    found.update(median_ms=round(statistics.median(times), 4), least_ms=round(min(times), 4), steps=len(times))
                except RuntimeError as problem:  # such as too little memory; the others are still timed
                    found["failed"], good = str(problem).split("\n", maxsplit=1)[0], False
                print(json.dumps(found), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
