"""Training trajectories: the same steps in float64 and in float32, and how far apart they end."""

import fnmatch
import math
from dataclasses import dataclass, field

import numpy
import torch
import torch.nn.functional as F

import networks
import optimizers
import random_stream
import zoo

STEPS = 20
SAMPLES = 8  # of each parameter
ZOO_SAMPLES = 2  # the zoo's networks have many
ZOO_STEPS = 3  # they show operators and gradients; optimizers and schedules are shown by small networks


@dataclass
class Case:
  name: str
  network: networks.Network
  optimizer: str  # "sgd", "adam", "adamw" or one of OTHERS
  lr: float
  batch: int = 16
  seed: int = 1
  momentum: float = 0.0
  nesterov: bool = False
  weight_decay: float = 0.0  # coupled (added to the gradient) for sgd, decoupled for adamw
  clip_norm: float = 0.0  # 0: no clipping
  schedule: object = None  # None, ("cosine", warm-up steps) or ("step", every, factor)
  dampening: float = 0.0
  amsgrad: bool = False
  more: dict = field(default_factory=dict)  # of OTHERS, by the keys of the golden file
  clip_value: float = 0.0  # 0: no clipping; before the norm's
  accumulate: int = 1  # steps whose mean gradient makes an update
  average: float = 0.0  # decay of the moving average of the weights; 0: none
  decay_matrices: bool = False  # no weight decay for biases
  shards: int = 1  # equal parts of a batch, each by a process of DistributedDataParallel
  samples: int = SAMPLES
  steps: int = STEPS
  groups: list = field(default_factory=list)  # of {"pattern", "lr" (a factor), "decay" (-1: the others'), "frozen"}

  def learning_rate(self, step):
    """The rate of the step counted from 0."""
    if self.schedule is None:
      return self.lr
    if self.schedule[0] == "step":
      return self.lr * self.schedule[2] ** (step // self.schedule[1])
    warmup = self.schedule[1]
    if step < warmup:
      return self.lr * (step + 1) / warmup
    return self.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (self.steps - warmup)))

  def settings(self):
    """The optimizer's entry in the golden file."""
    out = {"name": self.optimizer, "lr": self.lr, "weight_decay": self.weight_decay}
    if self.optimizer == "sgd":
      out.update(momentum=self.momentum, nesterov=self.nesterov)
      if self.dampening:
        out["dampening"] = self.dampening
    elif self.optimizer in OTHERS:
      out.update(self.more)
    else:
      out.update(beta1=0.9, beta2=0.999, eps=1e-8)
    for key in ("amsgrad", "clip_value", "average", "decay_matrices", "groups"):
      if getattr(self, key):
        out[key] = getattr(self, key)
    if self.accumulate > 1:
      out["accumulate"] = self.accumulate
    out["clip_norm"] = self.clip_norm
    if self.schedule is None:
      out["schedule"] = {"name": "constant"}
    elif self.schedule[0] == "step":
      out["schedule"] = {"name": "step", "every": self.schedule[1], "factor": self.schedule[2]}
    else:
      out["schedule"] = {"name": "cosine", "warmup": self.schedule[1], "steps": self.steps, "end": 0.0}
    return out

  def group_of(self, name):
    """The last group that fits the name, or one that changes nothing."""
    fitting = [group for group in self.groups if fnmatch.fnmatchcase(name, group["pattern"])]
    return fitting[-1] if fitting else {"lr": 1.0, "decay": -1.0, "frozen": False}

  def trained(self, values):
    """name -> parameter that is not frozen"""
    return {name: values[name] for name, _, _ in self.network.parameters if not self.group_of(name)["frozen"]}

  def make_optimizer(self, values):
    parameters = []
    for name, value in self.trained(values).items():
      group = self.group_of(name)
      decay = self.weight_decay if group["decay"] < 0 else group["decay"]
      if self.decay_matrices and value.dim() < 2:
        decay = 0.0
      parameters.append({"params": [value], "weight_decay": decay, "factor": group["lr"]})
    if self.optimizer == "sgd":
      return torch.optim.SGD(
        parameters, self.lr, momentum=self.momentum, nesterov=self.nesterov, dampening=self.dampening
      )
    if self.optimizer in OTHERS:
      return OTHERS[self.optimizer](parameters, self.lr, self.more)
    kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, self.lr, betas=(0.9, 0.999), eps=1e-8, amsgrad=self.amsgrad)


OTHERS = {
  "rmsprop": lambda parameters, lr, more: torch.optim.RMSprop(
    parameters, lr, alpha=more["beta2"], eps=more["eps"], momentum=more["momentum"], centered=more["centered"]
  ),
  "adagrad": lambda parameters, lr, more: torch.optim.Adagrad(
    parameters, lr, lr_decay=more["lr_decay"], initial_accumulator_value=more["accumulator"], eps=more["eps"]
  ),
  "adadelta": lambda parameters, lr, more: torch.optim.Adadelta(parameters, lr, rho=more["beta2"], eps=more["eps"]),
  "lamb": lambda parameters, lr, more: optimizers.Lamb(
    parameters, lr, (more["beta1"], more["beta2"]), more["eps"], 0.0
  ),
  "lion": lambda parameters, lr, more: optimizers.Lion(parameters, lr, (more["beta1"], more["beta2"]), 0.0),
}


# Adam divides by the size of a gradient, so a unit that a rounding error switches on or off
# moves by a whole learning rate. The seeds of the Adam cases are ones where no rounding
# error does so (conditioning.py shows it); any other difference shows all the better.
CASES = [
  Case("mlp_sgd", networks.MLP, "sgd", 0.05, batch=32, momentum=0.9),
  Case("mlp_adam", networks.MLP, "adam", 1e-3, batch=32, seed=7),
  Case("lenet_sgd", networks.LENET, "sgd", 0.01, momentum=0.9),
  Case("lenet_adam", networks.LENET, "adam", 1e-3, seed=4),
  Case("lenet_adamw", networks.LENET, "adamw", 1e-3, batch=8, seed=2, weight_decay=0.01),
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
  Case("lstm_adamw", networks.LSTM, "adamw", 3e-3, batch=8, weight_decay=0.01),
  Case("char-gru_sgd", networks.GRU, "sgd", 0.5, batch=7, momentum=0.9),
  Case("elman_sgd", networks.ELMAN, "sgd", 0.1, batch=7, momentum=0.9),
  Case("stateful_sgd", networks.STATEFUL, "sgd", 0.5, batch=7, momentum=0.9),
  Case("gpt_adamw", networks.GPT, "adamw", 3e-3, batch=5, weight_decay=0.01),
  Case("gpt_sgd", networks.GPT, "sgd", 0.1, batch=8, momentum=0.9, samples=ZOO_SAMPLES),
  Case("small_dampened", networks.SMALL, "sgd", 0.1, seed=2, momentum=0.9, dampening=0.3, weight_decay=0.01),
  Case("small_amsgrad", networks.SMALL, "adam", 3e-3, seed=2, weight_decay=0.01, amsgrad=True),
  Case("small_rmsprop", networks.SMALL, "rmsprop", 1e-3, seed=2, more={"beta2": 0.99, "eps": 1e-8, "momentum": 0.0, "centered": False}),
  Case(
    "small_rmsprop_centered",
    networks.SMALL,
    "rmsprop",
    1e-3,
    seed=2,
    weight_decay=0.01,
    more={"beta2": 0.9, "eps": 1e-6, "momentum": 0.5, "centered": True},
  ),
  Case("small_adagrad", networks.SMALL, "adagrad", 0.02, seed=2, more={"eps": 1e-10, "lr_decay": 0.1, "accumulator": 0.01}),
  Case("small_adadelta", networks.SMALL, "adadelta", 1.0, seed=2, weight_decay=0.01, more={"beta2": 0.9, "eps": 1e-6}),
  Case("small_lamb", networks.SMALL, "lamb", 0.01, seed=2, weight_decay=0.01, more={"beta1": 0.9, "beta2": 0.999, "eps": 1e-6}),
  Case("small_lion", networks.SMALL, "lion", 1e-3, seed=2, weight_decay=0.1, more={"beta1": 0.9, "beta2": 0.99}),
  Case("small_clip_value", networks.SMALL, "sgd", 0.1, seed=2, momentum=0.9, clip_value=0.02, clip_norm=0.15),
  Case(
    "small_groups",
    networks.SMALL,
    "adamw",
    3e-3,
    seed=2,
    weight_decay=0.1,
    decay_matrices=True,
    groups=[
      {"pattern": "linear?.*", "lr": 0.5, "decay": -1.0, "frozen": False},
      {"pattern": "linear2.weight", "lr": 2.0, "decay": 0.2, "frozen": False},
      {"pattern": "*2.bias", "lr": 1.0, "decay": -1.0, "frozen": True},
    ],
  ),
  Case(
    "small_groups_sgd",
    networks.SMALL,
    "sgd",
    0.1,
    seed=2,
    weight_decay=0.1,
    clip_norm=0.5,
    groups=[{"pattern": "logits.*", "lr": 3.0, "decay": 0.01, "frozen": False}],
  ),
  Case(
    "small_accumulated",
    networks.SMALL,
    "adam",
    3e-3,
    seed=2,
    accumulate=3,
    average=0.8,
    clip_norm=0.2,
  ),
  Case("unet_sgd", zoo.UNET, "sgd", 0.3, batch=2, momentum=0.9, samples=ZOO_SAMPLES, steps=ZOO_STEPS),
  Case("squeezenet_sgd", zoo.SQUEEZENET, "sgd", 0.2, batch=4, momentum=0.9, samples=ZOO_SAMPLES, steps=ZOO_STEPS),
  Case("vit-tiny_sgd", zoo.VIT, "sgd", 0.05, batch=4, momentum=0.9, samples=ZOO_SAMPLES, steps=ZOO_STEPS),
  Case("alexnet_sgd", zoo.ALEXNET, "sgd", 0.01, batch=4, momentum=0.9, samples=ZOO_SAMPLES, steps=ZOO_STEPS),
  Case("alexnet2012_sgd", zoo.ALEXNET2012, "sgd", 0.02, batch=4, momentum=0.9, samples=ZOO_SAMPLES, steps=ZOO_STEPS),
  Case("resnet18c_sgd", zoo.RESNET18C, "sgd", 0.02, batch=4, seed=2, momentum=0.9, samples=ZOO_SAMPLES, steps=ZOO_STEPS),
  Case("resnet50_sgd", zoo.RESNET50, "sgd", 0.002, batch=6, seed=12, momentum=0.9, samples=ZOO_SAMPLES, steps=ZOO_STEPS),
  Case("resnet18c_sharded", zoo.RESNET18C, "sgd", 0.02, batch=16, seed=2, momentum=0.9, shards=4, samples=ZOO_SAMPLES),
  Case("resnet18c_sharded_adamw", zoo.RESNET18C, "adamw", 1e-3, batch=16, weight_decay=0.01, shards=4, samples=ZOO_SAMPLES),
  Case("cnn_bn_sharded", networks.CNN_BN, "sgd", 0.05, momentum=0.9, shards=4),
  Case("vgg11c_sgd", zoo.VGG11C, "sgd", 0.02, batch=4, seed=3, momentum=0.9, samples=ZOO_SAMPLES, steps=ZOO_STEPS),
  Case("mobilenetv2_sgd", zoo.MOBILENETV2, "sgd", 0.02, batch=4, momentum=0.9, samples=ZOO_SAMPLES, steps=ZOO_STEPS),
]


def loss_of(network, values, x, labels, training):
  """The mean over all labels."""
  return F.cross_entropy(network.forward(values, x, training).flatten(0, -2), labels.flatten())


def processes_of(case, values):
  """What each process holds: the parameters are equal in all, the running statistics are each one's own."""
  buffers = [name for name, _, _ in case.network.buffers]
  return [{**values, **{name: values[name].clone() for name in buffers}} for _ in range(case.shards)]


def sharded_loss(case, processes, x, labels):
  """The mean over the processes, each with its part of the batch; its gradient is the mean of theirs."""
  parts = zip(processes, x.chunk(case.shards), labels.chunk(case.shards))
  return sum(loss_of(case.network, own, part, wanted, True) for own, part, wanted in parts) / case.shards


@dataclass
class Run:
  losses: list
  norms: list  # of the gradient before clipping
  evaluation_loss: float
  values: dict  # name -> float64 numpy array at the end
  averages: dict  # the same, of what has a moving average


def update(case, optimizer, parameters, number):
  """The update of this number from the gradients; returns their norm before clipping."""
  for group in optimizer.param_groups:
    group["lr"] = case.learning_rate(number) * group["factor"]
  if case.clip_value > 0:
    torch.nn.utils.clip_grad_value_(parameters.values(), case.clip_value)
  limit = case.clip_norm if case.clip_norm > 0 else math.inf
  norm = torch.nn.utils.clip_grad_norm_(parameters.values(), limit).item()
  optimizer.step()
  return norm


def train(case, dtype, values=None):
  """case.steps steps in dtype, from the rule's parameters or from the given ones."""
  if values is None:
    values = networks.initial_values(case.network, case.seed, dtype)
  parameters = case.trained(values)
  optimizer = case.make_optimizer(values)
  losses, norms, averages = [], [], {}
  processes = processes_of(case, values)
  for step in range(case.steps):
    x, labels = networks.batch(case.network, case.seed, step, case.batch, dtype)
    if step % case.accumulate == 0:
      optimizer.zero_grad()
    loss = sharded_loss(case, processes, x, labels)
    (loss / case.accumulate).backward()
    losses.append(loss.item())
    if (step + 1) % case.accumulate:
      continue
    norms.append(update(case, optimizer, parameters, step // case.accumulate))
    if case.average > 0:
      with torch.no_grad():
        for name, value in parameters.items():
          average = averages.setdefault(name, value.clone())
          average.lerp_(value, 1 - case.average)
  with torch.no_grad():
    for name, _, _ in case.network.buffers:
      values[name] = sum(own[name] for own in processes) / case.shards
    x, labels = networks.batch(case.network, case.seed, case.steps, case.batch, dtype)
    evaluation = loss_of(case.network, values, x, labels, False).item()
  final = {name: value.detach().to(torch.float64).numpy() for name, value in values.items()}
  averages = {name: value.detach().to(torch.float64).numpy() for name, value in averages.items()}
  return Run(losses, norms, evaluation, final, averages)


def sample_indices(seed, name, count, samples):
  """One index out of each of `samples` equal stretches of the tensor, or all of a tiny one."""
  if count <= samples:
    return list(range(count))
  starts = [part * count // samples for part in range(samples + 1)]
  stream = random_stream.key(seed, "sample:" + name)
  return [
    starts[part] + int(random_stream.below(stream, part, 1, starts[part + 1] - starts[part])[0])
    for part in range(samples)
  ]


def describe(case, name, first, double, single):
  """One parameter or buffer: where it started, where float64 ended, how far away float32 ended."""
  indices = sample_indices(case.seed, name, double.size, case.samples)
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
  averages = [
    describe(case, name + ".average", value * 0, value, single.averages[name])
    for name, value in double.averages.items()
  ]
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
      **({"label_shape": list(case.network.label_shape)} if case.network.label_shape else {}),
    },
    "optimizer": case.settings(),
    "seed": case.seed,
    "batch": case.batch,
    **({"shards": case.shards} if case.shards > 1 else {}),
    "steps": case.steps,
    "torch": torch.__version__.split("+")[0],
    "first_inputs": [float(value) for value in x.reshape(-1)[:8]],
    "first_labels": [int(label) for label in labels.flatten()],
    "learning_rates": [case.learning_rate(step // case.accumulate) for step in range(case.steps)],
    "losses": double.losses,
    "losses_float32": single.losses,
    "losses_float32_distance": max(abs(a - b) for a, b in zip(double.losses, single.losses)),
    "gradient_norms": double.norms,
    "evaluation_loss": double.evaluation_loss,
    "evaluation_loss_float32": single.evaluation_loss,
    "parameters": [entries[name] for name, _, _ in case.network.parameters],
    "buffers": [entries[name] for name, _, _ in case.network.buffers],
    **({"averages": averages} if averages else {}),
  }
