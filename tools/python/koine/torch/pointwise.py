"""Elementwise operators."""
from __future__ import annotations

import math
from typing import Any, Optional, Tuple

import numpy as np

from ..graph import Value
from .operators import is_number, row
from .trace import Call

# Unary float functions: ATen name and Koine name.
for _theirs, _ours in {"acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh", "cos": "cos",
                       "cosh": "cosh", "erf": "erf", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p",
                       "reciprocal": "reciprocal", "rsqrt": "rsqrt", "sigmoid": "sigmoid", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt",
                       "tan": "tan", "tanh": "tanh", "silu": "silu", "mish": "mish", "hardswish": "hard_swish",
                       "log_sigmoid": "log_sigmoid"}.items():
    row(f"{_theirs}.default")(lambda on, x, _ours=_ours: getattr(on.value(x, "float32"), _ours)())
for _theirs, _ours in {"abs": "abs", "neg": "neg", "sign": "sign", "relu": "relu"}.items():
    row(f"{_theirs}.default")(lambda on, x, _ours=_ours: getattr(x, _ours)())
for _theirs, _ours in {"ceil": "ceil", "floor": "floor", "round": "round"}.items():
    row(f"{_theirs}.default")(lambda on, x, _ours=_ours: getattr(x, _ours)() if x.dtype == "float32" else x)


@row("trunc.default")
def trunc(on: Call, x: Value) -> Value:
    return x if x.dtype != "float32" else x.sign() * x.abs().floor()


@row("log2.default", "log10.default")
def log_of_base(on: Call, x: Value) -> Value:
    return on.value(x, "float32").log() * (1 / math.log(2 if "log2" in str(on.node.target) else 10))


@row("isnan.default", "isinf.default")
def is_special(on: Call, x: Value) -> Value:
    if x.dtype != "float32":
        return on.full(False)
    return x.isnan() if "isnan" in str(on.node.target) else x.isinf()


@row("add.Tensor", "add.Scalar")
def add(on: Call, x: Any, y: Any, alpha: float = 1) -> Value:
    if is_number(y) and on.dtype == x.dtype == "float32":
        return x.shift(float(y * alpha))
    x, y = on.value(x, on.dtype), on.value(y, on.dtype)
    return x.add(y if alpha == 1 else y.mul(on.value(alpha, on.dtype)))


@row("sub.Tensor", "sub.Scalar")
def sub(on: Call, x: Any, y: Any, alpha: float = 1) -> Value:
    if is_number(y) and on.dtype == x.dtype == "float32":
        return x.shift(float(-y * alpha))
    x, y = on.value(x, on.dtype), on.value(y, on.dtype)
    return x.sub(y if alpha == 1 else y.mul(on.value(alpha, on.dtype)))


@row("mul.Tensor", "mul.Scalar")
def mul(on: Call, x: Any, y: Any) -> Value:
    if is_number(y) and on.dtype == x.dtype == "float32":
        return x.scale(float(y))
    x, y = on.value(x, on.dtype), on.value(y, on.dtype)
    return x.logical_and(y) if on.dtype == "bool" else x.mul(y)


@row("div.Tensor", "div.Scalar")
def div(on: Call, x: Any, y: Any) -> Value:
    if is_number(y) and y:
        return on.value(x, "float32").scale(1 / y) if math.frexp(y)[0] in (0.5, -0.5) else on.value(x, "float32").div(on.value(float(y)))
    return on.value(x, "float32").div(on.value(y, "float32"))


@row("div.Tensor_mode", "div.Scalar_mode")
def div_rounded(on: Call, x: Any, y: Any, rounding_mode: Optional[str] = None) -> Value:
    if rounding_mode is None:
        return div(on, x, y)
    x, y = on.value(x, on.dtype), on.value(y, on.dtype)
    if on.dtype != "float32":
        return x.floor_quotient(y) if rounding_mode == "floor" else x.quotient(y)
    quotient = x.div(y)
    if rounding_mode == "trunc":
        return quotient.sign() * quotient.abs().floor()
    rest = x.fmod(y)  # exact, unlike the quotient: 1.0 // 0.1 is 9
    exact, zero = x.sub(rest).div(y).round(), on.value(0.0)
    below = rest.not_equal(zero).logical_and(rest.less(zero).not_equal(y.less(zero)))
    return y.equal(zero).where(quotient, exact.sub(below.cast("float32")))


@row("remainder.Tensor", "remainder.Scalar")
def remainder(on: Call, x: Any, y: Any) -> Value:
    return on.value(x, on.dtype).mod(on.value(y, on.dtype))


@row("fmod.Tensor", "fmod.Scalar")
def fmod(on: Call, x: Any, y: Any) -> Value:
    return on.value(x, on.dtype).fmod(on.value(y, on.dtype))


@row("pow.Tensor_Scalar")
def power(on: Call, x: Value, exponent: float) -> Value:
    x = on.value(x, on.dtype)
    if exponent == 1:
        return x
    if exponent == 2:
        return x.mul(x)
    if exponent == 0.5:
        return x.sqrt()
    if exponent in (-1, -0.5):
        return x.reciprocal() if exponent == -1 else x.rsqrt()
    return x.pow(on.value(exponent, on.dtype))


@row("pow.Tensor_Tensor", "pow.Scalar")
def power_of(on: Call, x: Any, y: Any) -> Value:
    return on.value(x, on.dtype).pow(on.value(y, on.dtype))


@row("maximum.default", "minimum.default")
def extreme(on: Call, x: Value, y: Value) -> Value:
    x, y = on.pair(x, y)
    return x.maximum(y) if "maximum" in str(on.node.target) else x.minimum(y)


@row("fmax.default", "fmin.default")
def extreme_of_numbers(on: Call, x: Value, y: Value) -> Value:
    """NaN only where both are NaN."""
    x, y = on.pair(x, y)
    made = x.maximum(y) if "fmax" in str(on.node.target) else x.minimum(y)
    return made if x.dtype != "float32" else x.isnan().where(y, y.isnan().where(x, made))


@row("exp2.default")
def exp2(on: Call, x: Value) -> Value:
    return (on.value(x, "float32") * math.log(2)).exp()


@row("atan2.default")
def atan2(on: Call, y: Value, x: Value) -> Value:
    return on.value(y, "float32").atan2(on.value(x, "float32"))


for _theirs, _ours in {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}.items():
    def _compare(on: Call, x: Any, y: Any, _ours: str = _ours) -> Value:
        x, y = on.pair(x, y)
        return getattr(x, _ours)(y)
    row(f"{_theirs}.Tensor", f"{_theirs}.Scalar")(_compare)

for _theirs in ("and", "or", "xor"):
    def _logical(on: Call, x: Any, y: Any, _theirs: str = _theirs) -> Value:
        return getattr(on.value(x, "bool"), f"logical_{_theirs}")(on.value(y, "bool"))

    def _bitwise(on: Call, x: Any, y: Any, _theirs: str = _theirs) -> Value:
        kind = on.dtype
        return getattr(on.value(x, kind), f"logical_{_theirs}" if kind == "bool" else f"bit_{_theirs}")(on.value(y, kind))
    row(f"logical_{_theirs}.default")(_logical)
    row(f"bitwise_{_theirs}.Tensor", f"bitwise_{_theirs}.Scalar")(_bitwise)


@row("logical_not.default")
def logical_not(on: Call, x: Value) -> Value:
    return on.value(x, "bool").logical_not()


@row("bitwise_not.default")
def bitwise_not(on: Call, x: Value) -> Value:
    return x.logical_not() if x.dtype == "bool" else x.bit_xor(on.value(-1 if x.dtype.startswith("int") else 255, x.dtype))


@row("where.self")
def where(on: Call, condition: Value, x: Value, y: Value) -> Value:
    return condition.where(on.value(x, on.dtype), on.value(y, on.dtype))


def harmless_bounds(on: Call, dtype: str, low: Optional[float], high: Optional[float]) -> Tuple[Optional[float], Optional[float]]:
    """Bounds of integers without those that clamp nothing, which the type may not be able to represent."""
    limits = np.iinfo(dtype)
    for name, number in (("min", low), ("max", high)):
        if number is not None and (number > limits.max if name == "min" else number < limits.min):
            raise on.refuse(f"{name} {number} is outside the range of {dtype}")
    return None if low is None or low <= limits.min else low, None if high is None or high >= limits.max else high


@row("clamp.default")
def clamp(on: Call, x: Value, low: Optional[float] = None, high: Optional[float] = None) -> Value:
    x = on.value(x, on.dtype)
    if x.dtype == "float32" and low is not None and high is not None and low <= high:
        return x.clip(float(low), float(high))
    if x.dtype != "float32":
        low, high = harmless_bounds(on, x.dtype, low, high)
    x = x if low is None else x.maximum(on.value(low, x.dtype))
    return x if high is None else x.minimum(on.value(high, x.dtype))


@row("clamp.Tensor")
def clamp_by(on: Call, x: Value, low: Optional[Value] = None, high: Optional[Value] = None) -> Value:
    x = on.value(x, on.dtype)
    x = x if low is None else x.maximum(on.value(low, x.dtype))
    return x if high is None else x.minimum(on.value(high, x.dtype))


@row("gelu.default")
def gelu(on: Call, x: Value, approximate: str = "none") -> Value:
    return x.gelu_tanh() if approximate == "tanh" else x.gelu()


@row("leaky_relu.default")
def leaky_relu(on: Call, x: Value, slope: float = 0.01) -> Value:
    return x.leaky_relu(slope)


@row("elu.default")
def elu(on: Call, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    if input_scale == 1:
        return x.elu(alpha) * scale if scale != 1 else x.elu(alpha)
    return x.greater(on.value(0.0)).where(x, (x * input_scale).expm1() * alpha) * scale


@row("hardtanh.default")
def hardtanh(on: Call, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    return x.relu6() if (low, high) == (0, 6) else x.clip(low, high)


@row("softplus.default")
def softplus(on: Call, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    made = x.softplus() if beta == 1 else (x * beta).softplus() * (1 / beta)
    return made if threshold >= 20 else (x * beta).greater(on.value(float(threshold))).where(x, made)
