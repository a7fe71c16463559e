"""Networks of the zoo made small: the structure of src/models/zoo with few channels, small pictures, no dropout."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from networks import TABLE, Network, apply_linear, apply_norm, conv, linear, norm


@dataclass
class Part:
  parameters: list
  apply: object  # apply(values, x, training) -> y
  buffers: list = field(default_factory=list)


# A bound of 1/4, as fan_in: with the usual one hardly anything reaches the first layers of the deep ones.
WIDE = 16


def conv_part(name, inputs, outputs, size, bias=True, groups=1, init=None, **settings):
  """init: the fan_in that counts for the weight"""

  def apply(values, x, training):
    return F.conv2d(x, values[f"{name}.weight"], values.get(f"{name}.bias"), groups=groups, **settings)

  parameters = conv(name, inputs // groups, outputs, size, bias)
  return Part([(parameters[0][0], parameters[0][1], init or parameters[0][2])] + parameters[1:], apply)


def up_part(name, inputs, outputs):
  """Twice the height and width. weight is (C, K, R, S), and what comes in is counted by its second dimension."""
  shapes = [(f"{name}.weight", (inputs, outputs, 2, 2), TABLE), (f"{name}.bias", (outputs,), outputs * 4)]
  return Part(
    shapes, lambda values, x, _: F.conv_transpose2d(x, values[f"{name}.weight"], values[f"{name}.bias"], stride=2)
  )


def batch_norm_part(name, channels):
  def apply(values, x, training):
    running = [values[f"{name}.running_mean"], values[f"{name}.running_var"]]
    return F.batch_norm(x, *running, values[f"{name}.weight"], values[f"{name}.bias"], training, 0.1, 1e-5)

  buffers = [(f"{name}.running_mean", (channels,), "zero"), (f"{name}.running_var", (channels,), "one")]
  return Part(norm(name, channels), apply, buffers)


def linear_part(name, inputs, outputs, init=None):
  weight, bias = linear(name, inputs, outputs)
  return Part([(*weight[:2], init or inputs), bias], lambda values, x, _: apply_linear(values, name, x))


def chain(*parts):
  """A chain; functions of x are parts without parameters."""
  parts = [part if isinstance(part, Part) else plain(part) for part in parts]

  def apply(values, x, training):
    for part in parts:
      x = part.apply(values, x, training)
    return x

  return Part(sum([part.parameters for part in parts], []), apply, sum([part.buffers for part in parts], []))


def plain(function):
  return Part([], lambda values, x, training: function(x))


def branches(join, *parts):
  """All of the same x."""
  both = chain(*parts)
  return Part(
    both.parameters, lambda values, x, training: join(*[part.apply(values, x, training) for part in parts]), both.buffers
  )


def network(name, input_shape, classes, lines, part, label_shape=()):
  return Network(
    name,
    input_shape,
    classes,
    [f"input x {'x'.join(map(str, input_shape))}" if line == "input" else line for line in lines.splitlines()],
    part.parameters,
    part.apply,
    part.buffers,
    label_shape=label_shape,
  )


SAME = plain(lambda x: x)


def pool(size, stride, padding=0, ceil=False):
  return lambda x: F.max_pool2d(x, size, stride, padding, ceil_mode=ceil)


def averages(x):
  return x.mean(dim=(2, 3))


# ---- unet ---------------------------------------------------------------------------------------------------------


def pair(name, inputs, channels):
  first = conv_part(f"{name}.conv1", inputs, channels, 3, padding=1, init=WIDE)
  second = conv_part(f"{name}.conv2", channels, channels, 3, padding=1, init=WIDE)
  return chain(first, F.relu, second, F.relu)


def level(down, inner, up, below, channels):
  """inner and the levels below it at half the size, between the two convolutions before and the two after."""
  lower = chain(pool(2, 2), inner, up_part(f"{up}.convtranspose1", below, channels))
  joined = branches(lambda skip, x: torch.cat([skip, x], 1), SAME, lower)
  return chain(down, joined, pair(f"{up}.pair1", 2 * channels, channels))


UNET = network(
  "unet",
  (1, 8, 8),
  2,
  """block pair channels
conv channels 3 padding=1 init=uniform:0.25
relu
conv channels 3 padding=1 init=uniform:0.25
relu
end
block up @in @skip channels
convtranspose @in channels 2 stride=2 init=uniform:0.5
concat @skip @ axis=1
pair channels
end
input
down1 = pair 4
maxpool 2
down2 = pair 8
maxpool 2
pair 16
up @ @down2 8
up @ @down1 4
conv 2 1
logits = transpose permutation=0,2,3,1""",
  chain(
    level(
      pair("down1", 1, 4), level(pair("down2", 4, 8), pair("pair1", 8, 16), "up1", 16, 8), "up2", 8, 4
    ),
    conv_part("conv1", 4, 2, 1),
    lambda x: x.permute(0, 2, 3, 1),
  ),
  (8, 8),
)

# ---- squeezenet ---------------------------------------------------------------------------------------------------


def fire(name, inputs, squeeze, expand):
  left = chain(conv_part(f"{name}.conv2", squeeze, expand, 1), F.relu)
  right = chain(conv_part(f"{name}.conv3", squeeze, expand, 3, padding=1), F.relu)
  both = branches(lambda *x: torch.cat(x, 1), left, right)
  return chain(conv_part(f"{name}.conv1", inputs, squeeze, 1), F.relu, both)


SQUEEZENET = network(
  "squeezenet",
  (3, 30, 30),
  10,
  """block fire squeeze expand
conv squeeze 1
small = relu
conv @small expand 1
left = relu
conv @small expand 3 padding=1
right = relu
concat @left @right axis=1
end
input
conv 8 3 stride=2
relu
maxpool 3 stride=2 ceil
fire 4 8
fire 4 8
maxpool 3 stride=2 ceil
fire 8 12
conv 10 1
relu
globalavgpool
logits = flatten""",
  chain(
    conv_part("conv1", 3, 8, 3, stride=2),
    F.relu,
    pool(3, 2, ceil=True),
    fire("fire1", 8, 4, 8),
    fire("fire2", 16, 4, 8),
    pool(3, 2, ceil=True),
    fire("fire3", 16, 8, 12),
    conv_part("conv2", 24, 10, 1),
    F.relu,
    averages,
  ),
)

# ---- vit-tiny -----------------------------------------------------------------------------------------------------

WIDTH, HEADS, PATCHES = 24, 3, 6


def sight(name):
  """A layer of the transformer: x is (N, T, WIDTH), and each place sees all."""

  def apply(values, x, training):
    qkv = apply_linear(values, f"{name}.linear1", apply_norm(values, f"{name}.layernorm1", x))
    heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in qkv.chunk(3, -1)]
    seen = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
    x = x + apply_linear(values, f"{name}.linear2", seen)
    wide = F.gelu(apply_linear(values, f"{name}.linear3", apply_norm(values, f"{name}.layernorm2", x)))
    return x + apply_linear(values, f"{name}.linear4", wide)

  parameters = norm(f"{name}.layernorm1", WIDTH) + linear(f"{name}.linear1", WIDTH, 3 * WIDTH)
  parameters += linear(f"{name}.linear2", WIDTH, WIDTH) + norm(f"{name}.layernorm2", WIDTH)
  parameters += linear(f"{name}.linear3", WIDTH, 4 * WIDTH) + linear(f"{name}.linear4", 4 * WIDTH, WIDTH)
  return Part(parameters, apply)


def with_class(values, x, training):
  """x is (N, WIDTH, 2, 3), the result (N, 7, WIDTH)"""
  x = torch.cat([values["class_token"].expand(len(x), -1, -1), x.flatten(2).transpose(1, 2)], 1)
  return x + values["position_embedding"]


VIT = network(
  "vit-tiny",
  (3, 8, 12),
  10,
  """block layer width heads
layernorm
linear 3*width
attention heads=heads
linear width
seen = add @ @in
layernorm
linear 4*width
gelu
linear width
add @ @seen
end
input
conv 24 4 stride=4
reshape 24x6
patches = transpose permutation=0,2,1
class_token = parameter 1x1x24 init=uniform:0.5
position_embedding = parameter 7x24 init=uniform:0.5
class_tokens = broadcast @class_token shape=batch,1,24
concat @class_tokens @patches axis=1
add @ @position_embedding
repeat 2
layer 24 3
end
layernorm
slice axis=1 end=1
flatten
logits = linear 10""",
  chain(
    conv_part("conv1", 3, WIDTH, 4, stride=4),
    Part([("class_token", (1, 1, WIDTH), TABLE), ("position_embedding", (PATCHES + 1, WIDTH), TABLE)], with_class),
    sight("layer1"),
    sight("layer2"),
    Part(norm("layernorm1", WIDTH), lambda values, x, _: apply_norm(values, "layernorm1", x)[:, 0]),
    linear_part("logits", WIDTH, 10),
  ),
)

# ---- alexnet, alexnet2012 -----------------------------------------------------------------------------------------


def local(x):
  # Of an alpha as small as the network's nothing would be seen in so few steps.
  return F.local_response_norm(x, 5, alpha=0.5, beta=0.75, k=2)


def alexnet_part(stride_padding, between, groups):
  return chain(
    conv_part("conv1", 3, 8, 11, stride=4, padding=stride_padding),
    F.relu,
    between,
    pool(3, 2),
    conv_part("conv2", 8, 16, 5, padding=2, init=WIDE, groups=groups),
    F.relu,
    between,
    pool(3, 2),
    conv_part("conv3", 16, 24, 3, padding=1, init=WIDE),
    F.relu,
    conv_part("conv4", 24, 24, 3, padding=1, init=WIDE, groups=groups),
    F.relu,
    conv_part("conv5", 24, 16, 3, padding=1, init=WIDE, groups=groups),
    F.relu,
    pool(3, 2),
    lambda x: x.flatten(1),
    linear_part("linear1", 16, 32, TABLE),
    F.relu,
    linear_part("linear2", 32, 32, TABLE),
    F.relu,
    linear_part("logits", 32, 10),
  )


ALEXNET = network(
  "alexnet",
  (3, 63, 63),
  10,
  """input
conv 8 11 stride=4 padding=2
relu
maxpool 3 stride=2
conv 16 5 padding=2 init=uniform:0.25
relu
maxpool 3 stride=2
conv 24 3 padding=1 init=uniform:0.25
relu
conv 24 3 padding=1 init=uniform:0.25
relu
conv 16 3 padding=1 init=uniform:0.25
relu
maxpool 3 stride=2
flatten
linear 32 init=uniform:0.5
relu
linear 32 init=uniform:0.5
relu
logits = linear 10""",
  alexnet_part(2, SAME, 1),
)

ALEXNET2012 = network(
  "alexnet2012",
  (3, 67, 67),
  10,
  """input
conv 8 11 stride=4
relu
localnorm 5 alpha=0.5 beta=0.75 k=2
maxpool 3 stride=2
conv 16 5 padding=2 groups=2 init=uniform:0.25
relu
localnorm 5 alpha=0.5 beta=0.75 k=2
maxpool 3 stride=2
conv 24 3 padding=1 init=uniform:0.25
relu
conv 24 3 padding=1 groups=2 init=uniform:0.25
relu
conv 16 3 padding=1 groups=2 init=uniform:0.25
relu
maxpool 3 stride=2
flatten
linear 32 init=uniform:0.5
relu
linear 32 init=uniform:0.5
relu
logits = linear 10""",
  alexnet_part(0, local, 2),
)

# ---- resnet18c, resnet50, vgg11c, mobilenetv2 -----------------------------------------------------------------------


def normed(name, number, inputs, outputs, size, *after, bias=False, **settings):
  """conv and batchnorm of one number in the block `name`."""
  place = f"{name}." if name else ""
  first = conv_part(f"{place}conv{number}", inputs, outputs, size, bias, **settings)
  return chain(first, batch_norm_part(f"{place}batchnorm{number}", outputs), *after)


def basic(name, inputs, channels, stride):
  """Two convolutions of 3x3 and a shortcut."""
  main = [normed(name, 1, inputs, channels, 3, F.relu, stride=stride, padding=1)]
  second = conv_part(f"{name}.conv2", channels, channels, 3, False, padding=1)
  if stride == 1:
    main += [second, batch_norm_part(f"{name}.batchnorm2", channels)]
    return chain(branches(torch.add, chain(*main), SAME), F.relu)
  main += [second, batch_norm_part(f"{name}.main", channels)]
  short = chain(
    conv_part(f"{name}.conv3", inputs, channels, 1, False, stride=stride),
    batch_norm_part(f"{name}.batchnorm2", channels),
  )
  return chain(branches(torch.add, chain(*main), short), F.relu)


RESNET18C = network(
  "resnet18c",
  (3, 8, 8),
  10,
  """block same channels
conv channels 3 padding=1 bias=no
batchnorm
relu
conv channels 3 padding=1 bias=no
batchnorm
add @ @in
relu
end
block halve channels
conv channels 3 stride=2 padding=1 bias=no
batchnorm
relu
conv channels 3 padding=1 bias=no
main = batchnorm
conv @in channels 1 stride=2 bias=no
batchnorm
add @main @
relu
end
input
conv 8 3 padding=1 bias=no
batchnorm
relu
same 8
halve 16
same 16
globalavgpool
flatten
logits = linear 10""",
  chain(
    normed("", 1, 3, 8, 3, F.relu, padding=1),
    basic("same1", 8, 8, 1),
    basic("halve1", 8, 16, 2),
    basic("same2", 16, 16, 1),
    averages,
    linear_part("logits", 16, 10),
  ),
)


def bottleneck(name, inputs, width, stride, first):
  """The convolution of 3x3 between two of 1x1, and a shortcut, which has a convolution in the first of a stage."""
  main = [normed(name, 1, inputs, width, 1, F.relu)]
  main += [normed(name, 2, width, width, 3, F.relu, stride=stride, padding=1)]
  main += [conv_part(f"{name}.conv3", width, 4 * width, 1, False)]
  main += [batch_norm_part(f"{name}.main" if first else f"{name}.batchnorm3", 4 * width)]
  short = SAME
  if first:
    short = chain(
      conv_part(f"{name}.conv4", inputs, 4 * width, 1, False, stride=stride),
      batch_norm_part(f"{name}.batchnorm3", 4 * width),
    )
  return chain(branches(torch.add, chain(*main), short), F.relu)


RESNET50 = network(
  "resnet50",
  (3, 32, 32),
  10,
  """block same width
conv width 1 bias=no
batchnorm
relu
conv width 3 padding=1 bias=no
batchnorm
relu
conv 4*width 1 bias=no
batchnorm
add @ @in
relu
end
block first width stride
conv width 1 bias=no
batchnorm
relu
conv width 3 stride=stride padding=1 bias=no
batchnorm
relu
conv 4*width 1 bias=no
main = batchnorm
conv @in 4*width 1 stride=stride bias=no
batchnorm
add @main @
relu
end
input
conv 8 7 stride=2 padding=3 bias=no
batchnorm
relu
maxpool 3 stride=2 padding=1
first 8 1
same 8
first 16 2
globalavgpool
flatten
logits = linear 10""",
  chain(
    normed("", 1, 3, 8, 7, F.relu, stride=2, padding=3),
    pool(3, 2, 1),
    bottleneck("first1", 8, 8, 1, True),
    bottleneck("same1", 32, 8, 1, False),
    bottleneck("first2", 32, 16, 2, True),
    averages,
    linear_part("logits", 64, 10),
  ),
)

VGG11C = network(
  "vgg11c",
  (3, 8, 8),
  10,
  """block unit channels
conv channels 3 padding=1
batchnorm
relu
end
input
unit 8
maxpool 2
unit 16
unit 16
maxpool 2
flatten
logits = linear 10""",
  chain(
    normed("unit1", 1, 3, 8, 3, F.relu, bias=True, padding=1),
    pool(2, 2),
    normed("unit2", 1, 8, 16, 3, F.relu, bias=True, padding=1),
    normed("unit3", 1, 16, 16, 3, F.relu, bias=True, padding=1),
    pool(2, 2),
    lambda x: x.flatten(1),
    linear_part("logits", 64, 10),
  ),
)


def wide(name, inputs, outputs):
  return normed(name, 1, inputs, outputs, 1, F.relu6)


def each(name, channels, stride=1):
  return normed(name, 1, channels, channels, 3, F.relu6, stride=stride, padding=1, groups=channels)


def narrow(name, inputs, outputs):
  return normed(name, 1, inputs, outputs, 1)


def residual(name, channels):
  inner = chain(
    wide(f"{name}.wide1", channels, 6 * channels),
    each(f"{name}.each1", 6 * channels),
    narrow(f"{name}.narrow1", 6 * channels, channels),
  )
  return branches(torch.add, SAME, inner)


MOBILENETV2 = network(
  "mobilenetv2",
  (3, 16, 16),
  10,
  """block wide channels
conv channels 1 bias=no
batchnorm
relu6
end
block each channels stride=1
conv channels 3 stride=stride padding=1 groups=channels bias=no
batchnorm
relu6
end
block narrow channels
conv channels 1 bias=no
batchnorm
end
block residual channels
wide 6*channels
each 6*channels
narrow channels
add @in @
end
input
conv 8 3 stride=2 padding=1 bias=no
batchnorm
relu6
each 8
narrow 4
wide 24
each 24 2
narrow 6
residual 6
wide 32
globalavgpool
flatten
logits = linear 10""",
  chain(
    normed("", 1, 3, 8, 3, F.relu6, stride=2, padding=1),
    each("each1", 8),
    narrow("narrow1", 8, 4),
    wide("wide1", 4, 24),
    each("each2", 24, 2),
    narrow("narrow2", 24, 6),
    residual("residual1", 6),
    wide("wide2", 6, 32),
    averages,
    linear_part("logits", 32, 10),
  ),
)
