"""More operator cases, for operators.py: layers of images and sequences, and losses."""

import torch
import torch.nn.functional as F

from operator_inputs import below, uniform, values
from operators import case, pair, pool_gap


# ---- convolution --------------------------------------------------------------------------------


def conv1d(name, x, weight, stride=1, padding=(0, 0), dilation=1, groups=1):
  """padding: (before, after)"""

  def function(x, weight, bias):
    return F.conv1d(F.pad(x, padding), weight, bias, stride, 0, dilation, groups)

  inputs = [uniform("x", x, -1, 1), uniform("weight", weight, -1, 1), uniform("bias", weight[:1], -1, 1)]
  attributes = {"stride": [stride], "padding": list(padding), "dilation": [dilation], "groups": groups}
  case(name, "conv1d", inputs, function, attributes)


conv1d("conv1d", (2, 3, 9), (4, 3, 3))
conv1d("conv1d_causal", (2, 3, 7), (4, 3, 3), padding=(4, 0), dilation=2)
conv1d("conv1d_all", (1, 4, 11), (6, 2, 3), stride=2, padding=(2, 1), groups=2)


def transposed(name, x, weight, stride=1, padding=0, output=0, dilation=1, groups=1, along=False):
  size = (lambda value: [value]) if along else (lambda value: list(pair(value)))
  function = F.conv_transpose1d if along else F.conv_transpose2d

  def compute(x, weight, bias):
    return function(x, weight, bias, stride, padding, output, groups, dilation)

  channels = (weight[1] * groups,)
  inputs = [uniform("x", x, -1, 1), uniform("weight", weight, -1, 1), uniform("bias", channels, -1, 1)]
  attributes = {
    "stride": size(stride),
    "padding": size(padding) * 2,
    "output_padding": size(output),
    "dilation": size(dilation),
    "groups": groups,
  }
  case(name, "conv_transpose1d" if along else "conv_transpose2d", inputs, compute, attributes)


transposed("conv_transpose2d", (2, 3, 4, 3), (3, 2, 3, 3))
transposed("conv_transpose2d_stride", (1, 2, 3, 4), (2, 3, 3, 3), stride=2, padding=1, output=1)
transposed("conv_transpose2d_uneven", (1, 2, 3, 4), (2, 2, 3, 2), stride=(2, 3), padding=(1, 0), output=(0, 2))
transposed("conv_transpose2d_groups", (1, 4, 3, 3), (4, 3, 3, 3), stride=2, groups=2)
transposed("conv_transpose2d_dilation", (1, 2, 4, 3), (2, 2, 3, 3), padding=2, dilation=2)
transposed("conv_transpose1d", (2, 3, 5), (3, 2, 4), stride=3, padding=1, output=2, along=True)


# ---- pooling --------------------------------------------------------------------------------------


def pool(name, operator, x, window, stride, padding=0, dilation=1, include=True, gap=None):
  """Windows rounded up."""
  window, stride, padding, dilation = pair(window), pair(stride), pair(padding), pair(dilation)
  attributes = {"window": list(window), "stride": list(stride), "padding": list(padding) * 2, "ceil": True}
  if operator == "max_pool":
    attributes["dilation"] = list(dilation)
    function = lambda x: F.max_pool2d(x, window, stride, padding, dilation, ceil_mode=True)
  else:
    attributes["count_include_pad"] = include
    function = lambda x: F.avg_pool2d(x, window, stride, padding, True, include)
  case(name, operator, [uniform("x", x, -2, 2)], function, attributes, gap=gap)


def apart(x):
  """No two elements of one image are near each other."""
  ordered = x.flatten(1).sort(dim=1).values
  return (ordered[:, 1:] - ordered[:, :-1]) * 16


pool("max_pool_ceil", "max_pool", (1, 1, 6, 5), 3, 2, 1, gap=apart)
pool("max_pool_ceil_left_out", "max_pool", (1, 1, 5, 4), 2, (3, 2), 1, gap=apart)
pool("max_pool_dilation", "max_pool", (1, 1, 7, 6), (3, 2), (1, 2), 1, (2, 3), gap=apart)
pool("avg_pool_ceil", "avg_pool", (1, 2, 6, 5), 3, 2, 1)
pool("avg_pool_ceil_exclude", "avg_pool", (1, 2, 6, 5), 3, 2, 1, include=False)
case(
  "max_pool_length",
  "max_pool1d",
  [uniform("x", (2, 2, 9), -2, 2)],
  lambda x: F.max_pool1d(x, 3, 2, 1),
  {"window": [3], "stride": [2], "padding": [1, 1]},
  gap=lambda x: apart(x.flatten(0, 1)),
)
for label, size in [("more", (3, 5)), ("even", (3, 2)), ("uneven", (4, 3))]:
  x = [uniform("x", (1, 2, 6, 4), -2, 2)]
  case(
    f"adaptive_avg_pool_{label}",
    "adaptive_avg_pool",
    x,
    lambda x, size=size: F.adaptive_avg_pool2d(x, size),
    {"size": list(size)},
  )
  case(
    f"adaptive_max_pool_{label}",
    "adaptive_max_pool",
    [uniform("x", (1, 1, 6, 4), -2, 2)],
    lambda x, size=size: F.adaptive_max_pool2d(x, size),
    {"size": list(size)},
    gap=apart,
  )
for label, power in [("2", 2.0), ("1", 1.0), ("4", 4.0)]:
  case(
    f"lp_pool_{label}",
    "lp_pool",
    [uniform("x", (2, 2, 5, 4), -2, 2)],
    lambda x, power=power: (F.avg_pool2d(x.abs() ** power, 2) * 4) ** (1 / power),
    {"power": power, "window": [2, 2]},
    avoid=(0,),
  )


# ---- norms ----------------------------------------------------------------------------------------


def with_channels(x):
  return [uniform("x", x, -2, 2), uniform("weight", x[1:2], 0.5, 1.5), uniform("bias", x[1:2], -1, 1)]


case("group_norm", "group_norm", with_channels((2, 6, 3, 2)), lambda *x: F.group_norm(x[0], 3, *x[1:]), {"groups": 3})
case("group_norm_flat", "group_norm", with_channels((3, 6)), lambda *x: F.group_norm(x[0], 2, *x[1:]), {"groups": 2})
case("instance_norm", "instance_norm", [uniform("x", (2, 3, 4, 2), -2, 2)], lambda x: F.instance_norm(x))
case("layer_norm_plain", "layer_norm_plain", [uniform("x", (3, 7), -2, 2)], lambda x: F.layer_norm(x, (7,)))
for label, size, alpha, k in [("", 5, 0.5, 2.0), ("_even", 4, 1.5, 1.0), ("_one", 1, 1.0, 1.0)]:
  case(
    f"local_response_norm{label}",
    "local_response_norm",
    [uniform("x", (2, 7, 3, 2), -2, 2)],
    lambda x, size=size, alpha=alpha, k=k: F.local_response_norm(x, size, alpha, 0.75, k),
    {"channels": size, "alpha": alpha, "beta": 0.75, "k": k},
  )


# ---- losses -----------------------------------------------------------------------------------------


def classes(name, operator, function, weights=False, **attributes):
  """The keywords are those of PyTorch."""
  inputs = [uniform("x", (5, 7), -4, 4), below("labels", (5,), 4)]
  if weights:
    inputs.append(uniform("weight", (7,), 0.5, 2))

  def compute(x, labels, weight=None):
    return function(x, labels.long(), weight=weight, **attributes)

  case(name, operator, inputs, compute, attributes, by=("x",), outputs=("loss",))


classes("nll", "nll", F.nll_loss)
classes("nll_sum", "nll", F.nll_loss, reduction="sum")
classes("nll_weights", "nll", F.nll_loss, True)
classes("nll_ignored", "nll", F.nll_loss, ignore_index=2)
classes("nll_weights_ignored", "nll", F.nll_loss, True, ignore_index=2)
classes("cross_entropy_weights", "cross_entropy", F.cross_entropy, True)
classes("cross_entropy_ignored", "cross_entropy", F.cross_entropy, ignore_index=2)
classes("cross_entropy_sum", "cross_entropy", F.cross_entropy, reduction="sum")
classes("cross_entropy_all", "cross_entropy", F.cross_entropy, True, ignore_index=2, label_smoothing=0.125)


def loss(name, operator, function, low, high, target, attributes=None, by=None, gap=None):
  inputs = [uniform("x", (3, 7), low, high), uniform("target", (3, 7), *target)]
  case(name, operator, inputs, function, attributes, by=by, outputs=("loss",), gap=gap)


loss("l1", "l1", F.l1_loss, -2, 2, (-2, 2), gap=lambda x, y: x - y)
loss(
  "smooth_l1",
  "smooth_l1",
  lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
  -2,
  2,
  (-2, 2),
  {"beta": 0.5},
  gap=lambda x, y: torch.cat([x - y, (x - y).abs() - 0.5]),
)
loss("bce", "bce", F.binary_cross_entropy, 0.0625, 0.9375, (0, 1), by=("x",))
loss("kl_div", "kl_div", lambda x, y: F.kl_div(x, y, reduction="batchmean"), -4, 0, (0.125, 1))
loss(
  "hinge",
  "hinge",
  lambda x, y: (0.5 - x * y).clamp(min=0).mean(),
  -2,
  2,
  (-2, 2),
  {"margin": 0.5},
  gap=lambda x, y: 0.5 - x * y,
)
case(
  "bce_with_logits_weight",
  "bce_with_logits_weight",
  [uniform("x", (3, 7), -4, 4), uniform("target", (3, 7), 0, 1), uniform("weight", (7,), 0.5, 3)],
  lambda x, y, weight: F.binary_cross_entropy_with_logits(x, y, pos_weight=weight),
  by=("x", "target"),
  outputs=("loss",),
)
case(
  "margin_ranking",
  "margin_ranking",
  [uniform("x", (7,), -2, 2), uniform("y", (7,), -2, 2), values("target", (7,), [1, -1, 1, 1, -1, -1, 1])],
  lambda x, y, target: F.margin_ranking_loss(x, y, target, margin=0.25),
  {"margin": 0.25},
  by=("x", "y"),
  outputs=("loss",),
  gap=lambda x, y, target: 0.25 - target * (x - y),
)
case(
  "cosine_embedding",
  "cosine_embedding",
  [uniform("x", (4, 5), -2, 2), uniform("y", (4, 5), -2, 2), values("target", (4,), [1, -1, 1, -1])],
  lambda x, y, target: F.cosine_embedding_loss(x, y, target, margin=-0.25),
  {"margin": -0.25},
  by=("x", "y"),
  outputs=("loss",),
  gap=lambda x, y, target: F.cosine_similarity(x, y) + 0.25,
)
case(
  "triplet_margin",
  "triplet_margin",
  [uniform(name, (4, 5), -2, 2) for name in ("anchor", "positive", "negative")],
  lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=1.0),
  {"margin": 1.0},
  outputs=("loss",),
  gap=lambda a, p, n: F.pairwise_distance(a, p) - F.pairwise_distance(a, n) + 1,
)


def ctc(name, labels, times_of, labels_of, **attributes):
  """Lengths of 7 times and 4 labels of 5 classes."""
  rows = len(times_of)
  total = attributes.get("sum", False)

  def function(x, labels, times_of, labels_of):
    lengths = [lengths.long() for lengths in (times_of, labels_of)]
    return F.ctc_loss(
      F.log_softmax(x, dim=-1).transpose(0, 1),
      labels.long(),
      *lengths,
      blank=attributes["blank"],
      reduction="sum" if total else "mean",
      zero_infinity=attributes.get("zero_infinity", False),
    )

  inputs = [
    uniform("x", (rows, 7, 5), -2, 2),
    values("labels", (rows, 4), labels, "int32"),
    values("times_of", (rows,), times_of, "int32"),
    values("labels_of", (rows,), labels_of, "int32"),
  ]
  case(name, "ctc", inputs, function, attributes, by=("x",), outputs=("loss",))


ctc("ctc", [1, 2, 2, 3, 4, 4, 1, 1, 2, 1, 3, 3], [7, 6, 5], [4, 3, 1], blank=0)
ctc("ctc_blank", [0, 2, 2, 3, 1, 1, 1, 1], [7, 7], [4, 3], blank=4, sum=True)
ctc("ctc_infinite", [1, 1, 1, 1, 1, 2, 3, 1], [5, 6], [4, 3], blank=0, zero_infinity=True)


# ---- recurrences ----------------------------------------------------------------------------------

MODULES = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}


def recurrent(name, kind, layers=1, bidirectional=False, relu=False, lengths=None, start=False):
  """The result and the last states, one after the other. x is (3, 5, 4), with 3 units."""
  more = {"nonlinearity": "relu"} if relu else {}
  network = MODULES[kind](4, 3, layers, bidirectional=bidirectional, batch_first=True, **more).double()
  parameters = [(label, tuple(value.shape)) for label, value in network.named_parameters()]
  states = layers * (2 if bidirectional else 1)
  inputs = [uniform("x", (3, 5, 4), -2, 2)]
  inputs += [uniform(f"net.{label}".replace("_l0", ""), shape, -1, 1) for label, shape in parameters]
  if start:
    inputs += [uniform("start", (states, 3, 3), -1, 1)]
    inputs += [uniform("start_cells", (states, 3, 3), -1, 1)] if kind == "lstm" else []
  if lengths:
    inputs += [values("lengths", (3,), lengths, "int32")]

  def function(x, *tensors):
    given = {label: tensor for (label, _), tensor in zip(parameters, tensors)}
    rest = tensors[len(parameters) :]
    if lengths:
      x = torch.nn.utils.rnn.pack_padded_sequence(x, rest[-1].long(), batch_first=True, enforce_sorted=False)
    first = () if not start else ((rest[0], rest[1]),) if kind == "lstm" else (rest[0],)
    y, last = torch.func.functional_call(network, given, (x,) + first)
    if lengths:
      y = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=5)[0]
    return torch.cat([part.reshape(-1) for part in (y,) + (last if kind == "lstm" else (last,))])

  attributes = {"units": 3, "layers": layers, "bidirectional": bidirectional, "relu": relu}
  case(name, f"{kind}_layer", inputs, function, attributes)


recurrent("rnn_layer", "rnn", 2, bidirectional=True, lengths=[5, 2, 3])
recurrent("rnn_relu_layer", "rnn", relu=True, start=True)
recurrent("lstm_layer", "lstm", 2, bidirectional=True, lengths=[4, 5, 1])
recurrent("lstm_start_layer", "lstm", bidirectional=True, lengths=[1, 3, 5], start=True)
recurrent("gru_layer", "gru", 2, bidirectional=True, lengths=[3, 1, 5])
recurrent("gru_start_layer", "gru", bidirectional=True, lengths=[5, 2, 4], start=True)


# ---- attention ------------------------------------------------------------------------------------


def attention(name, words, batches, queries, keys, head, heads, key_heads, causal=False, lengths=None, mask=None):
  """lengths: of the keys that count, one for each batch. mask: its shape. keys None: q, k and v side by side."""
  packed = keys is None
  keys = queries if packed else keys

  def by_head(x, heads):
    return x.unflatten(2, (heads, head)).transpose(1, 2)

  def function(*given):
    given = list(given)
    q, k, v = given.pop(0).split([heads * head, key_heads * head, key_heads * head], 2) if packed else [
      given.pop(0) for _ in range(3)
    ]
    added = torch.zeros(batches, 1, queries, keys, dtype=torch.float64)
    if lengths:
      hidden = torch.arange(keys) >= given.pop(0).reshape(-1, 1, 1, 1)
      added = added.masked_fill(hidden, -torch.inf)
    if mask:
      added = added + given.pop(0)
    if causal:
      added = added.masked_fill(torch.ones(queries, keys).tril().logical_not(), -torch.inf)
    q, k, v = by_head(q, heads), by_head(k, key_heads), by_head(v, key_heads)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=added, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)

  if packed:
    inputs = [uniform("qkv", (batches, queries, (heads + 2 * key_heads) * head), -2, 2)]
  else:
    shape = (batches, keys, key_heads * head)
    inputs = [uniform("q", (batches, queries, heads * head), -2, 2), uniform("k", shape, -2, 2)]
    inputs.append(uniform("v", shape, -2, 2))
  by = tuple(source.name for source in inputs)
  if lengths:
    inputs.append(values("lengths", (batches,), lengths, "int32"))
  if mask:
    inputs.append(uniform("mask", mask, -2, 2))
  case(name, "attention", inputs, function, {"words": words}, by=by)


attention("attention", "heads=2 causal=1", 2, 4, None, 3, 2, 2, causal=True)
attention("attention_groups", "heads=4 key_heads=2", 1, 3, 5, 2, 4, 2)
attention("attention_lengths", "heads=2", 3, 3, 4, 3, 2, 2, lengths=[4, 1, 3])
attention("attention_mask", "heads=4 key_heads=2 causal=1", 2, 4, None, 2, 4, 2, causal=True, mask=(1, 4, 4, 4))
attention("attention_all", "heads=2 key_heads=1", 2, 3, 4, 3, 2, 1, lengths=[2, 4], mask=(2, 1, 3, 4))


def rotary(name, words, batches, length, heads, head, base=10000.0, interleaved=False, start=None):
  """start: the position of each batch's first row."""

  def function(x, start=None):
    position = torch.arange(length, dtype=torch.float64)
    position = position + start.double().reshape(-1, 1) if start is not None else position.reshape(1, -1)
    angle = position.unsqueeze(-1) * base ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
    turn = torch.polar(torch.ones_like(angle), angle).unsqueeze(2)
    x = x.unflatten(2, (heads, head // 2, 2) if interleaved else (heads, 2, head // 2))
    x = x if interleaved else x.transpose(-1, -2)
    y = torch.view_as_real(torch.view_as_complex(x.contiguous()) * turn)
    return (y if interleaved else y.transpose(-1, -2)).flatten(2)

  inputs = [uniform("x", (batches, length, heads * head), -2, 2)]
  if start:
    inputs.append(values("start", (len(start),), start, "int32"))
  case(name, "rotary", inputs, function, {"words": words}, by=("x",))


rotary("rotary", "heads=2", 2, 4, 2, 6)
rotary("rotary_start", "heads=2 interleaved=1 base=100", 2, 3, 2, 4, 100.0, True, [5, 117])
