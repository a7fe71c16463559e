"""Backward operators, which appear in the graphs of torch.compile."""
from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Tuple

from ..graph import Value
from .layers import merge_heads, per_channel, split_heads, whole_mask
from .operators import axis_of, row, several
from .trace import Absent, Call
from .volumes import convolution_of_volumes_backward


@row("convolution_backward.default", backward=True)
def convolution_backward(on: Call, g: Value, x: Value, weight: Value, bias_sizes: Any, stride: Sequence[int], padding: Sequence[int],
                         dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
                         wanted: Sequence[bool]) -> Tuple[Any, ...]:
    """g is (N,outputs,...), x (N,C,...); 1-d inputs are treated as images with one row."""
    stride, padding, dilation = (several(numbers, weight.rank - 2) for numbers in (stride, padding, dilation))
    if weight.rank == 5:
        return tuple(convolution_of_volumes_backward(on, g, x, weight, stride, padding, dilation, transposed, groups, wanted))
    of_x, of_weight = x.shape, weight.shape
    if weight.rank == 3:
        g, x, weight = (value.unsqueeze(2) for value in (g, x, weight))
        stride, padding, dilation = ([first, *numbers] for first, numbers in ((1, stride), (0, padding), (1, dilation)))
    window = {"stride": list(stride), "padding": [*padding, *padding], "dilation": list(dilation), "groups": groups}
    by_x = by_weight = by_bias = Absent()  # type: Any
    if wanted[0]:
        by_x = on.graph.apply("conv2d", g, weight, **window) if transposed else \
            on.graph.apply("conv2d_data", g, weight, size=list(x.shape[2:]), **window)
        by_x = by_x.reshape(of_x)
    if wanted[1]:
        pair = (x, g) if transposed else (g, x)
        by_weight = on.graph.apply("conv2d_weight", *pair, size=list(weight.shape[2:]), **window).reshape(of_weight)
    if wanted[2]:
        by_bias = g.sum([0, 2, 3])
    return by_x, by_weight, by_bias


@row("native_layer_norm_backward.default", backward=True)
def layer_norm_backward(on: Call, g: Value, x: Value, shape: Sequence[int], mean: Value, inverse: Value, weight: Optional[Value],
                        bias: Optional[Value], wanted: Sequence[bool]) -> Tuple[Any, ...]:
    size = math.prod(shape)
    front = list(x.shape[:x.rank - len(shape)])
    given = on.full(1.0, [size]) if weight is None else weight.reshape(size)
    first = on.graph.apply("layer_norm_gradient", x.reshape(front + [size]), g.reshape(front + [size]), given, mean.reshape(front),
                           inverse.reshape(front))
    results = [first, first.result(1), first.result(2)]
    shapes = [x.shape, list(shape), list(shape)]
    return tuple(value.reshape(size) if is_wanted else Absent() for value, size, is_wanted in zip(results, shapes, wanted))


@row("_scaled_dot_product_flash_attention_for_cpu_backward.default", backward=True)
def attention_backward(on: Call, g: Value, q: Value, k: Value, v: Value, y: Value, sums: Value, dropout: float, causal: bool,
                       attn_mask: Optional[Value] = None, scale: Optional[float] = None) -> Tuple[Value, ...]:
    """g, q, k, v and y are (B,heads,T,D), sums (B,heads,T)."""
    heads, key_heads = q.shape[1], k.shape[1]
    g, q, k, v, y = (merge_heads(on, part) for part in (g, q, k, v, y))
    masks = [] if attn_mask is None else [whole_mask(attn_mask, q, k, False)]
    if masks and masks[0].dtype == "bool":
        masks = [masks[0].where(on.value(0.0), on.value(-math.inf))]
    first = on.graph.apply("attention_gradient", g, y, sums, q, k, v, *masks, heads=heads, key_heads=0 if key_heads == heads else key_heads,
                           causal=causal, scale=scale or 0.0)
    return tuple(split_heads(on, part, count) for part, count in zip((first, first.result(1), first.result(2)), (heads, key_heads, key_heads)))


@row("native_batch_norm_backward.default", backward=True)
def batch_norm_backward(on: Call, g: Value, x: Value, weight: Optional[Value], running_mean: Any, running_variance: Any, mean: Any,
                        inverse: Any, training: bool, epsilon: float, wanted: Sequence[bool]) -> Tuple[Any, ...]:
    weight = on.full(1.0, [x.shape[1]]) if weight is None else weight
    if training:
        first = on.graph.apply("batch_norm_gradient", x, g, weight, mean, inverse)
        return first, first.result(1), first.result(2)
    axes, inverse = [axis for axis in range(x.rank) if axis != 1], (running_variance + epsilon).rsqrt()
    standard = x.sub(per_channel(x, running_mean)).mul(per_channel(x, inverse))
    return g.mul(per_channel(x, inverse.mul(weight))), g.mul(standard).sum(axes), g.sum(axes)


@row("native_group_norm_backward.default", backward=True)
def group_norm_backward(on: Call, g: Value, x: Value, mean: Value, inverse: Value, weight: Optional[Value], batch: int, channels: int,
                        size: int, groups: int, wanted: Sequence[bool]) -> Tuple[Any, ...]:
    """mean and inverse are (N,groups)."""
    shape, whole, front = x.shape, [batch, groups, channels // groups, size], [batch, groups, 1, 1]
    g, x = g.reshape(whole), x.reshape(whole)
    mean, inverse = mean.reshape(front), inverse.reshape(front)
    standard = x.sub(mean).mul(inverse)
    by_x = Absent()  # type: Any
    if wanted[0]:
        scaled = g if weight is None else g.mul(weight.reshape([1, groups, channels // groups, 1]))
        by_x = scaled.sub(scaled.mean([2, 3], True)).sub(standard.mul(scaled.mul(standard).mean([2, 3], True))).mul(inverse)
        by_x = by_x.reshape(shape)
    by_weight = g.mul(standard).sum([0, 3]).reshape([channels]) if wanted[1] else Absent()
    return by_x, by_weight, g.sum([0, 3]).reshape([channels]) if wanted[2] else Absent()


@row("embedding_dense_backward.default", backward=True)
def embedding_backward(on: Call, g: Value, indices: Value, rows: int, padding: int, by_frequency: bool) -> Value:
    if by_frequency:
        raise on.refuse("scale_grad_by_freq is not covered")
    if padding >= 0:
        g = indices.not_equal(on.value(padding, indices.dtype)).unsqueeze(indices.rank).where(g, on.value(0.0))
    return on.graph.apply("embedding_gradient", g, indices, rows=rows)


@row("_softmax_backward_data.default", "_log_softmax_backward_data.default", backward=True)
def softmax_backward(on: Call, g: Value, y: Value, axis: int, *_: Any) -> Value:
    name = "log_softmax_gradient" if "log" in str(on.node.target) else "softmax_gradient"
    return on.graph.apply(name, y, g, axis=axis_of(y, axis)) if y.rank else on.full(0.0)
