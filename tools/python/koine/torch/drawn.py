"""Operators that draw random numbers. A training step uses Koine's generator; compiled models use PyTorch's."""
from __future__ import annotations

import math
from typing import Any, Optional, Tuple

from ..graph import Value
from .operators import row
from .trace import Absent, Call


def uniform(on: Call) -> Value:
    """Uniform random numbers in [0, 1), in the result's shape."""
    if on.build.functional:
        raise on.refuse("PyTorch draws the random numbers of a compiled model")
    return on.full(0.0, dtype="float32").uniform_like()


@row("rand.default", "rand_like.default")
def rand(on: Call, *_: Any, **__: Any) -> Value:
    return uniform(on)


@row("randn.default", "randn_like.default")
def randn(on: Call, *_: Any, **__: Any) -> Value:
    """The Box-Muller transform of two uniform random numbers."""
    size, angle = uniform(on).neg() + 1, uniform(on)
    return (size.log() * -2.0).sqrt().mul((angle * (2 * math.pi)).cos())


@row("randint.default", "randint.low")
def randint(on: Call, *given: Any, **_: Any) -> Value:
    low, high = (0, given[0]) if "default" in str(on.node.target) else given[:2]
    if not all(isinstance(number, int) for number in (low, high)) or high - low > 2**24:
        raise on.refuse(f"random integers from {low} to {high}: a range of at most 2**24 is supported")
    return on.value((uniform(on) * (high - low)).floor() + low, on.dtype)


@row("randperm.default")
def randperm(on: Call, count: Any, **_: Any) -> Value:
    """The argsort of random numbers; equal numbers (they have 24 bits) keep their order."""
    if not isinstance(count, int):
        raise on.refuse("randperm of a dynamic size is not supported")
    return on.value(uniform(on).top_k(count, 0, True, places=True)[1], on.dtype) if count else on.full(0)


@row("bernoulli.p", "bernoulli.default")
def bernoulli(on: Call, x: Value, fraction: Optional[float] = None, **_: Any) -> Value:
    """1 with probability `fraction`, else 0; without `fraction`, x has the probability of each element."""
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
