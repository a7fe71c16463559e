"""Convolutions of volumes (N,C,D,H,W) by image operators: the depth of the window is folded into channels."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence

from .. import ops
from ..graph import Value
from .trace import Absent, Call


def taps_of(on: Call, x: Value, axis: int, window: int, places: int, stride: int, dilation: int) -> List[Value]:
    """For each tap of a window along an axis of x, its elements at all window positions; x is already padded."""
    return [on.graph.apply("slice", x, axis=axis, begin=tap * dilation, end=tap * dilation + (places - 1) * stride + 1, step=stride)
            for tap in range(window)]


def padded(x: Value, axis: int, before: int, after: int, value: float = 0.0) -> Value:
    """Pads an axis; negative amounts crop."""
    if before < 0 or after < 0:
        x = x.slice(axis, max(0, -before), None if after >= 0 else x.shape[axis] + after)
    amounts = [0] * (2 * x.rank)
    amounts[axis], amounts[x.rank + axis] = max(0, before), max(0, after)
    return x.pad(amounts, value) if any(amounts) else x


def with_depth(planes: Value, batch: int, depth: int) -> Value:
    """(N*D,C,H,W) as (N,C,D,H,W)."""
    channels, height, width = planes.shape[1:]
    return planes.reshape([batch, depth, channels, height, width]).transpose([0, 2, 1, 3, 4])


def planes_of(x: Value) -> Value:
    """(N,C,D,H,W) as (N*D,C,H,W)."""
    return x.transpose([0, 2, 1, 3, 4]).reshape([-1, x.shape[1], *x.shape[3:]])


def columns_of(on: Call, x: Value, depth: int, window: int, stride: int, padding: int, dilation: int) -> Value:
    """x (N,C,D,H,W) as (N*depth,C*window,H,W): im2col along the depth, with the window folded into channels."""
    reach = (depth - 1) * stride + (window - 1) * dilation + 1
    inputs, x = x.shape[1], padded(x, 2, padding, reach - x.shape[2] - padding)
    taps = ops.concat([tap.unsqueeze(2) for tap in taps_of(on, x, 2, window, depth, stride, dilation)], 2)  # (N,C,window,depth,H,W)
    return taps.transpose([0, 3, 1, 2, 4, 5]).reshape([-1, inputs * window, *x.shape[3:]])


def flat_kernels(weight: Value) -> Value:
    """(A,B,D,H,W) as (A,B*D,H,W)."""
    return weight.reshape([weight.shape[0], weight.shape[1] * weight.shape[2], *weight.shape[3:]])


def turned_images(on: Call, x: Value, weight: Value, size: Sequence[int], **settings: Any) -> Value:
    """The transposed convolution of images, with a given output size."""
    return on.graph.apply("conv2d_data", x, weight, size=list(size), **settings)


class Volumes:
    """Convolutions of volumes; settings along height and width are passed to the image convolutions."""

    def __init__(self, on: Call, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int) -> None:
        self.on, self.stride, self.padding, self.dilation = on, stride, padding, dilation
        self.images = {"stride": list(stride[1:]), "padding": [padding[1], padding[2]] * 2, "dilation": list(dilation[1:]), "groups": groups}

    def columns(self, x: Value, depth: int, window: int) -> Value:
        return columns_of(self.on, x, depth, window, self.stride[0], self.padding[0], self.dilation[0])

    def convolve(self, x: Value, weight: Value, depth: int) -> Value:
        """x (N,inputs,D,H,W) and weight (outputs,inputs/groups,D,H,W)."""
        made = self.columns(x, depth, weight.shape[2]).conv2d(flat_kernels(weight), all_padding=True, **self.images)
        return with_depth(made, x.shape[0], depth)

    def turn(self, x: Value, weight: Value, size: Sequence[int]) -> Value:
        """The transposed convolution: x (N,inputs,D,H,W) and weight (inputs,outputs/groups,D,H,W); size is the result's."""
        window = weight.shape[2:]
        made = turned_images(self.on, planes_of(x), flat_kernels(weight), size[1:], **self.images)
        made = made.reshape([x.shape[0], x.shape[2], made.shape[1] // window[0], window[0], *made.shape[2:]])
        return spread(made, size[0], self.stride[0], self.padding[0], self.dilation[0])

    def by_weight(self, x: Value, g: Value, window: Sequence[int]) -> Value:
        """The gradient of convolve with respect to the weights: x is the input, g the gradient of the output."""
        made = self.on.graph.apply("conv2d_weight", planes_of(g), self.columns(x, g.shape[2], window[0]), size=list(window[1:]), **self.images)
        return made.reshape([made.shape[0], made.shape[1] // window[0], *window])


def convolution_of_volumes(on: Call, x: Value, weight: Value, bias: Optional[Value], stride: Sequence[int], padding: Sequence[int],
                           dilation: Sequence[int], transposed: bool, groups: int) -> Value:
    size = on.shape[2:]
    if not all(isinstance(number, int) for number in [*size, *x.shape[2:]]):
        raise on.refuse("volumes with open sizes are not covered")
    volumes = Volumes(on, stride, padding, dilation, groups)
    made = volumes.turn(x, weight, size) if transposed else volumes.convolve(x, weight, size[0])
    return made if bias is None else made + bias.reshape([on.shape[1], 1, 1, 1])


def convolution_of_volumes_backward(on: Call, g: Value, x: Value, weight: Value, stride: Sequence[int], padding: Sequence[int],
                                    dilation: Sequence[int], transposed: bool, groups: int, wanted: Sequence[bool]) -> List[Any]:
    volumes, made = Volumes(on, stride, padding, dilation, groups), [Absent(), Absent(), Absent()]  # type: Any, List[Any]
    if wanted[0]:
        made[0] = volumes.convolve(g, weight, x.shape[2]) if transposed else volumes.turn(g, weight, x.shape[2:])
    if wanted[1]:
        made[1] = volumes.by_weight(*((g, x) if transposed else (x, g)), weight.shape[2:])
    if wanted[2]:
        made[2] = g.sum([0, 2, 3, 4])
    return made


def spread(planes: Value, depth: int, stride: int, padding: int, dilation: int) -> Value:
    """planes are (N,D,C,window,H,W): adds each plane's window at its depth positions: (N,C,depth,H,W)."""
    batch, given, channels, window, height, width = planes.shape
    planes = planes.transpose([3, 0, 2, 1, 4, 5])  # (window,N,C,D,H,W)
    if stride > 1:  # zeros between the planes
        planes = padded(planes.reshape([window, batch, channels, given, 1, height * width]), 4, 0, stride - 1)
    planes = planes.reshape([window, batch, channels, given * stride, height, width])
    total = None
    for tap in range(window):
        part = padded(planes.slice(0, tap, tap + 1).squeeze(0), 2, tap * dilation - padding, depth - given * stride - tap * dilation + padding)
        total = part if total is None else total + part
    assert total is not None
    return total
