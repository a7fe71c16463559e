"""The networks of the comparison in PyTorch, as one would write them there.

Modules are named as Koine names its layers, so that parameters have the same names on both sides; `koine_names` has
what is left of the difference.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Chain(nn.Module):
    """A chain of modules, each with its name."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        for part in self.children():
            x = part(x)
        return x


def mlp():
    return Chain(
        flatten1=nn.Flatten(),
        linear1=nn.Linear(784, 512),
        relu1=nn.ReLU(),
        linear2=nn.Linear(512, 512),
        relu2=nn.ReLU(),
        logits=nn.Linear(512, 10),
    )


def lenet():
    return Chain(
        conv1=nn.Conv2d(1, 32, 3),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(32, 64, 3),
        relu2=nn.ReLU(),
        maxpool1=nn.MaxPool2d(2),
        flatten1=nn.Flatten(),
        linear1=nn.Linear(9216, 128),
        relu3=nn.ReLU(),
        logits=nn.Linear(128, 10),
    )


# ---- residual networks


def convolution(inputs, outputs, window, stride=1, groups=1):
    return nn.Conv2d(inputs, outputs, window, stride, window // 2, groups=groups, bias=False)


class Residual(nn.Module):
    """Convolutions with batch norms and a shortcut, which has a convolution where the shape changes."""

    def __init__(self, sizes, shortcut):
        """sizes: (inputs, outputs, window, stride) of each convolution"""
        super().__init__()
        count = len(sizes)
        self.way, self.has_shortcut = [], shortcut
        for i, size in enumerate(sizes, 1):
            # Where there are two ways, the last batch norm of the longer one has a separate name in Koine's text.
            norm = "residual_norm" if shortcut and i == count else f"batchnorm{i}"
            self.add_module(f"conv{i}", convolution(*size))
            self.add_module(norm, nn.BatchNorm2d(size[1]))
            self.way.append((f"conv{i}", norm))
        if shortcut:
            stride = math.prod(size[3] for size in sizes)
            self.add_module("shortcut", convolution(sizes[0][0], sizes[-1][1], 1, stride))
            self.add_module("shortcut_norm", nn.BatchNorm2d(sizes[-1][1]))
            self.short = ("shortcut", "shortcut_norm")

    def step(self, names, x):
        conv, norm = names
        return getattr(self, norm)(getattr(self, conv)(x))

    def forward(self, x):
        y = x
        for names in self.way[:-1]:
            y = F.relu(self.step(names, y))
        return F.relu(self.step(self.way[-1], y) + (self.step(self.short, x) if self.has_shortcut else x))


def resnet18c():
    """For 32x32: a first convolution of 3x3 without pooling after it."""
    parts = {"conv1": convolution(3, 64, 3), "batchnorm1": nn.BatchNorm2d(64), "relu1": nn.ReLU()}
    inputs, residuals, downsamples = 64, 0, 0
    for width in (64, 64, 128, 128, 256, 256, 512, 512):
        if width == inputs:
            residuals += 1
            parts[f"residual{residuals}"] = Residual([(width, width, 3, 1), (width, width, 3, 1)], False)
        else:
            downsamples += 1
            parts[f"downsample{downsamples}"] = Residual([(inputs, width, 3, 2), (width, width, 3, 1)], True)
        inputs = width
    return Chain(**parts, pool=nn.AdaptiveAvgPool2d(1), flatten1=nn.Flatten(), logits=nn.Linear(512, 10))


def resnet50():
    """The stride is that of the 3x3 convolution."""
    parts = {
        "conv1": convolution(3, 64, 7, 2),
        "batchnorm1": nn.BatchNorm2d(64),
        "relu1": nn.ReLU(),
        "maxpool1": nn.MaxPool2d(3, 2, 1),
    }
    inputs = 64
    for number, (width, blocks, stride) in enumerate(((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)), 1):
        stage = {"projected1": Residual([(inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)], True)}
        inputs = 4 * width
        for i in range(1, blocks):
            stage[f"residual{i}"] = Residual([(inputs, width, 1, 1), (width, width, 3, 1), (width, inputs, 1, 1)], False)
        parts[f"stage{number}"] = Chain(**stage)
    return Chain(**parts, pool=nn.AdaptiveAvgPool2d(1), flatten1=nn.Flatten(), logits=nn.Linear(2048, 1000))


# ---- other convolutional networks


def vgg11c():
    parts, inputs, units, pools = {}, 3, 0, 0
    for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if width:
            units += 1
            parts[f"unit{units}"] = Chain(
                conv1=nn.Conv2d(inputs, width, 3, 1, 1), batchnorm1=nn.BatchNorm2d(width), relu1=nn.ReLU()
            )
            inputs = width
        else:
            pools += 1
            parts[f"maxpool{pools}"] = nn.MaxPool2d(2)
    return Chain(**parts, flatten1=nn.Flatten(), logits=nn.Linear(512, 10))


def alexnet():
    """The form for one device, for 224x224."""
    return Chain(
        conv1=nn.Conv2d(3, 64, 11, 4, 2),
        relu1=nn.ReLU(),
        maxpool1=nn.MaxPool2d(3, 2),
        conv2=nn.Conv2d(64, 192, 5, 1, 2),
        relu2=nn.ReLU(),
        maxpool2=nn.MaxPool2d(3, 2),
        conv3=nn.Conv2d(192, 384, 3, 1, 1),
        relu3=nn.ReLU(),
        conv4=nn.Conv2d(384, 256, 3, 1, 1),
        relu4=nn.ReLU(),
        conv5=nn.Conv2d(256, 256, 3, 1, 1),
        relu5=nn.ReLU(),
        maxpool3=nn.MaxPool2d(3, 2),
        flatten1=nn.Flatten(),
        dropout1=nn.Dropout(),
        linear1=nn.Linear(9216, 4096),
        relu6=nn.ReLU(),
        dropout2=nn.Dropout(),
        linear2=nn.Linear(4096, 4096),
        relu7=nn.ReLU(),
        logits=nn.Linear(4096, 1000),
    )


class Inverted(Chain):
    """Widens, filters each channel separately, narrows; added to the input if the shape is the same."""

    def __init__(self, inputs, outputs, stride):
        wide = 6 * inputs
        super().__init__(
            expand1=Chain(conv1=convolution(inputs, wide, 1), batchnorm1=nn.BatchNorm2d(wide), relu=nn.ReLU6()),
            depthwise1=Chain(
                conv1=convolution(wide, wide, 3, stride, wide), batchnorm1=nn.BatchNorm2d(wide), relu=nn.ReLU6()
            ),
            project1=Chain(conv1=convolution(wide, outputs, 1), batchnorm1=nn.BatchNorm2d(outputs)),
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        y = super().forward(x)
        return x + y if self.adds else y


class Stage(nn.Module):
    """The parts of the first block belong to the stage itself, as in Koine's text."""

    def __init__(self, inputs, outputs, blocks, stride):
        super().__init__()
        for name, part in Inverted(inputs, outputs, stride).named_children():
            self.add_module(name, part)
        self.first_adds = stride == 1 and inputs == outputs
        self.blocks = blocks
        for i in range(1, blocks):
            self.add_module(f"residual{i}", Inverted(outputs, outputs, 1))

    def forward(self, x):
        y = self.project1(self.depthwise1(self.expand1(x)))
        x = x + y if self.first_adds else y
        for i in range(1, self.blocks):
            x = getattr(self, f"residual{i}")(x)
        return x


def mobilenetv2():
    parts = {
        "conv1": convolution(3, 32, 3, 2),
        "batchnorm1": nn.BatchNorm2d(32),
        "relu1": nn.ReLU6(),
        "depthwise1": Chain(conv1=convolution(32, 32, 3, 1, 32), batchnorm1=nn.BatchNorm2d(32), relu=nn.ReLU6()),
        "project1": Chain(conv1=convolution(32, 16, 1), batchnorm1=nn.BatchNorm2d(16)),
    }
    inputs = 16
    for number, (width, blocks, stride) in enumerate(
        ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)), 1
    ):
        parts[f"stage{number}"] = Stage(inputs, width, blocks, stride)
        inputs = width
    parts["expand1"] = Chain(conv1=convolution(320, 1280, 1), batchnorm1=nn.BatchNorm2d(1280), relu=nn.ReLU6())
    return Chain(
        **parts,
        pool=nn.AdaptiveAvgPool2d(1),
        flatten1=nn.Flatten(),
        dropout1=nn.Dropout(0.2),
        logits=nn.Linear(1280, 1000),
    )


# ---- sequences


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding1 = nn.Embedding(96, 128)
        self.lstm = nn.LSTM(128, 512, 2, batch_first=True)
        self.logits = nn.Linear(512, 96)

    def forward(self, x):
        """x is (N, 64) tokens, the result (N, 64, 96)"""
        return self.logits(self.lstm(self.embedding1(x))[0])


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.layernorm1, self.layernorm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        """x is (N, T, C)"""
        samples, length, width = x.shape
        heads = (
            part.view(samples, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.layernorm1(x)).split(width, 2)
        )
        seen = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.proj(seen.transpose(1, 2).reshape(samples, length, width))
        return x + self.fc2(F.gelu(self.fc1(self.layernorm2(x)), approximate="tanh"))


class Transformer(nn.Module):
    def __init__(self, width=384, heads=6, layers=6):
        super().__init__()
        self.token_embedding, self.position_embedding = nn.Embedding(96, width), nn.Embedding(128, width)
        for i in range(1, layers + 1):
            self.add_module(f"layer{i}", Layer(width, heads))
        self.layers = layers
        self.layernorm1, self.logits = nn.LayerNorm(width), nn.Linear(width, 96, bias=False)

    def forward(self, x):
        """x is (N, 128) tokens, the result (N, 128, 96)"""
        x = self.token_embedding(x) + self.position_embedding.weight[: x.shape[1]]
        for i in range(1, self.layers + 1):
            x = getattr(self, f"layer{i}")(x)
        return self.logits(self.layernorm1(x))


MAKERS = {
    "mlp": mlp,
    "lenet": lenet,
    "resnet18c": resnet18c,
    "vgg11c": vgg11c,
    "resnet50": resnet50,
    "alexnet": alexnet,
    "mobilenetv2": mobilenetv2,
    "lstm": Recurrent,
    "gpt": Transformer,
}


def koine_names(name, network):
    """{name in Koine: tensor} of all parameters and running statistics."""
    found = {}
    for key, tensor in network.state_dict().items():
        if key.endswith("num_batches_tracked"):
            continue
        if name == "lstm" and key.startswith("lstm."):
            part, layer = key[len("lstm.") :].rsplit("_l", 1)
            key = f"lstm{int(layer) + 1}.{part}"
        if name == "gpt" and key == "position_embedding.weight":
            key = "position_embedding"
        found[key] = tensor
    return found


def checkpoint_blocks(network):
    """Of each block only the input is kept for the backward pass, which computes the block again."""
    for block in network.modules():
        if isinstance(block, (Residual, Inverted, Layer)):
            inner = block.forward
            block.forward = lambda x, inner=inner: checkpoint(inner, x, use_reentrant=False)


def make(name):
    """The same numbers each time."""
    torch.manual_seed(0)
    return MAKERS[name]()
