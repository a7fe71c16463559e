"""Operators with weights: matrix products, convolutions, norms, attention, recurrence; and classification losses."""
from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .. import ops
from ..graph import Value
from .operators import row, several
from .trace import Absent, Call, Running
from .volumes import convolution_of_volumes, turned_images

# ---- products --------------------------------------------------------------------------------------------------------


def product(on: Call, a: Value, b: Value) -> Value:
    """a @ b; reads transposed matrices without copying them."""
    turned = []
    for x in (a, b):
        source, order = on.build.orders.get(x.name, (x, []))
        turned.append((source, True) if order == [*range(x.rank - 2), x.rank - 1, x.rank - 2] else (x, False))
    (a, is_a), (b, is_b) = turned
    return a.matmul(b, is_a, is_b)


@row("mm.default", "bmm.default")
def mm(on: Call, a: Value, b: Value) -> Value:
    return product(on, a, b)


@row("_grouped_mm.default", "transformers.grouped_mm_fallback.default")
def grouped_mm(on: Call, a: Value, b: Value, offs: Optional[Value] = None, bias: None = None, out_dtype: Any = None) -> Value:
    """a is (rows,K) and b (groups,K,N), or a is (K,rows) and b (rows,N); offs has the ends of the groups of rows."""
    if offs is None or bias is not None or out_dtype is not None or a.rank != 2:
        raise on.refuse("Koine groups the rows of a two-dimensional a, without a bias or another type of the result")
    if b.rank == 2:
        return on.graph.apply("grouped_matmul_weight", on.permuted(a, [1, 0]), b, offs)
    return a.grouped_matmul(b, offs)


@row("transformers.grouped_mm_fallback_backward.default", backward=True)
def grouped_mm_backward(on: Call, a: Value, b: Value, offs: Value, g: Value) -> Tuple[Value, Value]:
    return g.grouped_matmul(on.permuted(b, [0, 2, 1]), offs), on.graph.apply("grouped_matmul_weight", a, g, offs)


@row("matmul.default")
def matmul(on: Call, a: Value, b: Value) -> Value:
    """1-d a is a row, 1-d b a column."""
    a, b = a.unsqueeze(0) if a.rank == 1 else a, b.unsqueeze(1) if b.rank == 1 else b
    made = product(on, a, b)
    return made if list(made.shape) == on.shape else made.reshape(on.shape)


@row("addmm.default")
def addmm(on: Call, bias: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    return with_bias(on, product(on, a, b), bias, beta, alpha)


def with_bias(on: Call, made: Value, bias: Value, beta: float, alpha: float) -> Value:
    """alpha * made + beta * bias; beta = 0 ignores the bias, even NaN."""
    made = made if alpha == 1 else made.scale(float(alpha))
    return made if beta == 0 else made + (bias if beta == 1 else bias.scale(float(beta)))


@row("linear.default")
def linear(on: Call, x: Value, weight: Value, bias: Optional[Value] = None) -> Value:
    made = (x.unsqueeze(0) if x.rank == 1 else x).matmul(weight, transpose_b=True)
    made = made.squeeze(0) if x.rank == 1 else made
    return made if bias is None else made + bias


@row("einsum.default")
def einsum(on: Call, equation: str, values: Sequence[Value], **_: Any) -> Value:
    return ops.einsum(equation.replace(" ", ""), values)


# ---- convolutions and images -----------------------------------------------------------------------------------------


@row("convolution.default")
def convolution(on: Call, x: Value, weight: Value, bias: Optional[Value], stride: Sequence[int], padding: Sequence[int],
                dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int) -> Value:
    stride, padding, dilation, output_padding = (several(numbers, weight.rank - 2) for numbers in (stride, padding, dilation, output_padding))
    if weight.rank == 5:
        return convolution_of_volumes(on, x, weight, bias, stride, padding, dilation, transposed, groups)
    size = {1: "1d", 2: "2d"}[weight.rank - 2]
    sides = [padding[0], padding[0]] if size == "1d" else [padding[0], padding[1], padding[0], padding[1]]
    settings = {"stride": list(stride), "padding": sides, "dilation": list(dilation), "groups": groups, "all_padding": True}
    if transposed and size == "2d" and output_padding[0] and not output_padding[1]:  # conv_transpose2d reads this as an equal pair
        if any(isinstance(number, str) for number in (*x.shape, *on.shape)):
            raise on.refuse("open sizes with an output_padding of only the height are not covered")
        settings.pop("all_padding")
        made = turned_images(on, x, weight, on.shape[2:], **settings)
        return made if bias is None else made + per_channel(made, bias)
    if transposed:
        return getattr(x, f"conv_transpose{size}")(weight, bias, output_padding=list(output_padding), **settings)
    return getattr(x, f"conv{size}")(weight, bias, **settings)


@row("upsample_nearest2d.vec", "upsample_bilinear2d.vec", "upsample_bicubic2d.vec", "upsample_nearest2d.default",
     "upsample_bilinear2d.default", "upsample_bicubic2d.default")
def upsample(on: Call, x: Value, size: Any, *given: Any) -> Value:
    """The arguments are the size, align_corners (linear and cubic only) and the scales: a list, two numbers, or None."""
    name = str(on.node.target)
    height, width = on.shape[-2:]
    corners, scales = (False, given) if "nearest" in name else (given[0], given[1:])
    scales = list(scales)[0] if name.endswith(".vec") else scales if len(scales) == 2 and None not in scales else None
    if isinstance(height, str) or isinstance(width, str):
        raise on.refuse("images with open sizes are not resized")
    mode = "nearest" if "nearest" in name else "cubic" if "bicubic" in name else "linear"
    return x.resize_image(height, width, mode=mode, scale=list(scales) if scales else None, rounding="floor",
                          coordinates="asymmetric" if mode == "nearest" else "align-corners" if corners else "half-pixel")


# ---- norms -----------------------------------------------------------------------------------------------------------


def per_channel(x: Value, numbers: Value) -> Value:
    """Reshapes (C) to broadcast over x (N,C,...)."""
    return numbers.reshape(list(numbers.shape) + [1] * (x.rank - 2))


def standard(x: Value, axes: Sequence[int], epsilon: float) -> Tuple[Value, Value, Value]:
    """x with mean 0 and variance 1 along axes; the mean; and the inverse standard deviation, with keepdim."""
    mean = x.mean(list(axes), True)
    apart = x - mean
    inverse = (apart.mul(apart).mean(list(axes), True) + epsilon).rsqrt()
    return apart.mul(inverse), mean, inverse


def scaled(x: Value, weight: Optional[Value], bias: Optional[Value]) -> Value:
    x = x if weight is None else x.mul(weight)
    return x if bias is None else x + bias


@row("layer_norm.default", "native_layer_norm.default")
def layer_norm(on: Call, x: Value, shape: Sequence[int], weight: Optional[Value] = None, bias: Optional[Value] = None,
               epsilon: float = 1e-5, *_: Any) -> Any:
    keeps = "native" in str(on.node.target) and (on.reads(1) or on.reads(2))
    if keeps and not on.build.functional:
        made, mean, inverse = standard(x, range(x.rank - len(shape), x.rank), epsilon)
        return scaled(made, weight, bias), mean, inverse
    size = 1
    for number in shape:
        size *= number
    rows = x if len(shape) == 1 else x.reshape(list(x.shape[:x.rank - len(shape)]) + [size])
    weight = on.full(1.0, [size]) if weight is None else weight.reshape(size)
    made = on.graph.apply("layer_norm", rows, weight, *([] if bias is None else [bias.reshape(size)]), epsilon=epsilon)
    if keeps:
        kept = [made.result(position).reshape(on.sizes_of(position)) for position in (1, 2)]
        return (made.reshape(x.shape), *kept)
    made = made if len(shape) == 1 else made.reshape(x.shape)
    return (made, Absent(), Absent()) if "native" in str(on.node.target) else made


@row("rms_norm.default")
def rms_norm(on: Call, x: Value, shape: Sequence[int], weight: Optional[Value] = None, epsilon: Optional[float] = None) -> Value:
    if len(shape) != 1:
        raise on.refuse("rows of more than one axis are not covered: flatten them")
    weight = on.full(1.0, list(shape)) if weight is None else weight
    return on.graph.apply("rms_norm", x, weight, epsilon=2**-23 if epsilon is None else epsilon)


@row("group_norm.default", "native_group_norm.default")
def group_norm(on: Call, x: Value, *given: Any) -> Any:
    if "native" in str(on.node.target):
        weight, bias, _, _, _, groups, epsilon = given
    else:
        groups, weight, bias, epsilon = (given + (None, None, 1e-5)[len(given) - 1:])[:4]
    size = 1
    for number in x.shape[1:]:
        if isinstance(number, str):
            raise on.refuse("images with open sizes are not covered")
        size *= number
    made, mean, inverse = standard(x.reshape([x.shape[0], groups, size // groups]), [2], epsilon)
    made = scaled(made.reshape(x.shape), *(None if value is None else per_channel(x, value) for value in (weight, bias)))
    return (made, mean.squeeze(2), inverse.squeeze(2)) if "native" in str(on.node.target) else made


def batch_norm_by(on: Call, x: Value, weight: Any, bias: Any, mean: Value, variance: Value, **more: Any) -> Value:
    channels = x.shape[1]
    weight = on.full(1.0, [channels]) if weight is None else weight
    bias = on.full(0.0, [channels]) if bias is None else bias
    return x.batch_norm_with(weight, bias, mean, variance, **more)


def composed_norm(on: Call, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float,
                  epsilon: float) -> Tuple[Value, ...]:
    """A batch norm whose statistics are arguments and results: the batch statistics and the new running statistics."""
    if not training:
        inverse = (variance + epsilon).rsqrt()
        scale = inverse if weight is None else inverse.mul(weight)
        shift = mean.mul(scale).neg() if bias is None else bias.sub(mean.mul(scale))
        none = on.graph.constant(np.zeros(0, np.float32))
        return scaled(x, per_channel(x, scale), per_channel(x, shift)), none, none, mean, variance
    if mean is not None:
        channels = [x.shape[1]]
        weight, bias = on.full(1.0, channels) if weight is None else weight, on.full(0.0, channels) if bias is None else bias
        made = on.graph.apply("batch_norm", x, weight, bias, mean, variance, epsilon=epsilon, momentum=momentum)
        on.build.by_batch = True
        return (made, *(made.result(position) for position in range(1, 5)))
    made, own_mean, inverse = standard(x, [axis for axis in range(x.rank) if axis != 1], epsilon)
    made = scaled(made, *(None if value is None else per_channel(x, value) for value in (weight, bias)))
    return made, own_mean.reshape(x.shape[1]), inverse.reshape(x.shape[1])


@row("_native_batch_norm_legit_functional.default")
def batch_norm(on: Call, x: Value, weight: Any, bias: Any, mean: Value, variance: Value, training: bool, momentum: float,
               epsilon: float) -> Any:
    if on.build.functional:
        return composed_norm(on, x, weight, bias, mean, variance, training, momentum, epsilon)
    mean, variance = (value.statistic if isinstance(value, Running) else value for value in (mean, variance))
    made = batch_norm_by(on, x, weight, bias, mean, variance, momentum=momentum, epsilon=epsilon, frozen=not training)
    return made, Absent(), Absent(), Running(mean), Running(variance)


@row("native_batch_norm.default")
def batch_norm_in_place(on: Call, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float,
                        epsilon: float) -> Any:
    if training and mean is not None:
        raise on.refuse("it writes its statistics in place, which the tracer makes functional")
    return composed_norm(on, x, weight, bias, mean, variance, training, momentum, epsilon)[:3]


@row("_native_batch_norm_legit_no_training.default")
def frozen_norm(on: Call, x: Value, weight: Any, bias: Any, mean: Value, variance: Value, momentum: float, epsilon: float) -> Any:
    if on.build.functional:
        return composed_norm(on, x, weight, bias, mean, variance, False, momentum, epsilon)[:3]
    return batch_norm_by(on, x, weight, bias, mean, variance, epsilon=epsilon, frozen=True), Absent(), Absent()


@row("_native_batch_norm_legit.no_stats")
def instance_norm(on: Call, x: Value, weight: Any, bias: Any, training: bool, momentum: float, epsilon: float) -> Any:
    made, mean, inverse = composed_norm(on, x, weight, bias, None, None, True, momentum, epsilon)
    return made, mean, inverse


# ---- attention -------------------------------------------------------------------------------------------------------


def composed_attention(on: Call, q: Value, k: Value, v: Value, mask: Any, dropout: float, scale: float) -> Value:
    """Attention from matrix products and a softmax; for trained masks."""
    scores = q.matmul(k, transpose_b=True).scale(scale)
    weights = (scores + mask).softmax(scores.rank - 1)
    return (weights.dropout(dropout) if dropout else weights).matmul(v)


def merge_heads(on: Call, x: Value) -> Value:
    """(B,heads,T,D) as (B,T,heads*D)."""
    batch, count, length, size = x.shape
    return on.permuted(x, [0, 2, 1, 3]).reshape([batch, length, count * size])


def split_heads(on: Call, x: Value, heads: int) -> Value:
    """(B,T,heads*D) as (B,heads,T,D)."""
    batch, length, columns = x.shape
    return on.permuted(x.reshape([batch, length, heads, columns // heads]), [0, 2, 1, 3])


def whole_mask(mask: Value, q: Value, k: Value, without_heads: bool) -> Value:
    """The mask as (B,heads,T,S), where B and heads may be 1, for q (B,T,…) and k (B,S,…)."""
    mask = mask if mask.dtype in ("bool", "float32") else mask.cast("float32")
    mask = mask.unsqueeze(0) if mask.rank == 2 else mask
    mask = mask.unsqueeze(1 if without_heads else 0) if mask.rank == 3 else mask
    return mask.expand([mask.shape[0], mask.shape[1], q.shape[1], k.shape[1]])


@row("_scaled_dot_product_flash_attention_for_cpu.default")
def attention_with_sums(on: Call, q: Value, k: Value, v: Value, dropout: float = 0.0, causal: bool = False, attn_mask: Optional[Value] = None,
                        scale: Optional[float] = None) -> Tuple[Value, Value]:
    """q, k and v are (B,heads,T,D); the second result is the logsumexp of each query, (B,heads,T)."""
    if dropout:
        raise on.refuse("PyTorch draws the random numbers of a compiled model")
    heads, key_heads = q.shape[1], k.shape[1]
    q, k, v = (merge_heads(on, part) for part in (q, k, v))
    made = q.attention(k, v, heads=heads, key_heads=0 if key_heads == heads else key_heads, causal=causal, scale=scale,
                       mask=None if attn_mask is None else whole_mask(attn_mask, q, k, False))
    return split_heads(on, made, heads), made.result(1)


def as_heads(on: Call, q: Value, k: Value, v: Value, mask: Optional[Value]) -> Tuple[Any, ...]:
    """q (B,…,T,D), k and v of more than four axes, and their mask, with all axes between the first and the last two as heads."""
    middle = list(q.shape[1:-2])
    if list(k.shape[1:-2]) != middle or list(v.shape[1:-2]) != middle:
        raise on.refuse("expected q, k and v with the same axes before the last two")
    if mask is not None and mask.rank > 2:
        while mask.rank < q.rank:
            mask = mask.unsqueeze(0)
        mask = mask.expand([mask.shape[0], *middle, *mask.shape[-2:]])
    return tuple(part if part is None or part.rank == 2 else part.reshape([part.shape[0], math.prod(middle), *part.shape[-2:]])
                 for part in (q, k, v, mask))


def of_size(x: Value, size: int) -> Value:
    """x with zeros at the end of its last axis."""
    more = size - x.shape[-1]
    return x.pad([0] * (2 * x.rank - 1) + [more]) if more else x


@row("scaled_dot_product_attention.default")
def attention(on: Call, q: Value, k: Value, v: Value, mask: Optional[Value] = None, dropout: float = 0.0, causal: bool = False,
              scale: Optional[float] = None, enable_gqa: bool = False) -> Value:
    """q is (…,T,D), k (…,S,D) and v (…,S,E); the third axis from the end, if any, is the heads."""
    factor = float(q.shape[-1]) ** -0.5 if scale is None else scale
    if mask is not None and len(on.node.args) > 3 and on.trained(3):
        if q.rank > 3 and q.shape[-3] != k.shape[-3]:
            raise on.refuse("a trained mask with fewer heads of keys than of queries is not covered")
        return composed_attention(on, q, k, v, mask, dropout, factor)

    # The operator has one size for q, k and v: zeros change neither the scores nor the other elements of a sum.
    wanted, size = v.shape[-1], max(q.shape[-1], v.shape[-1])
    q, k, v = (of_size(part, size) for part in (q, k, v))
    if q.rank == 2:
        q, k, v = (part.unsqueeze(0) for part in (q, k, v))
    elif q.rank > 4:
        q, k, v, mask = as_heads(on, q, k, v, mask)
    has_heads = q.rank == 4
    heads, key_heads = (q.shape[1], k.shape[1]) if has_heads else (1, 1)
    if has_heads:
        q, k, v = (merge_heads(on, part) for part in (q, k, v))
    mask = None if mask is None else whole_mask(mask, q, k, not has_heads)
    made = q.attention(k, v, heads=heads, key_heads=0 if key_heads == heads else key_heads, causal=causal, scale=factor, mask=mask,
                       dropout=dropout or None)
    made = split_heads(on, made, heads) if has_heads else made
    made = made.slice(made.rank - 1, 0, wanted) if wanted < size else made
    return made if made.rank == on.fake.dim() else made.reshape(on.shape)


# ---- recurrence ------------------------------------------------------------------------------------------------------


def recurrent_part(on: Call, kind: str, x: Value, weights: Sequence[Value], start: Sequence[Value], reverse: bool) -> Tuple[Value, ...]:
    """One direction of one layer, on x (B,T,inputs): the outputs (B,T,units) and the final states (B,units)."""
    by_input, by_state, *biases = weights
    units = by_state.shape[1]
    given, last_bias = x.matmul(by_input, transpose_b=True), None
    if biases:
        first, second = biases
        if kind == "gru":  # r multiplies the recurrent part of n
            last_bias = second.slice(0, 2 * units, None)
            second = second.slice(0, 0, 2 * units).pad([0, units])
        given = given + first + second
    elif kind == "gru":
        last_bias = on.full(0.0, [units])
    middle = [last_bias] if kind == "gru" else []
    settings = {"relu": "relu" in str(on.node.target)} if kind == "rnn" else {}
    made = on.graph.apply(kind, given, by_state, *middle, *start, reverse=reverse, **settings)
    return (made, *(made.result(position + 1) for position in range(2 if kind == "lstm" else 1)))


def projected_part(on: Call, x: Value, weights: Sequence[Value], start: Sequence[Value], reverse: bool) -> Tuple[Value, ...]:
    """recurrent_part for an LSTM with projections (proj_size), unrolled over time."""
    by_input, by_state, *biases, projection = weights
    if not isinstance(x.shape[1], int):
        raise on.refuse("projections of the states (proj_size) need a sequence of known length")
    given, units = x.matmul(by_input, transpose_b=True), by_state.shape[0] // 4
    for bias in biases:
        given = given + bias
    state, cell = start if start else (None, None)
    results: List[Value] = []
    for place in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):
        gates = given.slice(1, place, place + 1).squeeze(1)
        if state is not None:
            gates = gates + state.matmul(by_state, transpose_b=True)
        enters, keeps, new, leaves = (gates.slice(1, part * units, (part + 1) * units) for part in range(4))
        fresh = enters.sigmoid() * new.tanh()
        cell = fresh if cell is None else keeps.sigmoid() * cell + fresh
        state = (leaves.sigmoid() * cell.tanh()).matmul(projection, transpose_b=True)
        results.append(state.unsqueeze(1))
    made = ops.concat(results[::-1] if reverse else results, 1) if len(results) > 1 else results[0]
    assert state is not None and cell is not None
    return made, state, cell


@row("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def recurrent(on: Call, x: Value, start: Any, weights: Sequence[Value], has_biases: bool, layers: int, dropout: float, train: bool,
              bidirectional: bool, batch_first: bool) -> Tuple[Value, ...]:
    """start is (layers * directions, B, units); for an LSTM a list of the hidden and cell states."""
    kind = str(on.node.target).split(".")[1].split("_")[0]
    starts = list(start) if kind == "lstm" else [start]
    each = len(weights) // (layers * (2 if bidirectional else 1))
    is_projected = each in (3, 5)
    x = x if batch_first else on.permuted(x, [1, 0, 2])
    is_zero = all(value.name in on.build.zeros for value in starts)
    lasts: List[List[Value]] = [[] for _ in starts]
    for layer in range(layers):
        sides = []
        for side in range(2 if bidirectional else 1):
            part = layer * (2 if bidirectional else 1) + side
            begin = [] if is_zero else [value.slice(0, part, part + 1).squeeze(0) for value in starts]
            own = weights[part * each:(part + 1) * each]
            made, *last = projected_part(on, x, own, begin, side == 1) if is_projected else recurrent_part(on, kind, x, own, begin, side == 1)
            sides.append(made)
            for kept, value in zip(lasts, last):
                kept.append(value.unsqueeze(0))
        x = ops.concat(sides, 2) if len(sides) > 1 else sides[0]
        if train and dropout and layer + 1 < layers:
            x = x.dropout(dropout)
    x = x if batch_first else on.permuted(x, [1, 0, 2])
    return (x, *(ops.concat(kept, 0) if len(kept) > 1 else kept[0] for kept in lasts))


# ---- classification losses -------------------------------------------------------------------------------------------


@row("cross_entropy_loss.default")
def cross_entropy(on: Call, logits: Value, target: Value, weight: Optional[Value] = None, reduction: int = 1, ignored: int = -100,
                  label_smoothing: float = 0.0) -> Value:
    """logits are (N,classes,...) or (classes); target has their shape without the classes, or their shape."""
    labels = target.dtype != "float32"
    if logits.rank == 1:
        logits, target = logits.unsqueeze(0), target.unsqueeze(0)
    if logits.rank > 2:
        order = [0, *range(2, logits.rank), 1]
        logits, target = logits.transpose(order), target if labels else target.transpose(order)
    if reduction == 0:
        if label_smoothing or weight is not None or not labels:
            raise on.refuse("reduction='none' with class weights, label smoothing or distributions is not covered")
        counts = target.not_equal(on.value(ignored, target.dtype))
        places = counts.where(target, on.value(0, target.dtype)).unsqueeze(target.rank)
        each = logits.log_softmax(logits.rank - 1).gather_elements(places, logits.rank - 1).neg().reshape(on.shape)
        return counts.reshape(on.shape).where(each, on.value(0.0))
    if not labels and (weight is not None or label_smoothing):
        raise on.refuse("distributions as targets with class weights or label smoothing are not covered")
    if labels and weight is None and reduction == 1 and -2**31 <= ignored < 2**31:
        return on.graph.apply("cross_entropy_counted", logits, target, label_smoothing=label_smoothing, ignored=ignored)
    return logits.cross_entropy(target, label_smoothing=label_smoothing or None, class_weights=weight, has_ignore_index=labels,
                                ignore_index=ignored if labels else None, sum=reduction == 2)
