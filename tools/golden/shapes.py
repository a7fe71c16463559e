"""More operator cases, for operators.py: functions of a number, elements picked by number, other sizes, letters."""

import torch
import torch.nn.functional as F

from operator_inputs import below, uniform
from operators import binary, case, unary


def words(name, operator, inputs, function, text="", by=("x",), avoid=()):
  """The attributes are those of the operator's row, as text."""
  case(name, operator, inputs, function, {"words": text}, by=by, avoid=avoid)


# ---- functions of one and of two numbers ---------------------------------------------------------

unary("reciprocal", torch.reciprocal, 0.5, 4)
unary("log1p", torch.log1p, -0.5, 4)
unary("expm1", torch.expm1)
unary("tan", torch.tan, -1.25, 1.25)
unary("asin", torch.asin, -0.875, 0.875)
unary("acos", torch.acos, -0.875, 0.875)
unary("atan", torch.atan)
unary("sinh", torch.sinh)
unary("cosh", torch.cosh)
unary("asinh", torch.asinh)
unary("acosh", torch.acosh, 1.25, 4)
unary("atanh", torch.atanh, -0.875, 0.875)
unary("log_sigmoid", F.logsigmoid)
unary("mish", F.mish)
unary("softsign", F.softsign)
binary("atan2", torch.atan2, low=(-2, 0.5), high=(2, 2))
binary("fmod", torch.fmod, low=(5.125, 2), high=(5.375, 2.5))
binary("mod", torch.remainder, low=(-5.375, 2), high=(-5.125, 2.5))
X = uniform("x", (3, 7), -2, 2)
words("celu", "celu", [X], lambda x: F.celu(x, 0.5), "alpha=0.5", avoid=(0,))
words("thresholded_relu", "thresholded_relu", [X], lambda x: F.threshold(x, 0.5, 0), "alpha=0.5", avoid=(0.5,))
words("hard_shrink", "shrink", [X], lambda x: F.hardshrink(x, 0.75), "lambd=0.75", avoid=(-0.75, 0.75))
words("soft_shrink", "shrink", [X], lambda x: F.softshrink(x, 0.75), "lambd=0.75 bias=0.75", avoid=(-0.75, 0.75))
words("prelu", "prelu", [X, uniform("y", (1,), -1, 1)], F.prelu, by=("x", "y"), avoid=(0,))

# ---- elements by their numbers ---------------------------------------------------------------------


def numbers(shape, bound):
  return below("numbers", shape, bound)


words("gather", "gather", [X, numbers((2, 5), 7)], lambda x, n: x[:, n.long()], "axis=1")
words("gather_elements", "gather_elements", [X, numbers((5, 7), 3)], lambda x, n: torch.gather(x, 0, n.long()))
words(
  "scatter_add",
  "scatter",
  [X, numbers((5,), 7), uniform("updates", (3, 5), -2, 2)],
  lambda x, n, updates: x.index_add(1, n.long(), updates),
  "axis=-1 reduction=add",
  by=("x", "updates"),
)
words(
  "scatter_elements_add",
  "scatter_elements",
  [X, numbers((3, 9), 7), uniform("updates", (3, 9), -2, 2)],
  lambda x, n, updates: x.scatter_add(1, n.long(), updates),
  "axis=1 reduction=add",
  by=("x", "updates"),
)
words(
  "scatter_elements",
  "scatter_elements",
  [X, numbers((3, 1), 7), uniform("updates", (3, 1), -2, 2)],
  lambda x, n, updates: x.scatter(1, n.long(), updates),
  "axis=1",
  by=("x", "updates"),
)
words("top_k", "top_k", [X], lambda x: x.topk(3, dim=1)[0], "k=3")
words("smallest", "top_k", [X], lambda x: x.topk(2, dim=0, largest=False)[0], "k=2 axis=0 smallest=true")
words("cumsum", "cumsum", [X], lambda x: x.cumsum(1), "axis=1")
words("cumsum_rest", "cumsum", [X], lambda x: x.flip(0).cumsum(0).flip(0) - x, "exclusive=true reverse=true")
words("flip", "flip", [X], lambda x: x.flip(1), "axes=-1")

# ---- other sizes --------------------------------------------------------------------------------------


def resized(name, size, text, **given):
  image = uniform("x", (2, 3, 5, 4), -2, 2)
  words(name, "resize", [image], lambda x: F.interpolate(x, size=(size, 4), **given), f"axis=2 size={size} {text}")


resized("resize_nearest", 8, "coordinates=asymmetric rounding=floor", mode="nearest")
resized("resize_nearest_exact", 3, "rounding=round_prefer_ceil", mode="nearest-exact")
resized("resize_linear", 7, "mode=linear", mode="bilinear", align_corners=False)
resized("resize_linear_less", 3, "mode=linear coordinates=align_corners", mode="bilinear", align_corners=True)
resized("resize_cubic", 9, "mode=cubic", mode="bicubic", align_corners=False)
resized("resize_cubic_corners", 8, "mode=cubic coordinates=align_corners", mode="bicubic", align_corners=True)

image = uniform("x", (2, 3, 5, 4), -2, 2)
words(
  "resize_scale",
  "resize",
  [image],
  lambda x: F.interpolate(x, scale_factor=(1.3, 1), mode="bilinear", align_corners=False),
  "axis=2 size=6 mode=linear scale=1.3",
)
words(
  "resize_scale_less",
  "resize",
  [image],
  lambda x: F.interpolate(x, scale_factor=(1, 0.7), mode="bicubic", align_corners=False),
  "axis=3 size=2 mode=cubic scale=0.7",
)

# ---- sums of products by letters ------------------------------------------------------------------------


def letters(name, equation, *shapes):
  labels = ("x", "y", "z")
  inputs = [uniform(label, shape, -2, 2) for label, shape in zip(labels, shapes)]
  case(name, "einsum", inputs, lambda *given: torch.einsum(equation, *given), {"equation": equation})


letters("einsum_heads", "bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4))
letters("einsum_three", "ij,jk,kl->li", (3, 4), (4, 5), (5, 2))
letters("einsum_sums", "ijk,jl->il", (2, 3, 4), (3, 5))
letters("einsum_diagonal", "bii,bi->b", (2, 3, 3), (2, 3))
letters("einsum_outer", "i,j->ij", (3,), (4,))
