"""Training trajectories: the same steps in float64 and in float32, and how far apart they end."""

import math
from dataclasses import dataclass

import numpy
import torch
import torch.nn.functional as F

import networks
import random_stream

STEPS = 20
SAMPLES = 8


@dataclass
class Case:
  name: str
  network: networks.Network
  optimizer: str  # "sgd", "adam" or "adamw"
  lr: float
  batch: int = 16
  seed: int = 1
  momentum: float = 0.0
  nesterov: bool = False
  weight_decay: float = 0.0  # coupled (added to the gradient) for sgd, decoupled for adamw
  clip_norm: float = 0.0  # 0: no clipping
  schedule: object = None  # None, ("cosine", warm-up steps) or ("step", every, factor)

  def learning_rate(self, step):
    """The rate of the step counted from 0."""
    if self.schedule is None:
      return self.lr
    if self.schedule[0] == "step":
      return self.lr * self.schedule[2] ** (step // self.schedule[1])
    warmup = self.schedule[1]
    if step < warmup:
      return self.lr * (step + 1) / warmup
    return self.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (STEPS - warmup)))

  def settings(self):
    """What the golden file says of the optimizer."""
    out = {"name": self.optimizer, "lr": self.lr, "weight_decay": self.weight_decay}
    if self.optimizer == "sgd":
      out.update(momentum=self.momentum, nesterov=self.nesterov)
    else:
      out.update(beta1=0.9, beta2=0.999, eps=1e-8)
    out["clip_norm"] = self.clip_norm
    if self.schedule is None:
      out["schedule"] = {"name": "constant"}
    elif self.schedule[0] == "step":
      out["schedule"] = {"name": "step", "every": self.schedule[1], "factor": self.schedule[2]}
    else:
      out["schedule"] = {"name": "cosine", "warmup": self.schedule[1], "steps": STEPS, "end": 0.0}
    return out

  def make_optimizer(self, parameters):
    if self.optimizer == "sgd":
      return torch.optim.SGD(
        parameters, self.lr, momentum=self.momentum, nesterov=self.nesterov, weight_decay=self.weight_decay
      )
    kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, self.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=self.weight_decay)


# Adam divides by the size of a gradient, so a unit that a rounding error switches on or off
# moves by a whole learning rate. The seeds of the Adam cases are ones where no rounding
# error does so (conditioning.py shows it); any other difference shows all the better.
CASES = [
  Case("mlp_sgd", networks.MLP, "sgd", 0.05, batch=32, momentum=0.9),
  Case("mlp_adam", networks.MLP, "adam", 1e-3, batch=32, seed=7),
  Case("lenet_sgd", networks.LENET, "sgd", 0.01, momentum=0.9),
  Case("lenet_adam", networks.LENET, "adam", 1e-3, seed=4),
  Case("cnn_bn_sgd", networks.CNN_BN, "sgd", 0.05, momentum=0.9),
  Case("mlp_nesterov", networks.MLP, "sgd", 0.05, momentum=0.9, nesterov=True),
  Case(
    "mlp_adamw",
    networks.MLP,
    "adamw",
    1e-3,
    seed=6,
    weight_decay=0.01,
    clip_norm=1.0,
    schedule=("cosine", 5),
  ),
  Case(
    "mlp_sgd_decay",
    networks.MLP,
    "sgd",
    0.05,
    momentum=0.9,
    weight_decay=1e-3,
    clip_norm=0.25,
    schedule=("step", 6, 0.5),
  ),
  Case("lstm_sgd", networks.LSTM, "sgd", 0.5, batch=7, momentum=0.9),
  Case("gpt_adamw", networks.GPT, "adamw", 3e-3, batch=5, weight_decay=0.01),
]


def loss_of(network, values, x, labels, training):
  """The mean over all labels."""
  return F.cross_entropy(network.forward(values, x, training).flatten(0, -2), labels.flatten())


@dataclass
class Run:
  losses: list
  norms: list  # of the gradient before clipping
  evaluation_loss: float
  values: dict  # name -> float64 numpy array at the end


def train(case, dtype, values=None):
  """STEPS steps in dtype, from the rule's parameters or from the given ones."""
  if values is None:
    values = networks.initial_values(case.network, case.seed, dtype)
  parameters = [values[name] for name, _, _ in case.network.parameters]
  optimizer = case.make_optimizer(parameters)
  losses, norms = [], []
  for step in range(STEPS):
    x, labels = networks.batch(case.network, case.seed, step, case.batch, dtype)
    for group in optimizer.param_groups:
      group["lr"] = case.learning_rate(step)
    optimizer.zero_grad()
    loss = loss_of(case.network, values, x, labels, True)
    loss.backward()
    limit = case.clip_norm if case.clip_norm > 0 else math.inf
    norms.append(torch.nn.utils.clip_grad_norm_(parameters, limit).item())
    optimizer.step()
    losses.append(loss.item())
  with torch.no_grad():
    x, labels = networks.batch(case.network, case.seed, STEPS, case.batch, dtype)
    evaluation = loss_of(case.network, values, x, labels, False).item()
  final = {name: value.detach().to(torch.float64).numpy() for name, value in values.items()}
  return Run(losses, norms, evaluation, final)


def sample_indices(seed, name, count):
  """One index out of each of SAMPLES equal stretches of the tensor, or all of a tiny one."""
  if count <= SAMPLES:
    return list(range(count))
  starts = [part * count // SAMPLES for part in range(SAMPLES + 1)]
  stream = random_stream.key(seed, "sample:" + name)
  return [
    starts[part] + int(random_stream.below(stream, part, 1, starts[part + 1] - starts[part])[0])
    for part in range(SAMPLES)
  ]


def describe(case, name, first, double, single):
  """One parameter or buffer: where it started, where float64 ended, how far away float32 ended."""
  indices = sample_indices(case.seed, name, double.size)
  flat = double.reshape(-1)
  return {
    "name": name,
    "shape": list(double.shape),
    "initial_sum": math.fsum(first.reshape(-1).astype(numpy.float64)),
    "initial_samples": [float(first.reshape(-1)[i]) for i in indices],
    "sum": math.fsum(flat),
    "sum_absolute": math.fsum(numpy.abs(flat)),
    "sample_indices": indices,
    "samples": [float(flat[i]) for i in indices],
    "float32_distance": {
      "elements": float(numpy.abs(double - single).max()),
      "sum": abs(math.fsum(flat) - math.fsum(single.reshape(-1))),
      "sum_absolute": abs(math.fsum(numpy.abs(flat)) - math.fsum(numpy.abs(single.reshape(-1)))),
    },
  }


def golden(case):
  """The contents of tests/golden/NAME.json."""
  double = train(case, torch.float64)
  single = train(case, torch.float32)
  x, labels = networks.batch(case.network, case.seed, 0, case.batch, torch.float64)
  entries = {}
  for name, shape, rule in case.network.parameters + case.network.buffers:
    first = networks.initial(case.seed, name, shape, rule)
    entries[name] = describe(case, name, first, double.values[name], single.values[name])
  return {
    "format": 1,
    "kind": "trajectory",
    "name": case.name,
    "network": {
      "name": case.network.name,
      "layers": case.network.layers,
      "input_shape": list(case.network.input_shape),
      "classes": case.network.classes,
      **({"tokens": case.network.tokens} if case.network.tokens else {}),
    },
    "optimizer": case.settings(),
    "seed": case.seed,
    "batch": case.batch,
    "steps": STEPS,
    "torch": torch.__version__.split("+")[0],
    "first_inputs": [float(value) for value in x.reshape(-1)[:8]],
    "first_labels": [int(label) for label in labels.flatten()],
    "learning_rates": [case.learning_rate(step) for step in range(STEPS)],
    "losses": double.losses,
    "losses_float32": single.losses,
    "losses_float32_distance": max(abs(a - b) for a, b in zip(double.losses, single.losses)),
    "gradient_norms": double.norms,
    "evaluation_loss": double.evaluation_loss,
    "evaluation_loss_float32": single.evaluation_loss,
    "parameters": [entries[name] for name, _, _ in case.network.parameters],
    "buffers": [entries[name] for name, _, _ in case.network.buffers],
  }
