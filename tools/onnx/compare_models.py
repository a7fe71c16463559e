"""Well-known networks for compare_torch.py, with random weights and few classes."""

import torch
from torch import nn
from torch.nn import functional

from compare_networks import CLASSES, Network, Residual, begin_norms


class Resnet18(nn.Module):
  def __init__(self):
    super().__init__()
    self.conv0, self.norm0 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
    widths = (64, 64, 128, 256, 512)
    self.stages = nn.Sequential()
    for before, width in zip(widths, widths[1:]):
      stride = 1 if before == width else 2
      self.stages.append(Residual(before, width, stride, straight=stride == 1))
      self.stages.append(Residual(width, width, 1, straight=True))
    self.head = nn.Linear(512, CLASSES)
    begin_norms(self)

  def forward(self, x):
    x = functional.max_pool2d(torch.relu(self.norm0(self.conv0(x))), 3, 2, 1)
    return self.head(functional.adaptive_avg_pool2d(self.stages(x), 1).flatten(1))


class Inverted(nn.Module):
  """A bottleneck of MobileNetV2."""

  def __init__(self, inputs, outputs, stride, expansion):
    super().__init__()
    wide = inputs * expansion
    if expansion > 1:
      self.conv1, self.norm1 = nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide)
    self.conv2, self.norm2 = nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide)
    self.conv3, self.norm3 = nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
    self.expands, self.around = expansion > 1, stride == 1 and inputs == outputs

  def forward(self, x):
    y = functional.relu6(self.norm1(self.conv1(x))) if self.expands else x
    y = self.norm3(self.conv3(functional.relu6(self.norm2(self.conv2(y)))))
    return x + y if self.around else y


class Mobilenetv2(nn.Module):
  def __init__(self):
    super().__init__()
    self.conv0, self.norm0 = nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32)
    self.blocks, inputs = nn.Sequential(), 32
    for expansion, width, times, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                            (6, 160, 3, 2), (6, 320, 1, 1)):
      for i in range(times):
        self.blocks.append(Inverted(inputs, width, stride if i == 0 else 1, expansion))
        inputs = width
    self.conv1, self.norm1 = nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280)
    self.dropout, self.head = nn.Dropout(0.0), nn.Linear(1280, CLASSES)
    begin_norms(self)

  def forward(self, x):
    x = self.blocks(functional.relu6(self.norm0(self.conv0(x))))
    x = functional.relu6(self.norm1(self.conv1(x)))
    return self.head(self.dropout(x.mean((2, 3))))


class Fire(nn.Module):
  def __init__(self, inputs, narrow, wide):
    super().__init__()
    self.squeeze = nn.Conv2d(inputs, narrow, 1)
    self.expand1, self.expand3 = nn.Conv2d(narrow, wide, 1), nn.Conv2d(narrow, wide, 3, padding=1)

  def forward(self, x):
    x = torch.relu(self.squeeze(x))
    return torch.cat([torch.relu(self.expand1(x)), torch.relu(self.expand3(x))], 1)


class Squeezenet(nn.Sequential):
  """SqueezeNet 1.1."""

  def __init__(self):
    def pool():
      return nn.MaxPool2d(3, 2, ceil_mode=True)
    super().__init__(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(),
                     Fire(128, 32, 128), Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192),
                     Fire(384, 64, 256), Fire(512, 64, 256), nn.Conv2d(512, CLASSES, 1), nn.ReLU(),
                     nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Twice(nn.Module):
  """Two convolutions of a U-Net."""

  def __init__(self, inputs, outputs):
    super().__init__()
    self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
    self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)

  def forward(self, x):
    return torch.relu(self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x))))))


class Unet3(nn.Module):
  """Three sizes; one upsampling is a learnt transposed convolution, the other interpolates."""

  def __init__(self, width=16):
    super().__init__()
    self.down1, self.down2, self.deep = Twice(3, width), Twice(width, 2 * width), Twice(2 * width, 4 * width)
    self.up = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
    self.up2, self.up1 = Twice(4 * width, 2 * width), Twice(3 * width, width)
    self.last = nn.Conv2d(width, CLASSES, 1)
    begin_norms(self)

  def forward(self, x):
    first = self.down1(x)
    second = self.down2(functional.max_pool2d(first, 2))
    deep = self.up(self.deep(functional.max_pool2d(second, 2)))
    up = self.up2(torch.cat([second, deep], 1))
    up = functional.interpolate(up, scale_factor=2, mode="bilinear", align_corners=False)
    return self.last(self.up1(torch.cat([first, up], 1))).permute(0, 2, 3, 1)


class Lstm2(nn.Module):
  """Two layers, the first of which could not distinguish the last position without the second."""

  def __init__(self):
    super().__init__()
    self.lstm = nn.LSTM(12, 32, num_layers=2, batch_first=True)
    self.head = nn.Linear(32, CLASSES)

  def forward(self, x):
    return self.head(self.lstm(x)[0])


class Block(nn.Module):
  def __init__(self, width, heads):
    super().__init__()
    self.heads = heads
    self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
    self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

  def forward(self, x):
    q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1))
    x = x + self.mix(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
    return x + self.narrow(functional.gelu(self.wide(self.between(x))))


class SmallGpt(nn.Module):
  def __init__(self, tokens=CLASSES, places=32, width=48, heads=3):
    super().__init__()
    self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(places, width)
    self.blocks = nn.Sequential(Block(width, heads), Block(width, heads))
    self.after, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

  def forward(self, x):
    x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
    return self.head(self.after(self.blocks(x)))


MODELS = [
  Network("resnet18", Resnet18, (3, 48, 48), folds=True, lr=0.0001, folded_lr=0.01),
  Network("mobilenetv2", Mobilenetv2, (3, 64, 64), folds=True, lr=0.000002, folded_lr=0.01),
  Network("squeezenet", Squeezenet, (3, 48, 48), lr=0.01),
  Network("unet3", Unet3, (3, 16, 16), (16, 16), folds=True, lr=0.01),
  Network("lstm2", Lstm2, (9, 12), (9,), open_length=True),
  Network("gpt2", SmallGpt, (16,), (16,), tokens=True, open_length=True),
]
