"""How far 16 bits lead training in PyTorch away: of 200 losses from float32, with a band around them; of the first step's
gradients from double precision.

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
SAMPLES = 8  # of each parameter's gradient
# Files of cases, with the seeds of their parameters and batches. With several seeds they have the first step, too: there
# are few networks of the zoo whose gradients fit into float16 in it.
FILES = {
  "precision": ((1, 2, 3), ("mlp_sgd", "lenet_sgd", "cnn_bn_sgd", "resnet18c_sgd", "lstm_sgd", "gpt_adamw")),
  "precision_zoo": ((1,), ("char-gru_sgd", "elman_sgd", "unet_sgd", "squeezenet_sgd", "vit-tiny_sgd", "alexnet_sgd",
                           "alexnet2012_sgd", "resnet50_sgd", "vgg11c_sgd", "mobilenetv2_sgd")),
}
TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


LAYERS = (F.conv2d, F.conv_transpose2d, F.linear, F.relu, F.relu6, F.gelu, F.max_pool2d, F.avg_pool2d, F.batch_norm,
          F.layer_norm, F.local_response_norm, F.scaled_dot_product_attention, torch.tanh, torch.sigmoid)


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


def autocast(dtype):
  return torch.autocast("cpu", dtype)


def onednn_of(case):
  """Of recurrences oneDNN has no version of 16 bits that can be differentiated."""
  return torch.backends.mkldnn.flags(enabled=not case.name.startswith(("lstm", "char-gru", "elman")))


def losses_of(case, dtype, mode=autocast):
  """The loss of each step; dtype: of `mode`, None: float32."""
  values = networks.initial_values(case.network, case.seed, torch.float32)
  optimizer = case.make_optimizer(values)
  scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
  losses = []
  for step in range(STEPS):
    x, labels = networks.batch(case.network, case.seed, step, case.batch, torch.float32)
    optimizer.zero_grad()
    with onednn_of(case):
      with mode(dtype) if dtype else contextlib.nullcontext():
        loss = trajectories.loss_of(case.network, values, x, labels, True)
      scaler.scale(loss).backward()
    losses.append(loss.item())
    scaler.step(optimizer)
    scaler.update()
  return losses


def first_step(case, dtype, mode=contextlib.nullcontext()):
  """Loss and gradients by name of the first step in `dtype`, within `mode`."""
  values = networks.initial_values(case.network, case.seed, dtype)
  x, labels = networks.batch(case.network, case.seed, 0, case.batch, dtype)
  scale = 1.0 if dtype == torch.float64 else 2.0**16  # for float16
  with onednn_of(case):
    with mode:
      loss = trajectories.loss_of(case.network, values, x, labels, True)
    (loss * scale).backward()
  return loss.item(), {name: value.grad.to(torch.float64) / scale for name, value in case.trained(values).items()}


def shortened(number):
  """As many digits as matter where numbers of 16 bits are compared."""
  return float(f"{number:.7g}")


def samples_of(case, name, gradient):
  flat = gradient.reshape(-1)
  return flat[trajectories.sample_indices(case.seed, name, len(flat), SAMPLES)]


def distance(case, exact, found):
  """The mean over the parameters of how far sampled gradients are from the exact ones, by the RMS of these."""
  apart = []
  for name, gradient in exact.items():
    difference = samples_of(case, name, found[name]) - samples_of(case, name, gradient)
    apart.append((difference.square().mean() / gradient.square().mean()).sqrt().item())
  return sum(apart) / len(apart)


def describe_first(case):
  loss, gradients = first_step(case, torch.float64)
  return {
    "loss": loss,
    **{
      f"gradient_distance_{word}_float32": shortened(
        max(distance(case, gradients, first_step(case, torch.float32, mode(dtype))[1]) for mode in (autocast, stored))
      )
      for word, dtype in TYPES.items()
    },
    "gradients": [
      {
        "name": name,
        "rms": shortened(gradient.square().mean().sqrt().item()),
        "sample_indices": trajectories.sample_indices(case.seed, name, gradient.numel(), SAMPLES),
        "samples": [shortened(number) for number in samples_of(case, name, gradient).tolist()],
      }
      for name, gradient in gradients.items()
    ],
  }


def describe(name, seeds):
  case = next(case for case in trajectories.CASES if case.name == name)
  seeded = [dataclasses.replace(case, seed=seed) for seed in seeds]
  plain = [losses_of(case, None) for case in seeded]
  out = {"name": name, "seeds": list(seeds), "losses_float32": [[round(loss, 7) for loss in run] for run in plain]}
  for word, dtype in TYPES.items():
    narrow = [[losses_of(case, dtype), losses_of(case, dtype, stored)] for case in seeded]
    largest, band = 0.0, []
    for step in range(STEPS):
      apart = [abs(run[step] - plain[i][step]) for i in range(len(seeds)) for run in narrow[i]]
      largest = max([largest] + apart)
      band.append(round(largest, 7))
    out[f"band_{word}_float32"] = band
  return out | ({"first": describe_first(seeded[0])} if len(seeds) > 1 else {})


def golden(file):
  """The contents of tests/golden/FILE.json."""
  seeds, names = FILES[file]
  torch.manual_seed(1)
  version = torch.__version__.split("+")[0]
  return {"format": 1, "kind": "precision", "torch": version, "steps": STEPS, "cases": [describe(name, seeds) for name in names]}
