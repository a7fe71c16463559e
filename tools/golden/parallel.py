#!/usr/bin/env python3
"""The golden cases by processes of PyTorch's DistributedDataParallel: compared with the committed files.

    parallel.py [CASE...]

A network without running statistics has the same trajectory with and without shards, so its case needs no shards of
its own: it is cut into four parts too, uneven ones where the batch cannot be divided.
"""

import json
import math
import os
import sys
import tempfile

import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing
from torch.nn.parallel import DistributedDataParallel

import generate
import networks
import trajectories


PROCESSES = 4


def processes_of(case):
  """How many processes train a case; 0: it has no trajectory in shards."""
  if case.shards > 1:
    return case.shards
  return PROCESSES if not case.network.buffers and case.batch >= PROCESSES and case.accumulate == 1 else 0


class Trained(torch.nn.Module):
  """The parameters and buffers of a case; the running statistics of a process are not shared."""

  def __init__(self, case):
    super().__init__()
    self.case = case
    values = networks.initial_values(case.network, case.seed, torch.float64)
    for name, _, _ in case.network.parameters:
      self.register_parameter(name.replace(".", "/"), torch.nn.Parameter(values[name].detach()))
    for name, _, _ in case.network.buffers:
      self.register_buffer(name.replace(".", "/"), values[name])

  def values(self):
    named = list(self.named_parameters()) + list(self.named_buffers())
    return {name.replace("/", "."): value for name, value in named}

  def forward(self, x, labels):
    return trajectories.loss_of(self.case.network, self.values(), x, labels, True)


def work(rank, name, count, meeting, path):
  case = next(case for case in trajectories.CASES if case.name == name)
  torch.set_num_threads(1)
  distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
  module = Trained(case)
  parallel = DistributedDataParallel(module, broadcast_buffers=False)
  optimizer = case.make_optimizer(module.values())
  losses = []
  for step in range(case.steps):
    x, labels = networks.batch(case.network, case.seed, step, case.batch, torch.float64)
    part = x.tensor_split(count)[rank]
    optimizer.zero_grad()
    # The mean over the processes is that over the samples, also of uneven parts.
    loss = parallel(part, labels.tensor_split(count)[rank]) * (len(part) * count / case.batch)
    loss.backward()
    trajectories.update(case, optimizer, case.trained(module.values()), step)
    mean = loss.detach().clone()
    distributed.all_reduce(mean)
    losses.append(mean.item() / count)
  sums = {}
  for name, value in module.values().items():
    mean = value.detach().clone()
    distributed.all_reduce(mean)
    sums[name] = math.fsum((mean / count).flatten().tolist())
  if rank == 0:
    with open(path, "w", encoding="ascii") as file:
      json.dump([losses, sums], file)
  distributed.destroy_process_group()


def main():
  far = 0.0
  for case in trajectories.CASES:
    count = processes_of(case)
    if not count or (sys.argv[1:] and case.name not in sys.argv[1:]):
      continue
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, "found")
      multiprocessing.spawn(work, (case.name, count, os.path.join(folder, "meeting"), path), count)
      with open(path, encoding="ascii") as file:
        losses, sums = json.load(file)
    wanted = json.loads((generate.FOLDER / f"{case.name}.json").read_text())
    apart = max(abs(a - b) for a, b in zip(losses, wanted["losses"]))
    for entry in wanted["parameters"] + wanted["buffers"]:
      apart = max(apart, abs(sums[entry["name"]] - entry["sum"]) / max(1.0, entry["sum_absolute"]))
    print(f"{case.name}: {count} processes of DistributedDataParallel, at most {apart:.2g} apart", flush=True)
    far = max(far, apart)
  return 0 if far <= generate.TOLERANCE else 1


if __name__ == "__main__":
  sys.exit(main())
