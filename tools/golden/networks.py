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
  tokens: int = 0  # inputs are integers below this, with a label for each; 0: inputs are real
  label_shape: tuple = ()  # of the labels of one sample


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

def small_forward(values, x, training):
  x = torch.tanh(apply_linear(values, "linear1", x))
  x = torch.tanh(apply_linear(values, "linear2", x))
  return apply_linear(values, "logits", x)


# For rules of optimizers: smooth, and with few numbers, so that hardly any gradient consists only of rounding errors.
SMALL = Network(
  "small",
  (12,),
  5,
  ["input x 12", "linear 16", "tanh", "linear 16", "tanh", "logits = linear 5"],
  linear("linear1", 12, 16) + linear("linear2", 16, 16) + linear("logits", 16, 5),
  small_forward,
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


def norm(name, size):
  return [(f"{name}.weight", (size,), "one"), (f"{name}.bias", (size,), "zero")]


# A bound of 1/2, as fan_in of a table.
TABLE = 4


GATES = {"rnn": 1, "lstm": 4, "gru": 3}


def recurrent(kind, name, inputs, units, suffix=""):
  """weight_ih is (gates*units, inputs), weight_hh is (gates*units, units), both biases (gates*units)"""
  rows = GATES[kind] * units
  shapes = [("weight_ih", (rows, inputs)), ("weight_hh", (rows, units)), ("bias_ih", (rows,)), ("bias_hh", (rows,))]
  return [(f"{name}.{part}{suffix}", shape, units) for part, shape in shapes]


def recurrent_forward(kind, names):
  """x is (N, T) tokens, the result (N, T, classes)"""

  def forward(values, x, training):
    x = F.embedding(x, values["embedding1.weight"])
    for name in names:
      weights = [values[f"{name}.{part}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
      zero = torch.zeros(1, len(x), weights[1].shape[1], dtype=x.dtype)
      function = {"rnn": torch.rnn_tanh, "lstm": torch.lstm, "gru": torch.gru}[kind]
      x = function(x, (zero, zero) if kind == "lstm" else zero, weights, True, 1, 0.0, training, False, True)[0]
    return apply_linear(values, "logits", x)

  return forward


LSTM = Network(
  "lstm",
  (9,),
  11,
  ["input x 9 int32", "embedding 11 8 init=uniform:0.5", "lstm 20", "lstm 20", "logits = linear 11"],
  [("embedding1.weight", (11, 8), TABLE)]
  + recurrent("lstm", "lstm1", 8, 20)
  + recurrent("lstm", "lstm2", 20, 20)
  + linear("logits", 20, 11),
  recurrent_forward("lstm", ("lstm1", "lstm2")),
  tokens=11,
)

GRU = Network(
  "char-gru",
  (9,),
  11,
  ["input x 9 int32", "embedding 11 8 init=uniform:0.5", "gru 20", "gru 20", "logits = linear 11"],
  [("embedding1.weight", (11, 8), TABLE)]
  + recurrent("gru", "gru1", 8, 20)
  + recurrent("gru", "gru2", 20, 20)
  + linear("logits", 20, 11),
  recurrent_forward("gru", ("gru1", "gru2")),
  tokens=11,
)

ELMAN = Network(
  "elman",
  (9,),
  11,
  ["input x 9 int32", "embedding 11 8 init=uniform:0.5", "rnn 20", "logits = linear 11"],
  [("embedding1.weight", (11, 8), TABLE)] + recurrent("rnn", "rnn1", 8, 20) + linear("logits", 20, 11),
  recurrent_forward("rnn", ("rnn1",)),
  tokens=11,
)


def stateful_forward(values, x, training):
  """In training each step begins with the states that the one before left; no gradient goes back there."""
  x = F.embedding(x, values["embedding1.weight"])
  for name, suffixes in (("lstm1", [""]), ("gru1", ["", "_l1"])):
    kept = ["state", "cells"] if name == "lstm1" else ["state"]
    for suffix in suffixes:
      weights = [values[f"{name}.{part}{suffix}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
      states = [values[f"{name}.{part}{suffix}"] for part in kept]
      first = [state.detach().clone()[None] if training else torch.zeros_like(state)[None] for state in states]
      function, first = (torch.lstm, first) if name == "lstm1" else (torch.gru, first[0])
      x, *last = function(x, first, weights, True, 1, 0.0, training, False, True)
      for state, value in zip(states, last):
        if training:
          state.copy_(value[0].detach())
  return apply_linear(values, "logits", x)


STATEFUL = Network(
  "stateful",
  (9,),
  11,
  ["input x 9 int32", "embedding 11 8 init=uniform:0.5", "lstm 20 stateful", "gru 20 layers=2 stateful"]
  + ["logits = linear 11"],
  [("embedding1.weight", (11, 8), TABLE)]
  + recurrent("lstm", "lstm1", 8, 20)
  + recurrent("gru", "gru1", 20, 20)
  + recurrent("gru", "gru1", 20, 20, "_l1")
  + linear("logits", 20, 11),
  stateful_forward,
  [(name, (7, 20), "zero") for name in ("lstm1.state", "lstm1.cells", "gru1.state", "gru1.state_l1")],
  tokens=11,
)

GPT_HEADS = 2  # no bias in front: softmax ignores that of a key, whose gradient would be only rounding errors


def apply_norm(values, name, x):
  return F.layer_norm(x, x.shape[-1:], values[f"{name}.weight"], values[f"{name}.bias"], 1e-5)


def gpt_layer(values, name, x):
  """x is (N, T, C)"""
  qkv = F.linear(apply_norm(values, f"{name}.layernorm1", x), values[f"{name}.linear1.weight"])
  heads = [part.unflatten(-1, (GPT_HEADS, -1)).transpose(1, 2) for part in qkv.chunk(3, -1)]
  seen = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
  x = x + apply_linear(values, f"{name}.linear2", seen)
  wide = apply_linear(values, f"{name}.linear3", apply_norm(values, f"{name}.layernorm2", x))
  return x + apply_linear(values, f"{name}.linear4", F.gelu(wide, approximate="tanh"))


def gpt_forward(values, x, training):
  """x is (N, T) tokens, the result (N, T, classes)"""
  x = F.embedding(x, values["token_embedding.weight"]) + values["position_embedding"]
  x = gpt_layer(values, "layer2", gpt_layer(values, "layer1", x))
  return F.linear(apply_norm(values, "layernorm1", x), values["logits.weight"])


def gpt_parameters(width):
  parameters = [("position_embedding", (10, width), TABLE), ("token_embedding.weight", (11, width), TABLE)]
  for name in ("layer1", "layer2"):
    parameters += norm(f"{name}.layernorm1", width) + linear(f"{name}.linear1", width, 3 * width)[:1]
    parameters += linear(f"{name}.linear2", width, width) + norm(f"{name}.layernorm2", width)
    parameters += linear(f"{name}.linear3", width, 4 * width) + linear(f"{name}.linear4", 4 * width, width)
  return parameters + norm("layernorm1", width) + linear("logits", width, 11)[:1]


GPT = Network(
  "gpt",
  (10,),
  11,
  ["block layer", "layernorm", "linear 72 bias=no", "attention heads=2 causal", "linear 24", "seen = add @ @in"]
  + ["layernorm", "linear 96", "gelu_tanh", "linear 24", "add @ @seen", "end"]
  + ["input x 10 int32", "position_embedding = parameter 10x24 init=uniform:0.5"]
  + ["token_embedding = embedding @x 11 24 init=uniform:0.5", "add @token_embedding @position_embedding"]
  + ["layer", "layer", "layernorm", "logits = linear 11 bias=no"],
  gpt_parameters(24),
  gpt_forward,
  tokens=11,
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
  """x is (count, input shape) in [0, 1), labels is (count, label shape) in [0, classes)

  With tokens x is in [0, tokens), and labels has its shape.
  """
  elements = count * int(numpy.prod(network.input_shape))
  if network.tokens:
    x = random_stream.below(random_stream.key(seed, "x"), step * elements, elements, network.tokens)
    labels = random_stream.below(random_stream.key(seed, "label"), step * elements, elements, network.classes)
    shape = (count,) + network.input_shape
    return torch.from_numpy(x.reshape(shape)), torch.from_numpy(labels.reshape(shape))
  x = random_stream.uniform(random_stream.key(seed, "x"), step * elements, elements)
  wanted = count * int(numpy.prod(network.label_shape))
  labels = random_stream.below(random_stream.key(seed, "label"), step * wanted, wanted, network.classes)
  labels = torch.from_numpy(labels.reshape((count,) + network.label_shape))
  return torch.from_numpy(x.reshape((count,) + network.input_shape)).to(dtype), labels
