"""How far PyTorch's autocast to 16 bits leads training away from float32: losses, and a band around them."""

import contextlib
import dataclasses

import torch

import networks
import trajectories

STEPS = 200
SEEDS = (1, 2, 3)
NAMES = ("mlp_sgd", "lenet_sgd", "cnn_bn_sgd", "resnet18c_sgd", "lstm_sgd", "gpt_adamw")
TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def losses_of(case, dtype):
  """The loss of each step; dtype: of autocast, None: float32."""
  values = networks.initial_values(case.network, case.seed, torch.float32)
  optimizer = case.make_optimizer(values)
  scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
  losses = []
  for step in range(STEPS):
    x, labels = networks.batch(case.network, case.seed, step, case.batch, torch.float32)
    optimizer.zero_grad()
    # Of recurrences oneDNN has no version of 16 bits that can be differentiated.
    with torch.backends.mkldnn.flags(enabled=not case.name.startswith("lstm")):
      with torch.autocast("cpu", dtype) if dtype else contextlib.nullcontext():
        loss = trajectories.loss_of(case.network, values, x, labels, True)
      scaler.scale(loss).backward()
    losses.append(loss.item())
    scaler.step(optimizer)
    scaler.update()
  return losses


def describe(name):
  case = next(case for case in trajectories.CASES if case.name == name)
  seeded = [dataclasses.replace(case, seed=seed) for seed in SEEDS]
  plain = [losses_of(case, None) for case in seeded]
  out = {"name": name, "seeds": list(SEEDS), "losses_float32": [[round(loss, 7) for loss in run] for run in plain]}
  for word, dtype in TYPES.items():
    narrow = [losses_of(case, dtype) for case in seeded]
    largest, band = 0.0, []
    for step in range(STEPS):
      largest = max([largest] + [abs(narrow[i][step] - plain[i][step]) for i in range(len(SEEDS))])
      band.append(round(largest, 7))
    out[f"band_{word}_float32"] = band
  return out


def golden():
  """The contents of tests/golden/precision.json."""
  torch.manual_seed(1)
  version = torch.__version__.split("+")[0]
  return {"format": 1, "kind": "precision", "torch": version, "steps": STEPS, "cases": [describe(name) for name in NAMES]}
