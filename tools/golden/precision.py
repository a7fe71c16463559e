"""How far 16 bits lead training in PyTorch away from float32: losses, and a band around them.

The band holds autocast, which rounds what products and convolutions read, and float32 whose results between layers are
rounded, as a plan of Koine stores them. Where rounding happens matters: lenet's third seed is 0.004 off by the first and
0.011 by the second."""

import contextlib
import dataclasses

import torch
import torch.nn.functional as F

import networks
import trajectories

STEPS = 200
SEEDS = (1, 2, 3)
NAMES = ("mlp_sgd", "lenet_sgd", "cnn_bn_sgd", "resnet18c_sgd", "lstm_sgd", "gpt_adamw")
TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


LAYERS = (F.conv2d, F.linear, F.relu, F.gelu, F.max_pool2d, F.avg_pool2d, F.batch_norm, F.layer_norm,
          F.scaled_dot_product_attention, torch.tanh, torch.sigmoid)


class Rounded(torch.autograd.Function):
  """x and its gradient, each rounded to dtype."""

  @staticmethod
  def forward(context, x, dtype):
    context.dtype = dtype
    return x.to(dtype).to(x.dtype)

  @staticmethod
  def backward(context, gradient):
    return gradient.to(context.dtype).to(gradient.dtype), None


class stored(torch.overrides.TorchFunctionMode):
  """Within it the results of layers, and the gradients of these, are rounded to dtype."""

  def __init__(self, dtype):
    super().__init__()
    self.dtype = dtype

  def __torch_function__(self, function, types, arguments=(), options=None):
    result = function(*arguments, **(options or {}))
    return Rounded.apply(result, self.dtype) if function in LAYERS else result


def losses_of(case, dtype, mode=lambda dtype: torch.autocast("cpu", dtype)):
  """The loss of each step; dtype: of `mode`, None: float32."""
  values = networks.initial_values(case.network, case.seed, torch.float32)
  optimizer = case.make_optimizer(values)
  scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
  losses = []
  for step in range(STEPS):
    x, labels = networks.batch(case.network, case.seed, step, case.batch, torch.float32)
    optimizer.zero_grad()
    # Of recurrences oneDNN has no version of 16 bits that can be differentiated.
    with torch.backends.mkldnn.flags(enabled=not case.name.startswith("lstm")):
      with mode(dtype) if dtype else contextlib.nullcontext():
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
    narrow = [[losses_of(case, dtype), losses_of(case, dtype, stored)] for case in seeded]
    largest, band = 0.0, []
    for step in range(STEPS):
      apart = [abs(run[step] - plain[i][step]) for i in range(len(SEEDS)) for run in narrow[i]]
      largest = max([largest] + apart)
      band.append(round(largest, 7))
    out[f"band_{word}_float32"] = band
  return out


def golden():
  """The contents of tests/golden/precision.json."""
  torch.manual_seed(1)
  version = torch.__version__.split("+")[0]
  return {"format": 1, "kind": "precision", "torch": version, "steps": STEPS, "cases": [describe(name) for name in NAMES]}
