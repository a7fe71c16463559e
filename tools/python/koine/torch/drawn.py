"""The table's operators that draw random numbers: in a training step by Koine's generator. A compiled model has PyTorch's."""
from __future__ import annotations

import math
from typing import Any, Optional, Tuple

from ..graph import Value
from .operators import row
from .trace import Absent, Call


def uniform(on: Call) -> Value:
    """Numbers from 0 to 1, without 1, in the result's shape."""
    if on.build.functional:
        raise on.refuse("PyTorch draws the random numbers of a compiled model")
    return on.full(0.0, dtype="float32").uniform_like()


@row("rand.default", "rand_like.default")
def rand(on: Call, *_: Any, **__: Any) -> Value:
    return uniform(on)


@row("randn.default", "randn_like.default")
def randn(on: Call, *_: Any, **__: Any) -> Value:
    """By the method of Box and Muller, from two uniform numbers."""
    size, angle = uniform(on).neg() + 1, uniform(on)
    return (size.log() * -2.0).sqrt().mul((angle * (2 * math.pi)).cos())


@row("randint.default", "randint.low")
def randint(on: Call, *given: Any, **_: Any) -> Value:
    low, high = (0, given[0]) if "default" in str(on.node.target) else given[:2]
    if not all(isinstance(number, int) for number in (low, high)) or high - low > 2**24:
        raise on.refuse(f"integers from {low} to {high} are not drawn: at most 2**24 different ones are")
    return on.value((uniform(on) * (high - low)).floor() + low, on.dtype)


@row("randperm.default")
def randperm(on: Call, count: Any, **_: Any) -> Value:
    """The order of random numbers; two of 24 bits that are equal keep their order."""
    if not isinstance(count, int):
        raise on.refuse("an open number of elements is not put in a random order")
    return on.value(uniform(on).top_k(count, 0, True, places=True)[1], on.dtype) if count else on.full(0)


@row("bernoulli.p", "bernoulli.default")
def bernoulli(on: Call, x: Value, fraction: Optional[float] = None, **_: Any) -> Value:
    """1 for a fraction of the elements, 0 for the others; without a fraction, x has that of each."""
    if fraction in (0, 1):
        return on.full(float(fraction))
    chance = x if fraction is None else on.value(float(fraction))
    return on.value(uniform(on).less(chance), on.dtype)


@row("native_dropout.default")
def dropout(on: Call, x: Value, rate: float, train: Optional[bool] = True) -> Tuple[Value, Any]:
    if train is False or rate == 0:
        return x, on.full(True, dtype="bool")
    if on.build.functional:
        raise on.refuse("PyTorch draws the random numbers of a compiled model")
    return (x.scale(0.0) if rate == 1 else x.dropout(rate)), Absent()
