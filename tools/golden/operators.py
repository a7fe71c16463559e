"""Operators on tiny inputs: results and gradients by PyTorch in float64.

A case is one call of case(); its inputs are made by the rules below, so that the golden file
need not hold them. The gradient of the result is made by a rule as well.
"""

import torch
import torch.nn.functional as F

import operator_inputs as given
from operator_inputs import below, uniform, values

CASES = []


def case(name, operator, inputs, function, attributes=None, by=None, outputs=("y",), avoid=(), gap=None):
  """by: names of the inputs whose gradients are wanted, None for all float ones.
  avoid: points that no element of the first input may come near (kinks).
  gap: function of the inputs that gives numbers which must not be near zero (ties)."""
  CASES.append(
    {
      "name": name,
      "operator": operator,
      "inputs": inputs,
      "function": function,
      "attributes": attributes or {},
      "by": by,
      "outputs": outputs,
      "avoid": avoid,
      "gap": gap,
    }
  )


# ---- one input, element by element ------------------------------------------------------------

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def unary(name, function, low=-4, high=4, operator=None, attributes=None, avoid=()):
  case(name, operator or name, [uniform("x", (3, 7), low, high)], function, attributes, avoid=avoid)


unary("neg", torch.neg)
unary("exp", torch.exp)
unary("log", torch.log, 0.125, 4.125)
unary("sqrt", torch.sqrt, 0.125, 4.125)
unary("rsqrt", torch.rsqrt, 0.125, 4.125)
unary("abs", torch.abs, avoid=(0,))
unary("sin", torch.sin)
unary("cos", torch.cos)
unary("erf", torch.erf)
unary("sigmoid", torch.sigmoid)
unary("tanh", torch.tanh)
unary("relu", torch.relu, avoid=(0,))
unary("leaky_relu", lambda x: F.leaky_relu(x, 0.01), attributes={"slope": 0.01}, avoid=(0,))
unary(
  "leaky_relu_slope",
  lambda x: F.leaky_relu(x, 0.25),
  operator="leaky_relu",
  attributes={"slope": 0.25},
  avoid=(0,),
)
unary("relu6", F.relu6, -4, 12, avoid=(0, 6))
unary("elu", F.elu, attributes={"alpha": 1.0}, avoid=(0,))
unary("elu_alpha", lambda x: F.elu(x, 0.5), operator="elu", attributes={"alpha": 0.5}, avoid=(0,))
unary("selu", F.selu, attributes={"alpha": SELU_ALPHA, "scale": SELU_SCALE}, avoid=(0,))
unary("gelu_exact", F.gelu, operator="gelu", attributes={"approximate": "none"})
unary(
  "gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), operator="gelu", attributes={"approximate": "tanh"}
)
unary("silu", F.silu)
# F.softplus gives up digits above its threshold; log(e^x + e^0) does not.
unary("softplus", lambda x: torch.logaddexp(x, torch.zeros_like(x)))
unary("hard_sigmoid", F.hardsigmoid, -5, 5, avoid=(-3, 3))
unary("hard_swish", F.hardswish, -5, 5, avoid=(-3, 3))
unary("clip", lambda x: x.clamp(-1.5, 2), attributes={"low": -1.5, "high": 2.0}, avoid=(-1.5, 2))
# Far from zero, where a formula written without care overflows or loses everything.
unary("sigmoid_wide", torch.sigmoid, -64, 64, operator="sigmoid")
unary("tanh_wide", torch.tanh, -64, 64, operator="tanh")
unary("silu_wide", F.silu, -64, 64, operator="silu")
unary("softplus_wide", lambda x: torch.logaddexp(x, torch.zeros_like(x)), -64, 64, operator="softplus")
case("cast_int32", "cast", [uniform("x", (3, 7), -4, 4)], lambda x: x.to(torch.int32), {"to": "int32"}, by=())
case("cast_float16", "cast", [uniform("x", (3, 7), -4, 4)], lambda x: x.half(), {"to": "float16"}, by=())
case("cast_float32", "cast", [below("x", (3, 7), 1000)], lambda x: x.double(), {"to": "float32"}, by=())


# ---- two and three inputs, broadcast ------------------------------------------------------------


def binary(name, function, low=(-2, -2), high=(2, 2), shapes=((3, 1, 4), (5, 1)), operator=None, gap=None):
  inputs = [uniform(label, shapes[i], low[i], high[i]) for i, label in enumerate(("x", "y"))]
  case(name, operator or name, inputs, function, outputs=("z",), gap=gap)


def difference(x, y):
  return x - y


binary("add", torch.add)
binary("sub", torch.sub)
binary("mul", torch.mul)
binary("div", torch.div, low=(-2, 0.5), high=(2, 2.5))
binary("pow", torch.pow, low=(0.25, -2), high=(2.25, 2))
binary("min", torch.minimum, gap=difference)
binary("max", torch.maximum, gap=difference)
binary("add_same", torch.add, shapes=((3, 7), (3, 7)), operator="add")
binary("mul_scalar", torch.mul, shapes=((3, 7), ()), operator="mul")
binary("div_same", torch.div, low=(-2, -2.5), high=(2, -0.5), shapes=((7,), (7,)), operator="div")
case(
  "pow_whole",
  "pow",
  [uniform("x", (3, 4), -2, 2), values("y", (4,), [2, 3, -1, 0])],
  torch.pow,
  by=("x",),
  outputs=("z",),
  avoid=(0,),
)

COMPARISONS = [
  ("equal", torch.eq),
  ("not_equal", torch.ne),
  ("less", torch.lt),
  ("less_equal", torch.le),
  ("greater", torch.gt),
  ("greater_equal", torch.ge),
]
for label, compare in COMPARISONS:
  case(
    label,
    label,
    [below("x", (3, 5), 3, "float32"), below("y", (5,), 3, "float32")],
    compare,
    by=(),
    outputs=("z",),
  )

case(
  "where",
  "where",
  [below("condition", (3, 1, 4), 2, "bool"), uniform("x", (5, 1), -2, 2), uniform("y", (4,), -2, 2)],
  torch.where,
  outputs=("z",),
)


# ---- reductions ---------------------------------------------------------------------------------


def smallest_gap(axes, count):
  """The smallest difference between the two largest, and the two smallest, elements of each reduced part."""

  def gap(x):
    kept = [axis for axis in range(x.dim()) if axis not in axes]
    ordered = x.permute(*kept, *axes).reshape(-1, count).sort(dim=1).values
    return torch.cat([ordered[:, 1] - ordered[:, 0], ordered[:, -1] - ordered[:, -2]])

  return gap


for label, reduce in [("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax), ("min", torch.amin)]:
  for suffix, axes, keep, count in [
    ("axis1", (1,), False, 5),
    ("axes02", (0, 2), True, 12),
    ("all", (0, 1, 2), False, 60),
  ]:
    case(
      f"reduce_{label}_{suffix}",
      f"reduce_{label}",
      [uniform("x", (3, 5, 4), -2, 2)],
      lambda x, reduce=reduce, axes=axes, keep=keep: reduce(x, dim=axes, keepdim=keep),
      {"axes": list(axes), "keep": keep},
      gap=smallest_gap(axes, count),
    )

for label, function in [("softmax", F.softmax), ("log_softmax", F.log_softmax)]:
  case(
    f"{label}_last", label, [uniform("x", (3, 7), -4, 4)], lambda x, f=function: f(x, dim=-1), {"axis": -1}
  )
  case(
    f"{label}_middle", label, [uniform("x", (2, 5, 3), -4, 4)], lambda x, f=function: f(x, dim=1), {"axis": 1}
  )
  case(
    f"{label}_wide",
    label,
    [uniform("x", (3, 5), -1024, 1024)],
    lambda x, f=function: f(x, dim=-1),
    {"axis": -1},
  )


# ---- products -------------------------------------------------------------------------------------

for label, rows in [("linear", (3,)), ("linear_rank3", (2, 3)), ("linear_one", (1,))]:
  case(
    label,
    "linear",
    [uniform("x", rows + (7,), -1, 1), uniform("weight", (5, 7), -1, 1), uniform("bias", (5,), -1, 1)],
    F.linear,
  )
case("linear_no_bias", "linear", [uniform("x", (3, 7), -1, 1), uniform("weight", (5, 7), -1, 1)], F.linear)


def product(name, left, right, transpose_a, transpose_b):
  def function(a, b):
    return torch.matmul(a.transpose(-1, -2) if transpose_a else a, b.transpose(-1, -2) if transpose_b else b)

  inputs = [uniform("a", left, -1, 1), uniform("b", right, -1, 1)]
  case(name, "matmul", inputs, function, {"transpose_a": transpose_a, "transpose_b": transpose_b})


product("matmul_nn", (2, 3, 5), (2, 5, 4), False, False)
product("matmul_nt", (2, 3, 5), (2, 4, 5), False, True)
product("matmul_tn", (2, 5, 3), (2, 5, 4), True, False)
product("matmul_tt", (2, 5, 3), (2, 4, 5), True, True)
product("matmul_flat", (3, 5), (5, 1), False, False)
product("matmul_shared", (2, 3, 5), (5, 4), False, False)
product("matmul_broadcast", (2, 1, 3, 2), (3, 2, 2), False, False)


# ---- convolution and pooling ------------------------------------------------------------------------


def pair(value):
  return value if isinstance(value, tuple) else (value, value)


def conv(name, x, weight, bias=True, stride=1, padding=0, dilation=1, groups=1):
  """padding: a number, (height, width), or (top, left, bottom, right)"""
  stride, dilation = pair(stride), pair(dilation)
  edges = padding if isinstance(padding, tuple) and len(padding) == 4 else pair(padding) * 2

  def function(x, weight, bias=None):
    top, left, bottom, right = edges
    return F.conv2d(F.pad(x, (left, right, top, bottom)), weight, bias, stride, 0, dilation, groups)

  inputs = [uniform("x", x, -1, 1), uniform("weight", weight, -1, 1)]
  if bias:
    inputs.append(uniform("bias", weight[:1], -1, 1))
  attributes = {"stride": list(stride), "padding": list(edges), "dilation": list(dilation), "groups": groups}
  case(name, "conv2d", inputs, function, attributes)


conv("conv2d", (2, 2, 5, 4), (3, 2, 3, 3))
conv("conv2d_no_bias", (1, 2, 4, 5), (3, 2, 2, 2), bias=False)
conv("conv2d_1x1", (2, 3, 3, 2), (4, 3, 1, 1))
conv("conv2d_padding", (1, 2, 4, 5), (2, 2, 3, 3), padding=1)
conv("conv2d_stride", (1, 2, 7, 6), (2, 2, 3, 3), stride=2, padding=1)
conv("conv2d_dilation", (1, 2, 7, 6), (2, 2, 3, 2), dilation=2)
conv("conv2d_groups", (1, 4, 4, 4), (6, 2, 3, 3), groups=2, padding=1)
conv("conv2d_depthwise", (1, 3, 5, 5), (3, 1, 3, 3), groups=3, stride=2, padding=1)
conv("conv2d_multiplier", (1, 2, 4, 4), (4, 1, 3, 3), groups=2)
conv("conv2d_uneven", (1, 2, 6, 7), (2, 2, 3, 2), stride=(2, 3), padding=(1, 2), dilation=(1, 2))
conv("conv2d_edges", (1, 2, 4, 5), (2, 2, 3, 3), padding=(0, 1, 2, 0))
conv("conv2d_all", (1, 4, 7, 6), (2, 2, 3, 2), stride=2, padding=2, dilation=2, groups=2)


def pool_gap(window, stride, padding):
  """The distance of the two largest elements of each window."""

  def gap(x):
    padded = F.pad(x, (padding[1], padding[1], padding[0], padding[0]), value=-9.0)
    parts = padded.unfold(2, window[0], stride[0]).unfold(3, window[1], stride[1]).flatten(4)
    ordered = parts.sort(dim=-1).values
    return ordered[..., -1] - ordered[..., -2]

  return gap


def pool(name, operator, x, window, stride, padding=0, include=None):
  window, stride, padding = pair(window), pair(stride), pair(padding)
  attributes = {"window": list(window), "stride": list(stride), "padding": list(padding) * 2}
  if operator == "max_pool":
    function, gap = lambda x: F.max_pool2d(x, window, stride, padding), pool_gap(window, stride, padding)
  else:
    attributes["count_include_pad"] = include
    function, gap = lambda x: F.avg_pool2d(x, window, stride, padding, count_include_pad=include), None
  case(name, operator, [uniform("x", x, -2, 2)], function, attributes, gap=gap)


pool("max_pool", "max_pool", (2, 2, 5, 4), 2, 2)
pool("max_pool_padding", "max_pool", (1, 2, 7, 6), 3, 2, 1)
pool("max_pool_overlap", "max_pool", (1, 2, 5, 5), (3, 2), 1)
pool("max_pool_uneven", "max_pool", (1, 1, 7, 9), (2, 3), (3, 2), (1, 1))
pool("avg_pool", "avg_pool", (2, 2, 5, 4), 2, 2, include=True)
pool("avg_pool_include", "avg_pool", (1, 2, 7, 6), 3, 2, 1, include=True)
pool("avg_pool_exclude", "avg_pool", (1, 2, 7, 6), 3, 2, 1, include=False)
pool("avg_pool_uneven", "avg_pool", (1, 1, 7, 9), (2, 3), (3, 2), (1, 1), include=False)
case(
  "global_avg_pool",
  "global_avg_pool",
  [uniform("x", (2, 3, 5, 3), -2, 2)],
  lambda x: x.mean(dim=(2, 3), keepdim=True),
)


# ---- batch norm ---------------------------------------------------------------------------------------


def batch_norm(name, x, training):
  channels = x[1:2]

  def function(x, weight, bias, running_mean, running_var):
    mean, variance = running_mean.detach().clone(), running_var.detach().clone()
    y = F.batch_norm(x, mean, variance, weight, bias, training, 0.1, 1e-5)
    return (y, mean, variance) if training else y

  inputs = [uniform("x", x, -2, 2), uniform("weight", channels, 0.5, 1.5), uniform("bias", channels, -1, 1)]
  inputs += [uniform("running_mean", channels, -1, 1), uniform("running_var", channels, 0.5, 2.5)]
  outputs = ("y", "new_running_mean", "new_running_var") if training else ("y",)
  attributes = {"momentum": 0.1, "eps": 1e-5, "training": training}
  case(name, "batch_norm", inputs, function, attributes, by=("x", "weight", "bias"), outputs=outputs)


batch_norm("batch_norm_training", (3, 4, 2, 3), True)
batch_norm("batch_norm_training_flat", (5, 3), True)
batch_norm("batch_norm_inference", (3, 4, 2, 3), False)


# ---- losses: the mean over the batch (cross-entropy) or over all elements ---------------------------------


def cross_entropy(name, smoothing, distributions=False, low=-4, high=4):
  if distributions:
    target = given.distributions("target", 5, 7)
  else:
    target = below("labels", (5,), 7)
  function = lambda x, target: F.cross_entropy(
    x, target.double() if distributions else target, label_smoothing=smoothing
  )
  case(
    name,
    "cross_entropy",
    [uniform("x", (5, 7), low, high), target],
    function,
    {"label_smoothing": smoothing},
    by=("x",),
    outputs=("loss",),
  )


cross_entropy("cross_entropy_labels", 0.0)
cross_entropy("cross_entropy_labels_smoothed", 0.125)
cross_entropy("cross_entropy_labels_wide", 0.0, low=-1024, high=1024)
cross_entropy("cross_entropy_distributions", 0.0, True)
cross_entropy("cross_entropy_distributions_smoothed", 0.125, True)


def loss(name, operator, function, target=(-2, 2), low=-2, high=2, attributes=None, gap=None):
  inputs = [uniform("x", (3, 7), low, high), uniform("target", (3, 7), *target)]
  case(name, operator, inputs, function, attributes, outputs=("loss",), gap=gap)


loss("mse", "mse", F.mse_loss)
loss("bce_with_logits", "bce_with_logits", F.binary_cross_entropy_with_logits, (0, 1), -4, 4)
loss("bce_with_logits_wide", "bce_with_logits", F.binary_cross_entropy_with_logits, (0, 1), -128, 128)
for label, delta in [("huber", 1.0), ("huber_delta", 0.5)]:
  loss(
    label,
    "huber",
    lambda x, y, delta=delta: F.huber_loss(x, y, delta=delta),
    attributes={"delta": delta},
    gap=lambda x, y, delta=delta: torch.cat([(x - y), (x - y).abs() - delta]),
  )


# ---- moving elements about ----------------------------------------------------------------------------------

for label, shapes, axis in [
  ("concat_axis0", ((2, 3), (1, 3), (3, 3)), 0),
  ("concat_axis1", ((2, 1, 3), (2, 4, 3), (2, 2, 3)), 1),
  ("concat_last", ((2, 3), (2, 1)), -1),
]:
  inputs = [uniform(f"x{i}", shape, -1, 1) for i, shape in enumerate(shapes)]
  case(label, "concat", inputs, lambda *parts, axis=axis: torch.cat(parts, dim=axis), {"axis": axis})


def slicing(name, shape, start, end, step):
  index = tuple(slice(*part) for part in zip(start, end, step))
  case(
    name,
    "slice",
    [uniform("x", shape, -1, 1)],
    lambda x: x[index],
    {"start": start, "end": end, "step": step},
  )


slicing("slice", (5, 4), [1, 0], [4, 3], [1, 1])
slicing("slice_step", (7, 5), [1, 0], [7, 5], [2, 3])
slicing("slice_from_end", (5, 4), [-3, -2], [-1, 4], [1, 1])


def padding(name, shape, before, after, value):
  widths = [width for axis in reversed(range(len(shape))) for width in (before[axis], after[axis])]
  case(
    name,
    "pad",
    [uniform("x", shape, -1, 1)],
    lambda x: F.pad(x, widths, value=value),
    {"before": before, "after": after, "value": value},
  )


padding("pad", (2, 3), [0, 1], [2, 1], 0.0)
padding("pad_value", (2, 3, 2), [1, 0, 0], [0, 1, 1], 1.5)

case("transpose", "transpose", [uniform("x", (3, 5), -1, 1)], lambda x: x.permute(1, 0), {"order": [1, 0]})
case(
  "transpose_rank4",
  "transpose",
  [uniform("x", (2, 3, 2, 4), -1, 1)],
  lambda x: x.permute(0, 2, 3, 1),
  {"order": [0, 2, 3, 1]},
)
case("reshape", "reshape", [uniform("x", (2, 3, 4), -1, 1)], lambda x: x.reshape(4, 6), {"shape": [4, 6]})
case(
  "reshape_rest", "reshape", [uniform("x", (2, 3, 4), -1, 1)], lambda x: x.reshape(3, -1), {"shape": [3, -1]}
)
case(
  "expand",
  "expand",
  [uniform("x", (3, 1, 2), -1, 1)],
  lambda x: x.expand(2, 3, 4, 2),
  {"shape": [2, 3, 4, 2]},
)
case("expand_scalar", "expand", [uniform("x", (), -1, 1)], lambda x: x.expand(3, 2), {"shape": [3, 2]})


def golden():
  """The contents of operators.json."""
  if len({entry["name"] for entry in CASES}) != len(CASES):
    raise SystemExit("operators: two cases have one name")
  return {
    "format": 1,
    "kind": "operators",
    "seed": given.SEED,
    "torch": torch.__version__.split("+")[0],
    "cases": [given.compute(entry) for entry in CASES],
  }
