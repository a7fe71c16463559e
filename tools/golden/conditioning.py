#!/usr/bin/env python3
"""Shows how far float32 rounding moves a trajectory, to choose its seed.

    conditioning.py CASE [FIRST_SEED [LAST_SEED]]

Each line is a seed and, for six float32 runs, the largest distance of any parameter from the
float64 run: the first run starts from the rule's parameters, the others from parameters moved
by about half a unit in the last place. A good seed has six small numbers of one size.
"""

import dataclasses
import sys

import numpy
import torch

import networks
import trajectories

RUNS = 6


def nudged(case, run):
  """The rule's parameters, each times 1 + up to 2^-23, the same for the same run."""
  generator = torch.Generator().manual_seed(run)
  values = networks.initial_values(case.network, case.seed, torch.float32)
  with torch.no_grad():
    for name, _, _ in case.network.parameters:
      value = values[name]
      value.mul_(1 + (torch.rand(value.shape, generator=generator) - 0.5) * 2.0**-22)
  return values


def distances(case):
  double = trajectories.train(case, torch.float64).values
  out = []
  for run in range(RUNS):
    start = nudged(case, run) if run > 0 else None
    single = trajectories.train(case, torch.float32, start).values
    out.append(max(numpy.abs(double[name] - single[name]).max() for name in double))
  return out


def main():
  cases = {case.name: case for case in trajectories.CASES}
  if len(sys.argv) < 2 or sys.argv[1] not in cases:
    raise SystemExit(f"usage: conditioning.py CASE [FIRST_SEED [LAST_SEED]], CASE one of {', '.join(cases)}")
  torch.set_num_threads(1)
  case = cases[sys.argv[1]]
  first = int(sys.argv[2]) if len(sys.argv) > 2 else case.seed
  last = int(sys.argv[3]) if len(sys.argv) > 3 else first
  for seed in range(first, last + 1):
    row = distances(dataclasses.replace(case, seed=seed))
    print(case.name, seed, " ".join(f"{distance:.1e}" for distance in row), flush=True)


if __name__ == "__main__":
  main()
