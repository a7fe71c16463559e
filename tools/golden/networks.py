"""The networks of the trajectories, and Koine's rule for their first parameters."""

from dataclasses import dataclass, field

import numpy
import torch
import torch.nn.functional as F

import random_stream


@dataclass
class Network:
  name: str
  input_shape: tuple
  classes: int
  layers: list  # in words, for the reader of the golden file
  parameters: list  # (name, shape, fan_in, or the constant "one" or "zero")
  forward: object  # forward(values, x, training) -> logits (N, classes)
  buffers: list = field(default_factory=list)  # (name, shape, "one" or "zero")


def linear(name, inputs, outputs):
  """weight is (out, in), bias is (out)"""
  return [(f"{name}.weight", (outputs, inputs), inputs), (f"{name}.bias", (outputs,), inputs)]


def conv(name, inputs, outputs, size, bias=True):
  """weight is (K, C, R, S), bias is (K)"""
  fan_in = inputs * size * size
  weight = [(f"{name}.weight", (outputs, inputs, size, size), fan_in)]
  return weight + ([(f"{name}.bias", (outputs,), fan_in)] if bias else [])


def apply_linear(values, name, x):
  return F.linear(x, values[f"{name}.weight"], values[f"{name}.bias"])


def mlp_forward(values, x, training):
  x = F.relu(apply_linear(values, "linear1", x))
  x = F.relu(apply_linear(values, "linear2", x))
  return apply_linear(values, "logits", x)


def lenet_forward(values, x, training):
  x = F.relu(F.conv2d(x, values["conv1.weight"], values["conv1.bias"]))
  x = F.relu(F.conv2d(x, values["conv2.weight"], values["conv2.bias"]))
  x = F.max_pool2d(x, 2).flatten(1)
  x = F.relu(apply_linear(values, "linear1", x))
  return apply_linear(values, "logits", x)


def cnn_bn_forward(values, x, training):
  x = F.conv2d(x, values["conv1.weight"], None, stride=2, padding=1)
  x = F.batch_norm(
    x,
    values["batchnorm1.running_mean"],
    values["batchnorm1.running_var"],
    values["batchnorm1.weight"],
    values["batchnorm1.bias"],
    training=training,
    momentum=0.1,
    eps=1e-5,
  )
  x = F.avg_pool2d(F.relu(x), 2)
  return apply_linear(values, "logits", x.mean(dim=(2, 3)))


MLP = Network(
  "mlp",
  (784,),
  10,
  ["input x 784", "linear 512", "relu", "linear 512", "relu", "logits = linear 10"],
  linear("linear1", 784, 512) + linear("linear2", 512, 512) + linear("logits", 512, 10),
  mlp_forward,
)

LENET = Network(
  "lenet",
  (1, 28, 28),
  10,
  ["input x 1x28x28", "conv 32 3", "relu", "conv 64 3", "relu", "maxpool 2", "flatten", "linear 128", "relu"]
  + ["logits = linear 10"],
  conv("conv1", 1, 32, 3)
  + conv("conv2", 32, 64, 3)
  + linear("linear1", 9216, 128)
  + linear("logits", 128, 10),
  lenet_forward,
)

CNN_BN = Network(
  "cnn_bn",
  (3, 15, 15),
  10,
  [
    "input x 3x15x15",
    "conv 8 3 stride=2 padding=1, without bias",
    "batch norm, momentum 0.1, eps 1e-5",
    "relu",
  ]
  + ["average pool 2", "global average pool", "flatten", "logits = linear 10"],
  conv("conv1", 3, 8, 3, bias=False)
  + [("batchnorm1.weight", (8,), "one"), ("batchnorm1.bias", (8,), "zero")]
  + linear("logits", 8, 10),
  cnn_bn_forward,
  [("batchnorm1.running_mean", (8,), "zero"), ("batchnorm1.running_var", (8,), "one")],
)


def initial(seed, name, shape, rule):
  """The first value of a parameter, float32, in plain row-major order."""
  count = int(numpy.prod(shape))
  if rule == "one":
    return numpy.ones(shape, numpy.float32)
  if rule == "zero":
    return numpy.zeros(shape, numpy.float32)
  bound = numpy.float32(1.0 / numpy.sqrt(numpy.float64(rule)))
  u = random_stream.uniform(random_stream.key(seed, name), 0, count)
  values = (numpy.float32(2) * u - numpy.float32(1)) * bound
  assert values.dtype == numpy.float32
  return values.reshape(shape)


def initial_values(network, seed, dtype):
  """name -> tensor of every parameter (with gradient) and buffer (without)."""
  values = {}
  for name, shape, rule in network.parameters:
    values[name] = torch.from_numpy(initial(seed, name, shape, rule)).to(dtype).requires_grad_(True)
  for name, shape, rule in network.buffers:
    values[name] = torch.from_numpy(initial(seed, name, shape, rule)).to(dtype)
  return values


def batch(network, seed, step, count, dtype):
  """x is (count, input shape) in [0, 1), labels is (count) in [0, classes)"""
  elements = count * int(numpy.prod(network.input_shape))
  x = random_stream.uniform(random_stream.key(seed, "x"), step * elements, elements)
  labels = random_stream.below(random_stream.key(seed, "label"), step * count, count, network.classes)
  return torch.from_numpy(x.reshape((count,) + network.input_shape)).to(dtype), torch.from_numpy(labels)
