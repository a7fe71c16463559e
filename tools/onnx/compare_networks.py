"""Small networks for compare_torch.py, of the kinds that people export."""

from dataclasses import dataclass
from typing import Callable

import numpy
import torch
from torch import nn

CLASSES = 5


def fold(module):
  """The network with each batch norm put into the convolution before it."""
  module = module.eval()
  for part in module.modules():
    for name in [name for name, _ in part.named_children() if name.startswith("norm")]:
      before = getattr(part, name.replace("norm", "conv"))
      setattr(part, name.replace("norm", "conv"), nn.utils.fusion.fuse_conv_bn_eval(before, getattr(part, name)))
      setattr(part, name, nn.Identity())
  return module.requires_grad_(True)  # biases that come from a norm are not, by themselves


def begin_norms(module):
  """Statistics as a training leaves them; folded, no sum is then exactly 0, where relu6 and clamp, which both become
  Clip, have different gradients."""
  for part in module.modules():
    if isinstance(part, nn.BatchNorm2d):
      part.running_mean.uniform_(-0.2, 0.2)
      part.running_var.uniform_(0.7, 1.3)
      nn.init.uniform_(part.weight, 0.8, 1.2)
      nn.init.uniform_(part.bias, -0.1, 0.1)


class Mlp(nn.Sequential):
  def __init__(self):
    super().__init__(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, CLASSES))


class Residual(nn.Module):
  def __init__(self, inputs, channels, stride, straight=False):
    super().__init__()
    self.straight = straight
    self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
    self.norm1 = nn.BatchNorm2d(channels)
    self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
    self.norm2 = nn.BatchNorm2d(channels)
    if not straight:
      self.conv3 = nn.Conv2d(inputs, channels, 1, stride, bias=False)
      self.norm3 = nn.BatchNorm2d(channels)

  def forward(self, x):
    y = torch.relu(self.norm1(self.conv1(x)))
    return torch.relu(self.norm2(self.conv2(y)) + (x if self.straight else self.norm3(self.conv3(x))))


class Resnet(nn.Module):
  """Convolutions with batch norms whose statistics are not those of the start, residuals, both kinds of pooling."""

  def __init__(self):
    super().__init__()
    self.conv0 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
    self.norm0 = nn.BatchNorm2d(8)
    self.first = Residual(8, 8, 1)
    self.second = Residual(8, 16, 2)
    self.head = nn.Linear(16, CLASSES)
    begin_norms(self)

  def forward(self, x):
    x = nn.functional.max_pool2d(torch.relu(self.norm0(self.conv0(x))), 2)
    x = self.second(self.first(x))
    return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Mobile(nn.Module):
  """Depthwise convolutions between expansions."""

  def __init__(self):
    super().__init__()
    self.conv0, self.norm0 = nn.Conv2d(3, 12, 1, bias=False), nn.BatchNorm2d(12)
    self.conv1, self.norm1 = nn.Conv2d(12, 12, 3, 2, 1, groups=12, bias=False), nn.BatchNorm2d(12)
    self.conv2, self.norm2 = nn.Conv2d(12, 8, 1, bias=False), nn.BatchNorm2d(8)
    self.head = nn.Linear(8, CLASSES)
    begin_norms(self)

  def forward(self, x):
    x = nn.functional.relu6(self.norm0(self.conv0(x)))
    x = nn.functional.relu6(self.norm1(self.conv1(x)))
    return self.head(self.norm2(self.conv2(x)).mean((2, 3)))


class Unet(nn.Module):
  """Down and up again: a class for each pixel, classes last as the loss wants them."""

  def __init__(self):
    super().__init__()
    self.down = nn.Conv2d(3, 8, 3, 1, 1)
    self.middle = nn.Conv2d(8, 16, 3, 1, 1)
    self.up = nn.ConvTranspose2d(16, 8, 2, 2)
    self.last = nn.Conv2d(16, CLASSES, 1)

  def forward(self, x):
    down = torch.relu(self.down(x))
    middle = torch.relu(self.middle(nn.functional.max_pool2d(down, 2)))
    return self.last(torch.cat([down, self.up(middle)], 1)).permute(0, 2, 3, 1)


class Squeeze(nn.Module):
  """Two widths side by side, and a convolution for the classes."""

  def __init__(self):
    super().__init__()
    self.first = nn.Conv2d(3, 8, 3, 2)
    self.squeeze = nn.Conv2d(8, 4, 1)
    self.narrow, self.wide = nn.Conv2d(4, 8, 1), nn.Conv2d(4, 8, 3, 1, 1)
    self.head = nn.Conv2d(16, CLASSES, 1)

  def forward(self, x):
    x = torch.relu(self.squeeze(nn.functional.max_pool2d(torch.relu(self.first(x)), 3, 2, ceil_mode=True)))
    x = torch.relu(torch.cat([self.narrow(x), self.wide(x)], 1))
    return nn.functional.adaptive_avg_pool2d(self.head(x), 1).flatten(1)


class Lstm(nn.Module):
  def __init__(self):
    super().__init__()
    self.lstm = nn.LSTM(6, 10, batch_first=True)
    self.head = nn.Linear(10, CLASSES)

  def forward(self, x):
    return self.head(self.lstm(x)[0][:, -1])


class Gpt(nn.Module):
  """Tokens and places, a block with causal attention written out, and a class for each place."""

  def __init__(self, tokens=CLASSES, places=12, width=16, heads=2):
    super().__init__()
    self.heads = heads
    self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(places, width)
    self.before, self.between, self.after = (nn.LayerNorm(width) for _ in range(3))
    self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    self.head = nn.Linear(width, tokens)
    self.register_buffer("mask", torch.full((places, places), float("-inf")).triu(1))

  def forward(self, x):
    rows = x.shape[1]
    x = self.tokens(x) + self.places(torch.arange(rows))
    q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1))
    weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + self.mask, -1)
    x = x + self.mix((weights @ v).transpose(1, 2).flatten(2))
    x = x + self.narrow(nn.functional.gelu(self.wide(self.between(x))))
    return self.head(self.after(x))


class Rotary(nn.Module):
  """Attention with rotary positions and an additive mask, which are buffers."""

  def __init__(self, places=8, width=16, heads=2):
    super().__init__()
    self.heads = heads
    self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
    self.qkv, self.mix, self.head = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, CLASSES)
    turns = torch.arange(places)[:, None] * 100.0 ** -torch.linspace(0, 1, width // heads // 2)
    self.register_buffer("cos", torch.cat([turns, turns], -1).cos())
    self.register_buffer("sin", torch.cat([turns, turns], -1).sin())
    self.register_buffer("mask", torch.full((places, places), -1e9).triu(1))

  def turn(self, x):
    left, right = x.chunk(2, -1)
    return x * self.cos + torch.cat([-right, left], -1) * self.sin

  def forward(self, x):
    q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1))
    weights = torch.softmax(self.turn(q) @ self.turn(k).transpose(-1, -2) / q.shape[-1] ** 0.5 + self.mask, -1)
    return self.head(self.after(x + self.mix((weights @ v).transpose(1, 2).flatten(2))))


class Sound(nn.Module):
  """Frames under a window, their spectra by products with buffers, bands of these, and a convolution."""

  def __init__(self, frame=32, bands=10):
    super().__init__()
    angles = 2 * torch.pi / frame * torch.arange(frame)[:, None] * torch.arange(frame // 2 + 1)
    self.register_buffer("window", torch.hann_window(frame))
    self.register_buffer("real_dft", angles.cos())
    self.register_buffer("imag_dft", angles.sin())
    self.register_buffer("fb", torch.rand(frame // 2 + 1, bands))
    self.conv, self.head = nn.Conv1d(bands, 8, 3, padding=1), nn.Linear(8, CLASSES)

  def forward(self, x):
    x = x * self.window
    power = (x @ self.real_dft) ** 2 + (x @ self.imag_dft) ** 2
    x = torch.log(power @ self.fb + 1e-2).transpose(1, 2)
    return self.head(torch.relu(self.conv(x)).mean(-1))


class Masked(nn.Module):
  """Buffers that are multiplied, from the left and place by place, a parameter that is one number, and norms that begin
  alike, so that exporters keep one of their weights for all."""

  def __init__(self, places=8, width=12):
    super().__init__()
    self.register_buffer("before", torch.ones(places, places).tril() / places)
    self.register_buffer("kept", (torch.rand(places, width) > 0.3).float())
    self.first, self.last = nn.Linear(6, width), nn.Linear(width, CLASSES)
    self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)
    self.share = nn.Parameter(torch.tensor(0.7))

  def forward(self, x):
    x = self.norm_a(torch.tanh(self.first(x)))
    return self.last(self.norm_b(self.before @ x * self.kept * self.share + x))


class Spatial(nn.Module):
  """A spatial transformer: the network predicts a transformation, and the image is interpolated."""

  def __init__(self):
    super().__init__()
    self.where = nn.Linear(144, 6)
    self.conv, self.head = nn.Conv2d(1, 6, 3), nn.Linear(6, CLASSES)
    nn.init.normal_(self.where.weight, std=1e-3)
    self.where.bias.data.copy_(torch.tensor([0.83, 0.11, 0.053, -0.09, 0.91, 0.031]))

  def forward(self, x):
    grid = nn.functional.affine_grid(self.where(x.flatten(1)).unflatten(1, (2, 3)), x.size(), align_corners=False)
    x = nn.functional.grid_sample(x, grid, align_corners=False)
    return self.head(torch.relu(self.conv(x)).mean((2, 3)))


@dataclass
class Network:
  name: str
  make: Callable
  shape: tuple  # of a sample
  label_shape: tuple = ()
  folds: bool = False  # has batch norms
  tokens: bool = False
  open_length: bool = False  # of any number of places
  lr: float = 0.05
  folded_lr: float = 0  # without batch norms, whose gradients grow from layer to layer; 0: the same

  def data(self, random, samples, shorter=0):
    shape = (samples, self.shape[0] - shorter) + self.shape[1:]
    x = random.integers(0, CLASSES, shape) if self.tokens else random.random(shape, numpy.float32)
    return x, random.integers(0, CLASSES, (samples,) + self.label_shape)


PICTURE = (3, 12, 12)
NETWORKS = [
  Network("mlp", Mlp, (20,)),
  Network("resnet", Resnet, PICTURE, folds=True),
  Network("mobile", Mobile, PICTURE, folds=True),
  Network("unet", Unet, PICTURE, PICTURE[1:]),
  Network("squeeze", Squeeze, PICTURE),
  Network("lstm", Lstm, (7, 6)),
  Network("gpt", Gpt, (12,), (12,), tokens=True),
  Network("rotary", Rotary, (8, 16), (8,)),
  Network("sound", Sound, (9, 32)),
  Network("masked", Masked, (8, 6), (8,)),
  Network("spatial", Spatial, (1, 12, 12), lr=0.005),
]
