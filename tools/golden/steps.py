#!/usr/bin/env python3
"""Trains networks by koine.torch and by PyTorch from the same start, and compares the losses of each step.

    steps.py [NETWORK...]      all without a name; PYTHONPATH and KOINE_LIBRARY as for the package's tests

PyTorch trains in float64, which is taken to be right, and in float32. Koine's losses may be 1e-3 of the loss
away from the right ones, or four times as far as those of PyTorch's float32 are at that step or were before: some
networks enlarge the rounding of their first step. Exits with 1 if a loss is further away.
"""

import copy
import sys
import warnings

import koine
import torch
from torch import nn
from torch.nn import functional

STEPS, ALLOWED, FACTOR = 20, 1e-3, 4


class Block(nn.Module):
  """Two convolutions and what they are added to, as in ResNet-18."""

  def __init__(self, inputs, channels, stride):
    super().__init__()
    self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
    self.norm1 = nn.BatchNorm2d(channels)
    self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
    self.norm2 = nn.BatchNorm2d(channels)
    self.relu = nn.ReLU(inplace=True)
    self.down = nn.Identity()
    if stride > 1 or inputs != channels:
      self.down = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

  def forward(self, x):
    y = self.relu(self.norm1(self.conv1(x)))
    return self.relu(self.norm2(self.conv2(y)) + self.down(x))


def resnet():
  widths = [(8, 8, 1), (8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
  first = [nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
  last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
  return nn.Sequential(*first, *[Block(*width) for width in widths], *last)


def lenet():
  return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                       nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                       nn.Linear(84, 10))


class Encoder(nn.Module):
  """A language model of PyTorch's own layers, with one table for tokens and logits."""

  def __init__(self, tokens=50, size=32, length=12):
    super().__init__()
    self.tokens, self.places = nn.Embedding(tokens, size), nn.Embedding(length, size)
    layer = nn.TransformerEncoderLayer(size, 4, 64, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
    self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, tokens, bias=False)
    nn.init.normal_(self.tokens.weight, std=0.1)
    self.head.weight = self.tokens.weight

  def forward(self, x):
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=self.tokens.weight.dtype)
    x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
    return self.head(self.norm(self.layers(x, mask=mask, is_causal=True)))


class Decoder(nn.Module):
  """A layer with scaled_dot_product_attention, as small GPTs have it."""

  def __init__(self, tokens=50, size=32, heads=4):
    super().__init__()
    self.heads = heads
    self.tokens, self.norm1, self.norm2 = nn.Embedding(tokens, size), nn.LayerNorm(size), nn.LayerNorm(size)
    self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
    self.wide, self.narrow, self.head = nn.Linear(size, 4 * size), nn.Linear(4 * size, size), nn.Linear(size, tokens)

  def forward(self, x):
    x = self.tokens(x)
    batch, length, size = x.shape
    parts = self.qkv(self.norm1(x)).split(size, dim=2)
    q, k, v = (part.view(batch, length, self.heads, size // self.heads).transpose(1, 2) for part in parts)
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + self.out(y.transpose(1, 2).contiguous().view(batch, length, size))
    return self.head(x + self.narrow(functional.gelu(self.wide(self.norm2(x)), approximate="tanh")))


class Recurrent(nn.Module):
  def __init__(self, kind, **more):
    super().__init__()
    self.layer = kind(6, 16, 2, batch_first=True, **more)
    self.head = nn.Linear(32 if more.get("bidirectional") else 16, 3)

  def forward(self, x):
    return self.head(self.layer(x)[0][:, -1])


def of_tokens(logits, target):
  return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def numbers(*shape):
  return lambda: torch.randn(16, *shape)


def labels(most, *shape):
  return lambda: torch.randint(0, most, (16, *shape))


def mlp():
  return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.0), nn.Linear(32, 4))


# The network, its loss, what draws a batch and its targets.
NETWORKS = {
  "mlp": (mlp, nn.CrossEntropyLoss(), numbers(10), labels(4)),
  "mlp-mse": (mlp, functional.mse_loss, numbers(10), numbers(4)),
  "lenet": (lenet, nn.CrossEntropyLoss(label_smoothing=0.1), numbers(1, 28, 28), labels(10)),
  "resnet18": (resnet, nn.CrossEntropyLoss(), numbers(3, 32, 32), labels(10)),
  "encoder": (Encoder, of_tokens, labels(50, 12), labels(50, 12)),
  "gpt": (Decoder, of_tokens, labels(50, 12), labels(50, 12)),
  "lstm": (lambda: Recurrent(nn.LSTM, bidirectional=True), nn.CrossEntropyLoss(), numbers(7, 6), labels(3)),
  "gru": (lambda: Recurrent(nn.GRU), nn.CrossEntropyLoss(), numbers(7, 6), labels(3)),
}
OPTIMIZERS = {
  "sgd": lambda parameters, rate: torch.optim.SGD(parameters, 10 * rate, momentum=0.9, nesterov=True, weight_decay=1e-3),
  "adamw": lambda parameters, rate: torch.optim.AdamW(parameters, rate),
}
# Batch norms before rectifiers enlarge rounding with each element that changes its side.
RATES = {"resnet18": 1e-4}


def in_pytorch(model, loss, optimizer, batches, dtype):
  found = []
  for x, y in batches:
    x, y = (tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in (x, y))
    optimizer.zero_grad()
    value = loss(model(x), y)
    value.backward()
    optimizer.step()
    found.append(value.item())
  return found


def against_pytorch(ours, models, loss, optimizers, batches):
  """models: one in float32 and its copy in float64, which PyTorch trains. The right losses; how far Koine's and those of float32 are
  from them at most; whether Koine's are near enough at each step."""
  single, double = (in_pytorch(models[i], loss, optimizers[i], batches, (torch.float32, torch.float64)[i]) for i in (0, 1))
  far = [[abs(number - right) / abs(right) for number, right in zip(found, double)] for found in (ours, single)]
  good = all(mine <= max(ALLOWED, FACTOR * max(far[1][:i + 1])) for i, mine in enumerate(far[0]))
  return double, max(far[0]), max(far[1]), good


def compare(name, rule):
  """Prints a line; returns whether Koine's losses are near enough."""
  make, loss, draw, draw_target = NETWORKS[name]
  torch.manual_seed(1)
  start, batches = make(), [(draw(), draw_target()) for _ in range(STEPS)]
  models = [start, copy.deepcopy(start), copy.deepcopy(start).double()]
  optimizers = [OPTIMIZERS[rule](model.parameters(), RATES.get(name, 1e-3)) for model in models]
  with koine.torch.train_step(models[0], loss, optimizers[0]) as step:
    losses = [step(x, y) for x, y in batches]
    ours = [value.item() for value in losses]
  double, own, theirs, good = against_pytorch(ours, models[1:], loss, optimizers[1:], batches)
  print(f"{name:10} {rule:6} loss {double[0]:8.4f} to {double[-1]:8.4f}; furthest: Koine {own:.1e}, "
        f"PyTorch's float32 {theirs:.1e}  {'ok' if good else 'TOO FAR'}", flush=True)
  return good


def main():
  names = sys.argv[1:] or list(NETWORKS)
  unknown = [name for name in names if name not in NETWORKS]
  if unknown:
    raise SystemExit(f"no network {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
  warnings.simplefilter("ignore")
  torch.set_num_threads(1)
  results = [compare(name, rule) for name in names for rule in OPTIMIZERS]
  raise SystemExit(0 if all(results) else 1)


if __name__ == "__main__":
  main()
