#!/usr/bin/env python3
"""The golden cases in shards, by processes of PyTorch's DistributedDataParallel: compared with the committed files."""

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


def work(rank, name, meeting, path):
  case = next(case for case in trajectories.CASES if case.name == name)
  torch.set_num_threads(1)
  distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=case.shards)
  module = Trained(case)
  parallel = DistributedDataParallel(module, broadcast_buffers=False)
  optimizer = case.make_optimizer(module.values())
  losses = []
  for step in range(trajectories.STEPS):
    x, labels = networks.batch(case.network, case.seed, step, case.batch, torch.float64)
    optimizer.zero_grad()
    loss = parallel(x.chunk(case.shards)[rank], labels.chunk(case.shards)[rank])
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    distributed.all_reduce(mean)
    losses.append(mean.item() / case.shards)
  sums = {}
  for name, value in module.values().items():
    mean = value.detach().clone()
    distributed.all_reduce(mean)
    sums[name] = math.fsum((mean / case.shards).flatten().tolist())
  if rank == 0:
    with open(path, "w", encoding="ascii") as file:
      json.dump([losses, sums], file)
  distributed.destroy_process_group()


def main():
  far = 0.0
  for case in trajectories.CASES:
    if case.shards == 1:
      continue
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, "found")
      multiprocessing.spawn(work, (case.name, os.path.join(folder, "meeting"), path), case.shards)
      with open(path, encoding="ascii") as file:
        losses, sums = json.load(file)
    wanted = json.loads((generate.FOLDER / f"{case.name}.json").read_text())
    apart = max(abs(a - b) for a, b in zip(losses, wanted["losses"]))
    for entry in wanted["parameters"] + wanted["buffers"]:
      apart = max(apart, abs(sums[entry["name"]] - entry["sum"]) / max(1.0, entry["sum_absolute"]))
    print(f"{case.name}: {case.shards} processes of DistributedDataParallel, at most {apart:.2g} apart")
    far = max(far, apart)
  return 0 if far <= generate.TOLERANCE else 1


if __name__ == "__main__":
  sys.exit(main())
