"""PyTorch's side of scaling.py: training steps by one process, or by several of DistributedDataParallel over gloo, each on
a processor with one thread.

usage: parallel_worker.py CASE BATCH SECONDS PROCESSES [PROCESSOR,...]      prints the median of the slowest as JSON
"""

import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing
from torch.nn.parallel import DistributedDataParallel

import networks
import torch_worker
from cases import CASES

WARM_UP, LEAST = 5, 5


def work(rank, name, batch, seconds, count, processors, meeting, path):
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {processors[rank % len(processors)]})
    torch.set_num_threads(1)
    case = CASES[name]
    torch.manual_seed(1)
    network = networks.make(name)
    network.train()
    if count > 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
        network = DistributedDataParallel(network)
    optimizer = torch_worker.optimizer_of(case, network)
    x, y = torch_worker.samples(case, batch)

    def step():
        before = time.perf_counter()
        torch_worker.training_step(network, optimizer, x, y)
        return time.perf_counter() - before

    for _ in range(WARM_UP):
        last = step()
    steps = torch.tensor([max(LEAST, int(seconds / last))])
    if count > 1:
        distributed.broadcast(steps, 0)
    median = torch.tensor([statistics.median(step() for _ in range(int(steps)))], dtype=torch.float64)
    if count > 1:
        distributed.all_reduce(median, distributed.ReduceOp.MAX)
    if rank == 0:
        with open(path, "w", encoding="ascii") as file:
            json.dump({"median_ms": 1e3 * median.item(), "n": int(steps)}, file)
    if count > 1:
        distributed.destroy_process_group()


def main(name, batch, seconds, count, processors="0"):
    numbers = [int(one) for one in processors.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "found")
        given = (name, int(batch), float(seconds), int(count), numbers, os.path.join(folder, "meeting"), path)
        multiprocessing.spawn(work, given, int(count))
        with open(path, encoding="ascii") as file:
            print(file.read())


if __name__ == "__main__":
    main(*sys.argv[1:])
