"""The operators of koine.torch have PyTorch's results and gradients; skipped where PyTorch is missing.

usage: pytorch_operators.py HOUSE_FOLDER SOURCE_ROOT [NAME…]
"""
import math
import pathlib
import sys
import warnings

from package import case, end_without, expect, expect_equal, run

end_without("torch", "PyTorch")

import koine  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from koine.torch import operators, parts, table  # noqa: E402
from koine.torch.kept import Kept  # noqa: E402
from torch.nn import functional as F  # noqa: E402

warnings.simplefilter("ignore")
torch.set_num_threads(1)
aten = torch.ops.aten


def whole(*shape, most=4, seed=5):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, most, shape))


# Each is (function, shapes of the parameters, the lowest and the highest number of a parameter); the last two may be left out.
INDICES, MASK, LABELS = whole(3, 5), whole(4, 6).gt(1), whole(4, most=6)
ENDS, EDGES = torch.tensor([3, 3, 8], dtype=torch.int32), torch.arange(101) * .03
POINTWISE = {name: (getattr(torch, name), [(4, 6)], *limits) for name, limits in {
    "acos": (-.9, .9), "acosh": (1.5, 3), "asin": (-.9, .9), "asinh": (), "atan": (), "atanh": (-.9, .9), "cos": (), "cosh": (),
    "erf": (), "exp": (), "expm1": (), "log": (.3, 3), "log1p": (), "log2": (.3, 3), "log10": (.3, 3), "reciprocal": (.3, 3),
    "rsqrt": (.3, 3), "sigmoid": (), "sin": (), "sinh": (), "sqrt": (.3, 3), "tan": (), "tanh": (), "abs": (), "neg": (), "relu": ()}.items()}
GRIDS = [(0, 0, False), (0, 2, True), (1, 1, False), (0, 1, False), (2, 2, False), (2, 0, True)]  # how, what is outside, whether corners are aligned
CASES = {
    **POINTWISE,
    "steps": (lambda x: x * (x.trunc() + 2 * x.ceil() + 3 * x.floor() + 4 * x.round() + 5 * x.sign() + whole(6).trunc() + whole(6).ceil()), [(4, 6)], -3, 3),
    "scalars": (lambda x: aten.add.Scalar(x, 2, .5) + aten.sub.Scalar(x, 2, .5) + aten.mul.Scalar(x, 3) + aten.div.Scalar(x, 4) + x * aten.div.Scalar_mode(x, .3, rounding_mode="floor"), [(4, 6)]),
    "add": (lambda x, y: torch.add(x, y, alpha=2) + 3 + torch.add(x, 1, alpha=.5), [(4, 6), (6,)]),
    "sub": (lambda x, y: torch.sub(x, y, alpha=2) - 3 - (1 - x), [(4, 6), (4, 1)]),
    "mul": (lambda x, y: x * y * 3 * whole(6), [(4, 6), (4, 1)]),
    "div": (lambda x, y: x / y / 3 / 4 + 2 / y + whole(6) / 4, [(4, 6), (4, 6)], .5, 2),
    "div modes": (lambda x: x * (torch.div(whole(6, most=20) - 10, 3, rounding_mode="floor") + torch.div(whole(6, most=20) - 10, 3, rounding_mode="trunc")
                                 + torch.div(x, .3, rounding_mode="floor") + torch.div(x, .3, rounding_mode="trunc")), [(4, 6)]),
    "remainder": (lambda x: torch.remainder(x, .7) + torch.fmod(x, .7) + x * ((whole(6, most=9) - 4) % 3), [(4, 6)]),
    "remainder of two": (lambda x, y: torch.remainder(x, y) + torch.fmod(x, y), [(4, 6), (4, 6)], .5, 2),
    "pow": (lambda x, y: x ** 2 + x ** 0.5 + x ** -1 + x ** -0.5 + x ** 3 + x ** y + 2 ** y + x ** 1, [(4, 6), (4, 6)], .5, 2),
    "maximum": (lambda x, y: torch.maximum(x, y) + 2 * torch.minimum(x, y), [(4, 6), (4, 6)]),
    "diagonal": (lambda x: x.diagonal() + 2 * x.diagonal(2) + x.diagonal(-1).sum() + x[None].expand(2, 4, 6).diagonal(1, 2, 1).sum(), [(4, 6)]),
    "var_mean": (lambda x: sum(torch.var_mean(x, 1)) + sum(torch.var_mean(x, (0, 1), correction=0, keepdim=True)).sum(), [(4, 6)]),
    "upsample by sizes": (lambda x: aten.upsample_nearest2d(x, [8, 10], 2., 2.), [(2, 3, 4, 5)]),
    "conv3d": (lambda x, w, b: F.conv3d(x, w, b, stride=2, padding=1) + F.conv3d(x, w, b, stride=(3, 2, 2), padding=(1, 2, 3), dilation=2)[:, :, :1, :1, :1].sum(), [(2, 4, 5, 6, 6), (6, 4, 3, 3, 3), (6,)]),
    "conv3d in groups": (lambda x, w: F.conv3d(x, w, groups=2, padding=(2, 1, 0)), [(2, 4, 3, 5, 4), (6, 2, 3, 3, 2)]),
    "conv_transpose3d": (lambda x, w, b: F.conv_transpose3d(x, w, b, stride=2, padding=1, output_padding=1).sum() + F.conv_transpose3d(x, w, stride=(3, 1, 2), padding=(0, 1, 1), dilation=(2, 1, 1), groups=2), [(2, 4, 3, 4, 3), (4, 3, 3, 2, 3), (3,)]),
    "pools of volumes": (lambda x: (F.max_pool3d(x, 2).sum() + F.max_pool3d(x, 3, 2, 1, ceil_mode=True).sum((2, 3, 4)) + F.avg_pool3d(x, 3, 2, 1).sum((2, 3, 4)) + F.avg_pool3d(x, (2, 3, 2), 2, (1, 1, 0), count_include_pad=False).sum((2, 3, 4))
                         + F.avg_pool3d(x, 3, 2, 1, ceil_mode=True, divisor_override=5).sum() + F.avg_pool3d(x[0], 2).sum()), [(2, 3, 5, 8, 6)]),
    "adaptive pools of volumes": (lambda x: aten._adaptive_avg_pool3d(x, [2, 3, 3]) + F.adaptive_max_pool3d(x, (2, 3, 3)) + aten.adaptive_max_pool3d(x, [2, 3, 3])[1].float() * x.sum() + F.adaptive_avg_pool3d(x[0], 1).sum(), [(2, 3, 5, 8, 7)]),
    "places of maxima of volumes": (lambda x: x.sum() + aten.max_pool3d_with_indices(x.detach(), [2, 3, 2], [1, 2, 2], [1, 1, 0])[1].float().sum() * x.sum() + aten.adaptive_max_pool2d(x.detach()[0], [2, 3])[1].float().sum() * x.sum(), [(2, 3, 4, 7, 6)]),
    "means with divisors": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True) + F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=4) + F.avg_pool1d(x[0], 3, 2, 1, ceil_mode=True).sum(), [(2, 3, 8, 6)]),
    "col2im": (lambda x: F.fold(x, (5, 6), (2, 3), stride=(2, 1)) + F.fold(x, (5, 6), (2, 3), stride=(2, 1))[0].sum(), [(2, 12, 8)]),
    "windows": (lambda x: x.unfold(1, 3, 2).sum(0) + x.unfold(0, 2, 1).sum() + aten.unfold_copy(x, 1, 3, 2)[0], [(4, 6)]),
    "grid_sampler": (lambda x, g: sum(aten.grid_sampler_2d(x, g, mode, outside, corners) * (1 + mode + outside) for mode, outside, corners in GRIDS), [(2, 3, 4, 5), (2, 3, 2, 2)], -1.4, 1.4),
    "grid_sampler of volumes": (lambda x, g: sum(aten.grid_sampler_3d(x, g, mode, outside, corners) * (1 + mode + outside) for mode, outside, corners in GRIDS[:4]), [(2, 2, 3, 4, 5), (2, 2, 1, 3, 3)], -1.4, 1.4),
    "cdist": (lambda x, y: sum(torch.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist") for p in (0., 1., 1.5, 2., 3., float("inf"))) + torch.cdist(x, x).sum(), [(2, 4, 3), (2, 5, 3)]),
    "pdist": (lambda x: sum(F.pdist(x, p) for p in (0., 1., 1.5, 2., 3., float("inf"))), [(4, 3)]),
    "scatter_reduce": (lambda x, y: sum(x.scatter_reduce(1, whole(3, 5, most=6), y[:3, :5], word, include_self=own) * (1 + own) for word in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)), [(4, 6), (4, 6)]),
    "scatter_reduce of zeros": (lambda x, y: (x * (whole(4, 6) > 1)).scatter_reduce(1, whole(4, 6, most=6, seed=7), y * (whole(4, 6, seed=8) > 1), "prod"), [(4, 6), (4, 6)]),
    "index_reduce": (lambda x, y: sum(x.index_reduce(1, LABELS, y[:, :4], word, include_self=own) for word in ("mean", "amax", "amin") for own in (True, False)), [(4, 6), (4, 6)]),
    "scatter with a reduction": (lambda x, y: x * torch.scatter(whole(4, 6), 1, whole(4, 6, most=6), 2, reduce="multiply") + x * torch.scatter(whole(4, 6), 1, whole(4, 6, most=6), whole(4, 6), reduce="add") + y, [(4, 6), (4, 6)]),
    "masked_scatter": (lambda x, y: x.masked_scatter(MASK, y) + x.masked_scatter(MASK[:1], y), [(4, 6), (4, 6)]),
    "as_strided": (lambda x, y: x.as_strided((3, 4), (2, 1), 3).sum() + x.t().as_strided((2, 3), (3, 2)).sum() + x.as_strided((2, 2, 3), (1, 2, 1)).sum(0) + aten.as_strided_copy(x, [2, 3], [1, 1]) + aten.as_strided_scatter(x.detach(), y[0, :4].view(2, 2), [2, 2], [5, 2], 1).sum(), [(4, 6), (4, 6)]),
    "resize": (lambda x: aten.resize(x.detach(), [3, 4]) * x[:3, :4] + x.sum(), [(4, 6)]),
    "signs": (lambda x, y: torch.copysign(x, y) + torch.copysign(x, -2) + x * torch.signbit(x * y) + x * torch.angle(x), [(4, 6), (4, 6)]),
    "more of each element": (lambda x, y: torch.hypot(x, y) + torch.erfc(x) + torch.ldexp(x, whole(6)) + x * torch.round(x, decimals=1) + x * torch.round(x * 99, decimals=-1) + aten._safe_softmax(torch.where(whole(4, 1) > 0, x, -math.inf), 1), [(4, 6), (4, 6)]),
    "medians": (lambda x: x.median() + x.median(1)[0] + x.median(0, keepdim=True)[1].sum() * x.mean() + x.kthvalue(2, 1)[0] + x.kthvalue(3)[1] * x[:, 0], [(4, 6)]),
    "searches": (lambda x, y: x * torch.searchsorted(y.detach().sort(1)[0], x.detach()) + x * torch.bucketize(x.detach(), y.detach()[0].sort()[0], right=True), [(4, 6), (4, 6)]),
    "rows": (lambda x, y: torch.dist(x, y) + torch.dist(x, y, 1) + torch.addbmm(x[:, :4], x[None].expand(2, 4, 6), y.t()[None].expand(2, 6, 4), beta=.5, alpha=2).sum(), [(4, 6), (4, 6)]),
    "grouped products": (lambda x, w: F.grouped_mm(x, w, offs=ENDS) + F.grouped_mm(x.relu(), w.mT.contiguous().mT, offs=ENDS), [(8, 12), (3, 12, 4)]),
    "grouped products of columns": (lambda x, y: F.grouped_mm(x.t(), y, offs=ENDS), [(8, 12), (8, 4)]),
    "histc": (lambda x: x.sum() * (torch.histc(x.detach(), 5, -1, 1) + torch.histc(LABELS.float(), 6, 0, 5)[:5]) + x * (torch.histc(EDGES, 100, 0, 3) * torch.arange(100)).sum() / 1000, [(4, 5)]),
    "bilinear": (lambda x, y, w, b: F.bilinear(x, y, w, b), [(4, 6), (4, 5), (3, 6, 5), (3,)]),
    "more copies": (lambda x, y: aten.view_copy(x, [6, 4]).sum(0) + aten.permute_copy(x, [1, 0])[0] + aten.narrow_copy(x, 1, 2, 4)[0] + aten.unbind_copy(x)[1][:4] + aten.diagonal_scatter(x, y[0, :4], 1)[0, :4] + aten.diagonal_scatter(x[None], y[:1, :4], 2, 1, 2)[0, :, 3], [(4, 6), (4, 6)]),
    "upsample of volumes": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear") + F.interpolate(x, size=(4, 6, 8), mode="trilinear", align_corners=True), [(1, 2, 2, 3, 4)]),
    "in place": (lambda x, y: x * torch.atan2(x.detach(), y.detach(), out=torch.empty(4, 6)) + y[:3, :4].sum() * x.detach().clone().resize_(3, 4).sum(), [(4, 6), (4, 6)]),
    "embedding_bag": (lambda w, f: sum(F.embedding_bag(INDICES.view(-1), w, torch.tensor([0, 3, 3, 9]), mode=mode) for mode in ("sum", "mean", "max")) + F.embedding_bag(INDICES.view(-1), w, torch.tensor([0, 3, 9]), mode="sum", per_sample_weights=f).sum()
                      + F.embedding_bag(INDICES, w, mode="mean", padding_idx=1).sum() + F.embedding_bag(INDICES, w, mode="max", padding_idx=1).sum() + F.embedding_bag(INDICES.view(-1), w, torch.tensor([0, 4, 15]), include_last_offset=True).sum(), [(4, 6), (15,)]),
    "softplus with a threshold": (lambda x: F.softplus(x, 2, .5), [(4, 6)]),
    "fmax": (lambda x, y: torch.fmax(x, y) + 2 * torch.fmin(x, y) + torch.exp2(x), [(4, 6), (4, 6)]),
    "atan2": (torch.atan2, [(4, 6), (4, 6)]),
    "comparisons": (lambda x, y: comparisons(x, y), [(4, 6), (4, 6)]),
    "logic": (lambda x: x * torch.logical_and(x > 0, MASK) + x * torch.logical_or(x > 0, MASK) * 2 + x * torch.logical_xor(x > 0, MASK) * 3
              + x * torch.logical_not(MASK) * 4 + x * ~MASK * 5 + x * (MASK & (x > .1)) * 6 + x * (MASK | (x > .1)) + x * (MASK ^ (x > .1)), [(4, 6)]),
    "bits": (lambda x: x * ((whole(6, most=9) & 5) + (whole(6, most=9) | 2) + (whole(6, most=9) ^ 3) + ~whole(6)), [(4, 6)]),
    "where": (lambda x, y: torch.where(x > y, x, y * 2) + x.masked_fill(MASK, .5), [(4, 6), (4, 6)]),
    "clamp": (lambda x, y: x.clamp(-.3, .4) + x.clamp(min=.1) + x.clamp(max=.2) + torch.clamp(x, y - .3, y + .3), [(4, 6), (4, 6)]),
    "activations": (lambda x: F.gelu(x) + F.gelu(x, approximate="tanh") + F.leaky_relu(x, .1) + F.elu(x, .7) + F.celu(x, .5) + F.selu(x) + F.silu(x)
                    + F.mish(x) + F.hardtanh(x, -.3, .4) + F.relu6(x * 9), [(4, 6)], -2, 2),
    "more activations": (lambda x: F.hardswish(x) + F.hardsigmoid(x) + F.softplus(x) + F.softplus(x, 2) + F.logsigmoid(x) + F.softsign(x) + F.glu(x)
                         .repeat(1, 2) + F.softmin(x, 0) + F.tanhshrink(x), [(4, 6)], -2, 2),
    "prelu": (F.prelu, [(2, 3, 4, 4), (3,)]),
    "special": (lambda x: x * torch.isnan(x / x * MASK) + x * torch.isinf(1 / (x * MASK)), [(4, 6)]),
    "types": (lambda x: x * (x * 3).to(torch.int64) + x.double().float() * whole(4, 6).to(torch.uint8) + x * (x > 0).to(torch.int32) + x.clone(), [(4, 6)]),
    "detach": (lambda x: x * x.detach(), [(4, 6)]),
    "made": (lambda x: x * torch.full((4, 6), 2.) + torch.zeros_like(x) + torch.ones(6) * x + torch.arange(1, 7) * x + torch.arange(0, 3, .5) * x
             + torch.full_like(x, 3) * x + torch.tensor(2.) * x + torch.linspace(0, 1, 6) * x + torch.eye(6)[:4] * x, [(4, 6)]),
    "copies": (lambda x, y: x * aten.copy.default(x.detach(), y[0].detach()) + x * aten.fill.Scalar(x, 3) + x * aten.fill.Scalar(aten.empty.memory_format([6]), 2)
               + x * aten.fill.Scalar(aten.empty_strided.default([6], [1]), 2) + y, [(4, 6), (4, 6)]),
    "batch numbers": (lambda x, batch=None: x * torch.arange(batch.shape[0]).sum() + x / batch.shape[0] + x.sum() * torch.ones(batch.shape[0]).sum(), [(4, 6)]),
    "sum": (lambda x: x.sum(1) + x.sum() + x.sum((0, 1)) + x.sum(0, keepdim=True).sum(1) + whole(4, 6).sum(1) * x.mean(), [(4, 6)]),
    "mean": (lambda x: x.mean(1, keepdim=True) + x.mean() + x.mean(-2), [(4, 6)]),
    "amax": (lambda x: x.amax(1, keepdim=True) + x.amin(0) + x.max() + x.min(), [(4, 6)]),
    "prod": (lambda x: x.prod(1) + x.prod() + x.prod(0, keepdim=True).sum(), [(4, 6)], .5, 1.5),
    "any": (lambda x: x * (x > .4).any(1, keepdim=True) + x * (x > -.4).all(0) + x * (x > .4).any() + x * MASK.any(1, keepdim=True) + x * aten.any.default(x > .4) + x * aten.any.dims(x > .9, [0, 1], True), [(4, 6)]),
    "var": (lambda x: x.var(1) + x.std(1, unbiased=False) + x.var() + x.var((0, 1), correction=0, keepdim=True).sum(), [(4, 6)]),
    "norms of vectors": (lambda x: x.norm(dim=1) + F.normalize(x).sum(1) + x.logsumexp(1) + torch.linalg.vector_norm(x, 1, 1), [(4, 6)]),
    "norms of what has zeros": (lambda x: sum(torch.linalg.vector_norm(x * torch.tensor([[0.], [1.]]), p, 1) for p in (0, 1.5, 2, 3, math.inf)) + F.normalize(x * 0).sum(1)
                                + torch.linalg.vector_norm(x, -2, keepdim=True)[0] + torch.linalg.vector_norm(x, -math.inf) + torch.linalg.vector_norm(x[0, 0]), [(2, 6)]),
    "max along": (lambda x: x.max(1)[0] + x.min(1, keepdim=True)[0][:, 0] + x.gather(1, x.max(1, keepdim=True)[1])[:, 0] * 2, [(4, 6)]),
    "argmax": (lambda x: x * x.argmax() + x * x.argmin(1, keepdim=True) + x * x.argmax(0), [(4, 6)]),
    "cumsum": (lambda x: x.cumsum(1) + x.cumsum(0) * 2, [(4, 6)]),
    "topk": (lambda x: x.topk(3, 1)[0] + x.topk(3, 1, largest=False)[0] * 2 + x.topk(3)[1] * x[:, :3], [(4, 6)]),
    "sort": (lambda x: x.sort(1)[0] + x.sort(1, descending=True)[0] * 2 + x * x.argsort(1), [(4, 6)]),
    "softmax": (lambda x: F.softmax(x, 1) + F.log_softmax(x, 0) + F.softmax(x, -1), [(4, 6)]),
    "view": (lambda x: x.view(6, 4).reshape(2, -1).flatten().unflatten(0, (4, 6)) + x.t().reshape(4, 6), [(4, 6)]),
    "axes": (lambda x: x.permute(1, 0).unsqueeze(1).squeeze(1).t() + x[None, :, :, None].squeeze() + x.unsqueeze(0).squeeze(0).transpose(0, 1).mT, [(4, 6)]),
    "expand": (lambda x: x.expand(3, 4, 6) + x[:, :1].expand(-1, 6), [(4, 6)]),
    "repeat": (lambda x: x.repeat(2, 3) + x.repeat(2, 3).flip(0, 1) + x.repeat_interleave(3, 1).repeat(2, 1), [(4, 6)]),
    "roll": (lambda x: x.roll(2, 1) + x.roll((1, 3), (0, 1)), [(4, 6)]),
    "slice": (lambda x: x[1:3, ::2] + x[-3:-1, 3:] + x[1:3, 1:4] * 2 + x[:2, -3:] + x[2:, 0:99:2], [(4, 6)]),
    "select": (lambda x: x[2] + x[-1] * 2 + x[:, 3].sum() + x.select(1, -2).sum() + x.unbind(0)[1], [(4, 6)]),
    "writes": (lambda x, y: aten.slice_scatter(x, y[:, :2], 1, 1, 3) + aten.slice_scatter(x, y[:2], 0, 2) + aten.select_scatter(x, y[:, 0], 1, -2), [(4, 6), (4, 6)]),
    "cat": (lambda x, y: torch.cat([x, y, x], 1).chunk(3, 1)[1] + torch.stack([x, y], 1)[:, 0] + torch.hstack([x, y])[:, :6], [(4, 6), (4, 6)]),
    "split": (lambda x: x.split([1, 2, 3], 1)[2].sum(1) + x.split(2, 1)[1].sum(1) + x.chunk(2, 0)[1].sum(), [(4, 6)]),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=.5)[:, :6][:4] + F.pad(x, (-1, 1)) + F.pad(x, (2, -2, 1, -1)), [(4, 6)]),
    "pad modes": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect") + F.pad(x, (1, 2, 2, 1), mode="replicate"), [(2, 3, 5, 4)]),
    "pad modes of lines": (lambda x: F.pad(x, (1, 2), mode="reflect") + F.pad(x, (1, 2), mode="replicate"), [(2, 3, 5)]),
    "pad modes of volumes": (lambda x: F.pad(x, (1, 1, 1, 0, 0, 1), mode="reflect") + F.pad(x, (1, 1, 1, 0, 0, 1), mode="replicate"), [(1, 2, 2, 3, 4)]),
    "triangle": (lambda x: x.tril() + x.triu(1) * 2 + x.tril(-1) * 3, [(4, 6)]),
    "embedding": (lambda w: F.embedding(INDICES, w), [(4, 6)]),
    "embedding with padding": (lambda w: F.embedding(INDICES, w, padding_idx=1), [(4, 6)]),
    "index_select": (lambda x: x.index_select(1, LABELS), [(4, 6)]),
    "gather": (lambda x: x.gather(1, whole(4, 3, most=6)) + x[:, :3], [(4, 6)]),
    "scatter": (lambda x, y: x.scatter(1, whole(4, 1, most=6), y[:, :1]) + x.scatter(1, whole(4, 1, most=6), 2.) + x.scatter_add(1, whole(4, 6, most=6), y) + x.scatter_add(1, whole(4, 3, most=6), y[:, :3]), [(4, 6), (4, 6)]),
    "index": (lambda x: x[LABELS % 4].sum() + x[:, LABELS].sum(1) + x[whole(4), LABELS] + x[:, None][:, 0, whole(5, most=6)].sum(1), [(4, 6)]),
    "index of images": (lambda x: x[:, whole(2, most=3), whole(2, most=4)] + x[:, -whole(2, most=3), whole(2, most=4)], [(4, 3, 4, 2)]),
    "index_put": (lambda x, y: x.index_put((LABELS[:2] % 4, LABELS[:2]), y[0, :2]) + x.index_put((LABELS % 4,), y, accumulate=True), [(4, 6), (4, 6)]),
    "index_put of a mask": (lambda x: torch.index_put(x, (MASK,), torch.tensor(2.)) + x, [(4, 6)]),
    "dropout of nothing": (lambda x: F.dropout(x, 0.) + F.dropout(x, 1.) + F.dropout(x, .5, training=False), [(4, 6)]),
    "bernoulli of certainty": (lambda x: x * aten.bernoulli.p(x.detach(), 1.) + x * aten.bernoulli.p(x.detach(), 0.), [(4, 6)]),
    "matmul": (lambda a, b, v: (a @ b).sum((0, 1)) + v @ b + (b.t() @ v), [(2, 3, 4), (4, 4), (4,)]),
    "mm": (lambda a, b: torch.mm(a, b) + torch.addmm(b[0, :3], a, b[:, :3], beta=.5, alpha=2), [(4, 6), (6, 3)]),
    "bmm": (lambda a, b: torch.bmm(a, b) + torch.baddbmm(a[:, :, :3], a, b), [(2, 4, 6), (2, 6, 3)]),
    "linear": (lambda x, w, b: F.linear(x, w, b) + F.linear(x, w) + F.linear(x[0], w, b), [(4, 6), (5, 6), (5,)]),
    "linear of images": (lambda x, w: F.linear(x, w), [(2, 3, 4, 6), (5, 6)]),
    "einsum": (lambda a, b: torch.einsum("bij, bjk -> bik", a, b) + torch.einsum("bij,bjk->k", a, b), [(2, 4, 6), (2, 6, 3)]),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1) + F.conv2d(x, w, b, stride=(2, 2), padding=(2, 3), dilation=2)[:, :, :2, :2].sum(), [(2, 4, 6, 6), (6, 4, 3, 3), (6,)]),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, groups=2, padding="same"), [(2, 4, 6, 5), (6, 2, 3, 3)]),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1, dilation=2), [(2, 4, 9), (6, 4, 3), (6,)]),
    "conv_transpose": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1) + F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=(1, 0)).sum(), [(2, 4, 3, 4), (4, 5, 3, 3), (5,)]),
    "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, stride=2), [(2, 4, 5), (4, 3, 3)]),
    "max_pool": (lambda x: F.max_pool2d(x, 2).sum((2, 3)) + F.max_pool2d(x, 3, 2, 1, ceil_mode=True).sum((2, 3)) + F.max_pool2d(x, 2, dilation=2).sum((2, 3)), [(2, 3, 8, 6)]),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2) + F.max_pool1d(x, 3, 2, 1) + F.avg_pool1d(x, 2), [(2, 3, 8)]),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2).sum((2, 3)) + F.avg_pool2d(x, 3, 2, 1).sum((2, 3)) + F.avg_pool2d(x, (3, 2), 2, (1, 0), count_include_pad=False)
                 .sum((2, 3)) + F.avg_pool2d(x[0], 2).sum(), [(2, 3, 8, 6)]),
    "adaptive pools": (lambda x: aten._adaptive_avg_pool2d(x, [3, 3]) + F.adaptive_avg_pool1d(x[0], 4).sum() + F.adaptive_avg_pool2d(x, 3) + F.adaptive_max_pool2d(x, (3, 3)) + F.adaptive_avg_pool2d(x, 1), [(2, 3, 8, 7)]),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2) + F.interpolate(x, scale_factor=2, mode="bilinear") + F.interpolate(x, size=(8, 10), mode="bilinear", align_corners=True)
                 + F.interpolate(x, scale_factor=2, mode="bicubic"), [(2, 3, 4, 5)]),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), [(2, 8, 3, 3)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b) + F.layer_norm(x, (6,)) + F.layer_norm(x, (6,), w, eps=1e-3), [(4, 6), (6,), (6,)]),
    "layer_norm of images": (lambda x, w, b: F.layer_norm(x, (4, 5), w, b) + aten.native_layer_norm(x, [5], w[0], None, 1e-5)[0], [(2, 3, 4, 5), (4, 5), (4, 5)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (6,), w) + F.rms_norm(x, (6,)) + F.rms_norm(x, (6,), w, 1e-3), [(4, 6), (6,)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b) + F.group_norm(x, 4) + aten.native_group_norm(x, w, b, 2, 4, 15, 2, 1e-5)[0], [(2, 4, 3, 5), (4,), (4,)]),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), [(2, 4, 3, 5), (4,), (4,)]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, torch.zeros(4), torch.ones(4), w, b) + F.batch_norm(x, None, None, w, b, training=True)
                   + F.batch_norm(x, torch.zeros(4), torch.ones(4), w, b, training=True), [(2, 4, 3, 5), (4,), (4,)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v) + F.scaled_dot_product_attention(q, k, v, is_causal=True)
                  + F.scaled_dot_product_attention(q, k, v, scale=.3), [(2, 3, 5, 8)] * 3),
    "attention of three axes": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True) + F.scaled_dot_product_attention(q, k, v, whole(5, 5).gt(0) | torch.eye(5).bool()), [(2, 5, 8)] * 3),
    "attention with masks": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, whole(5, 5).gt(0) | torch.eye(5).bool())
                             + F.scaled_dot_product_attention(q, k, v, whole(2, 1, 5, 5).float() / 3) + F.scaled_dot_product_attention(q, k, v, whole(1, 3, 5, 5).float()), [(2, 3, 5, 8)] * 3),
    "attention of five axes": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
                               + F.scaled_dot_product_attention(q, k, v, whole(5, 5).gt(0) | torch.eye(5).bool())
                               + F.scaled_dot_product_attention(q, k, v, whole(1, 3, 1, 5, 5).float() / 3)
                               + F.scaled_dot_product_attention(q, k, v, whole(3, 4, 5, 5).float() / 9), [(2, 3, 4, 5, 8)] * 3),
    "attention of two axes": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(4, 8), (5, 8), (5, 8)]),
    "attention with other values": (lambda q, k, v, w: F.scaled_dot_product_attention(q, k, v).sum(-1) + F.scaled_dot_product_attention(q, k, w, is_causal=True)
                                    .sum(-1), [(2, 3, 5, 6), (2, 3, 5, 6), (2, 3, 5, 9), (2, 3, 5, 4)]),
    "attention with a trained mask": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), [(2, 3, 5, 8)] * 3 + [(3, 5, 5)]),
    "attention of few keys": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), [(2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)]),
    "backward passes of convolutions": (lambda x, w: convolutions_backward(x, w) + convolutions_backward(x[:, :, 0], w[:, :, 0]) + x.sum() + w.sum(), [(2, 4, 6, 6), (6, 2, 3, 3)]),
    "backward passes of pools": (lambda x, g: x * aten.max_pool2d_with_indices_backward(g.detach()[:, :, :3, :3], x.detach(), [3, 3], [2, 2], [1, 1], [1, 1], False, aten.max_pool2d_with_indices(x.detach(), [3, 3], [2, 2], [1, 1])[1])
                                 + x * aten.avg_pool2d_backward(g.detach()[:, :, :3, :3], x.detach(), [2, 3], [2, 2], [0, 1], False, False, None) + x * aten._adaptive_avg_pool2d_backward(g.detach()[:, :, :2, :3], x.detach()), [(2, 3, 6, 5), (2, 3, 6, 5)]),
    "backward passes of volumes": (lambda x, w: volumes_backward(x, w) + x.sum() + w.sum(), [(2, 4, 5, 6, 5), (6, 2, 3, 2, 3)]),
    "backward passes of sampling": (lambda x, g: sampling_backward(x, g) + x.sum() + g.sum(), [(2, 2, 3, 4, 5), (2, 3, 2, 3)], -1.4, 1.4),
    "backward passes of distances": (lambda x, y: distances_backward(x, y) + x.sum() + y.sum(), [(4, 3), (5, 3)]),
    "places of maxima": (lambda x: x.sum() + sum(aten.max_pool2d_with_indices(x.detach(), *given)[1].float().sum() * x.sum() for given in (([2, 3],), ([3, 3], [2, 2], [1, 1], [1, 1], True), ([2, 2], [1, 2], [0, 1], [2, 1]))), [(2, 3, 7, 6)]),
    "backward passes of norms": (lambda x, g, w: norms_backward(x.detach(), g.detach(), w.detach()) + x.sum() + g.sum() + w.sum(), [(2, 4, 3, 5), (2, 4, 3, 5), (4,)]),
    "norms with their statistics": (lambda x, w: statistics(x, w[:, None].expand(4, 5)[0]) + aten.native_group_norm(x.unsqueeze(0), w, w, 1, 4, 5, 2, 1e-5)[1].detach().sum() + aten._native_batch_norm_legit.no_stats(x.unsqueeze(0), w, w, True, .1, 1e-5)[1].detach().sum(), [(4, 5), (4,)]),
    "backward passes of tables and softmax": (lambda g, y: aten.embedding_dense_backward(g.detach(), LABELS, 7, -1, False).sum(0) * g + aten.embedding_dense_backward(g.detach(), LABELS, 7, 2, False).cos().sum(0) * g
                                               + g * aten._softmax_backward_data(g.detach(), y.detach(), 1, torch.float32) + g * aten._log_softmax_backward_data(g.detach(), y.detach(), -1, torch.float32) + y, [(4, 6), (4, 6)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, LABELS) + F.cross_entropy(x, LABELS, reduction="sum") + F.cross_entropy(x, LABELS, label_smoothing=.1)
                      + F.cross_entropy(x, LABELS, ignore_index=2) + F.cross_entropy(x, LABELS, weight=torch.arange(1., 7)) + F.cross_entropy(x[0], LABELS[0]), [(4, 6)]),
    "cross_entropy of elements": (lambda x: F.cross_entropy(x, LABELS, reduction="none") + F.cross_entropy(x, LABELS, reduction="none", ignore_index=2), [(4, 6)]),
    "cross_entropy of images": (lambda x: F.cross_entropy(x, whole(2, 8, 6, most=3)), [(2, 3, 8, 6)]),
    "cross_entropy of distributions": (lambda x: F.cross_entropy(x, torch.softmax(whole(4, 6).float(), 1)), [(4, 6)]),
    "cross_entropy smooth and weighted": (lambda x: F.cross_entropy(x, LABELS, weight=torch.arange(1., 7), label_smoothing=.2), [(4, 6)]),
    "losses": (lambda x, y: F.mse_loss(x, y) + F.l1_loss(x, y) + F.smooth_l1_loss(x, y, beta=.5) + F.huber_loss(x, y, delta=.3) + F.nll_loss(F.log_softmax(x, 1), LABELS)
               + F.binary_cross_entropy_with_logits(x, torch.sigmoid(y)) + F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean") + F.poisson_nll_loss(x, y.abs())
               , [(4, 6), (4, 6)]),
    "more losses": (lambda x, y: F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y)) + F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1, -1])) + F.soft_margin_loss(x, torch.sign(y.detach()))
                    + F.margin_ranking_loss(x, y, torch.ones(4, 6), .1) + F.hinge_embedding_loss(x, torch.sign(y.detach())) + F.triplet_margin_loss(x, y, x * y)
                    + F.cosine_similarity(x, y).sum() , [(4, 6), (4, 6)]),
}
RECURRENT = {name: (kind, settings) for name, kind, settings in [
    ("lstm", torch.nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}), ("lstm without biases", torch.nn.LSTM, {"bias": False}),
    ("gru", torch.nn.GRU, {"num_layers": 2, "bidirectional": True}), ("gru without biases", torch.nn.GRU, {"bias": False, "batch_first": True}),
    ("rnn", torch.nn.RNN, {"batch_first": True}), ("rnn of relu", torch.nn.RNN, {"nonlinearity": "relu", "num_layers": 2})]}
tried = set()


def comparisons(x, y):
    """Each with a value and with a number."""
    return sum(x * factor * (compare(x, y) + compare(y, .1)) for factor, compare in enumerate((torch.lt, torch.le, torch.gt, torch.ge, torch.eq, torch.ne), 1))


def convolutions_backward(x, w):
    """Sums of the gradients of a convolution in groups and of a transposed one, of images or lines."""
    both, lines = w.dim() - 2, w.dim() == 3
    x, w = x.detach(), w.detach()
    settings = [2] * both, [1] * both, [1] * both
    convolve = torch.nn.functional.conv1d if lines else torch.nn.functional.conv2d
    turned = torch.nn.functional.conv_transpose1d if lines else torch.nn.functional.conv_transpose2d
    one = aten.convolution_backward(convolve(x, w, None, *settings, 2).cos(), x, w, [6], *settings, False, [0] * both, 2, [True] * 3)
    given = torch.cat([x, x[:, :2]], 1)
    other = aten.convolution_backward(turned(given, w, None, 2, 1, 1, 1, 1).cos(), given, w, [2], *settings, True, [1] * both, 1, [True] * 3)
    return sum(weighted(part) for part in (*one, *other))


def volumes_backward(x, w):
    x, w = x.detach(), w.detach()
    settings = [2, 1, 2], [1, 2, 1], [1, 1, 2]
    one = aten.convolution_backward(F.conv3d(x, w, None, *settings, 2).cos(), x, w, [6], *settings, False, [0] * 3, 2, [True] * 3)
    given = torch.cat([x, x[:, :2]], 1)
    other = aten.convolution_backward(F.conv_transpose3d(given, w, None, 2, 1, 1, 1, 1).cos(), given, w, [2], [2] * 3, [1] * 3, [1] * 3, True, [1] * 3, 1, [True] * 3)
    pooled, places = aten.max_pool3d_with_indices(x, [3, 2, 3], [2, 2, 2], [1, 1, 1])
    adapted, cells = aten.adaptive_max_pool3d(x, [2, 3, 2])
    flat, flat_cells = aten.adaptive_max_pool2d(x[0], [2, 3])
    means = [(F.avg_pool3d(x, *given), given) for given in (([3, 2, 3], [2, 2, 2], [1, 1, 1], False, True), ([3, 2, 3], [2, 2, 2], [1, 1, 1], True, False), ([3, 2, 3], [2, 2, 2], [1, 1, 1], True, True, 7))]
    images = ([3, 2], [2, 2], [1, 1], True, True, None), ([3, 2], [2, 2], [1, 1], True, True, 5)
    more = [aten.max_pool3d_with_indices_backward(pooled.cos(), x, [3, 2, 3], [2, 2, 2], [1, 1, 1], [1, 1, 1], False, places), aten.adaptive_max_pool3d_backward(adapted.cos(), x, cells),
            aten.adaptive_max_pool2d_backward(flat.cos(), x[0], flat_cells), aten._adaptive_avg_pool3d_backward(adapted.cos(), x),
            *(aten.avg_pool3d_backward(result.cos(), x, *(given + (None,))[:6]) for result, given in means),
            *(aten.avg_pool2d_backward(F.avg_pool2d(x[0], *given).cos(), x[0], *given) for given in images)]
    return sum(weighted(part) for part in (*one, *other, *more))


def sampling_backward(x, g):
    x, g = x.detach(), g.detach()
    made = [aten.grid_sampler_2d_backward(aten.grid_sampler_2d(x[:, 0], g[..., :2], *more).cos(), x[:, 0], g[..., :2], *more, [True] * 2) for more in GRIDS]
    made += [aten.grid_sampler_3d_backward(aten.grid_sampler_3d(x, g[:, None], *more).cos(), x, g[:, None], *more, [True] * 2) for more in GRIDS[:2]]
    return sum(weighted(part) for parts in made for part in parts)


def distances_backward(x, y):
    x, y = x.detach(), y.detach()
    made = [aten._cdist_backward(aten._cdist_forward(x, y, p, 2).cos(), x, y, p, aten._cdist_forward(x, y, p, 2)) for p in (0., 1., 1.5, 2., 3., math.inf)]
    made += [aten._pdist_backward(aten._pdist_forward(x, p).cos(), x, p, aten._pdist_forward(x, p)) for p in (0., 1., 1.5, 2., 3., math.inf)]
    return sum(weighted(part) for part in made)


def norms_backward(x, g, w):
    rows, weight = x.flatten(2), w.new_ones(15) * w[0]
    _, mean, inverse = aten.native_layer_norm(rows, [15], weight, weight, 1e-5)
    parts = aten.native_layer_norm_backward(g.flatten(2), rows, [15], mean, inverse, weight, weight, [True] * 3)
    parts += aten.native_layer_norm_backward(g.flatten(2), rows, [4, 15], mean[:, :1].contiguous(), inverse[:, :1].contiguous(), None, None, [True, False, False])[:1]
    own, scale = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0).rsqrt()
    parts += aten.native_batch_norm_backward(g, x, w, None, None, own, scale, True, 1e-5, [True] * 3)
    parts += aten.native_batch_norm_backward(g, x, w, own, scale, None, None, False, 1e-5, [True] * 3)
    whole = x.unsqueeze(-1), g.unsqueeze(-1)
    _, mean, inverse = aten.native_group_norm(x, w, None, 2, 4, 15, 2, 1e-5)
    parts += aten.native_group_norm_backward(g, x, mean, inverse, w, 2, 4, 15, 2, [True] * 3)
    parts += aten.native_group_norm_backward(*reversed(whole), mean, inverse, None, 2, 4, 15, 2, [True, False, False])[:1]
    return sum(weighted(part) for part in parts)


def statistics(x, w):
    y, mean, inverse = aten.native_layer_norm(x, [5], w, None, 1e-5)
    return weighted(y) + weighted(mean.detach()) + weighted(inverse.detach())


class Case(torch.nn.Module):
    """One case as a model: the sum of its elements, each times a number, is its loss."""

    def __init__(self, function, shapes, low=-1., high=1.):
        super().__init__()
        generator = np.random.default_rng(1)
        self.function = function
        self.given = torch.nn.ParameterList([torch.from_numpy(generator.uniform(low, high, shape).astype(np.float32)) for shape in shapes])

    def forward(self, batch):
        more = {"batch": batch} if "batch" in getattr(getattr(self.function, "__code__", None), "co_varnames", ()) else {}
        return weighted(self.function(*self.given, **more))


def weighted(result):
    return (result * torch.cos(torch.arange(result.numel(), dtype=torch.float32)).view(result.shape)).sum()


class Recurrent(torch.nn.Module):
    def __init__(self, kind, settings):
        super().__init__()
        torch.manual_seed(3)
        self.layer = kind(3, 4, **settings)
        sides = settings.get("num_layers", 1) * (2 if settings.get("bidirectional") else 1)
        self.x, self.start = torch.nn.Parameter(torch.randn(2, 5, 3)), torch.nn.Parameter(torch.randn(sides, 2 if settings.get("batch_first") else 5, 4))

    def forward(self, batch):
        is_lstm = isinstance(self.layer, torch.nn.LSTM)
        results, last = self.layer(self.x, (self.start, self.start * 2) if is_lstm else self.start)
        return weighted(results) + sum(weighted(state) for state in (last if is_lstm else [last]))


class Many(torch.nn.Module):
    """Several cases at once: their gradients are each other's business in nothing."""

    def __init__(self, names):
        super().__init__()
        made = {name: Case(*CASES[name]) if name in CASES else Recurrent(*RECURRENT[name]) for name in names}
        self.cases = torch.nn.ModuleDict({name.replace(" ", "_"): model for name, model in made.items()})

    def forward(self, batch):
        return torch.stack([model(batch) for model in self.cases.values()])


def total(results, factors):
    return (results * factors[0]).sum()


def compare(names):
    """Losses and the parameters after a step of SGD, whose change is the gradient."""
    ours, theirs = Many(names), Many(names)
    batch, factors = torch.zeros(3), torch.ones(3, len(names))
    rate = 2.0 ** -4
    step_of = koine.torch.train_step(ours, total, torch.optim.SGD(ours.parameters(), rate))
    found = float(step_of(batch, factors))
    step_of.close()
    results = theirs(batch)
    total(results, factors).backward()
    complaints = [] if abs(found - results.sum().item()) <= 1e-4 * max(1, results.abs().sum().item()) else [f"the loss is {found}, expected {results.sum()}"]
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters()):
        gradient = torch.zeros_like(other) if other.grad is None else other.grad
        wrong = ((other.detach() - rate * gradient - mine.detach()).abs() / (1 + gradient.abs())).max().item()
        if not wrong <= 2e-6:
            complaints.append(f"{name}: after a step it differs by {wrong:.2g}")
    return complaints


def register():
    names = [name for name in [*CASES, *RECURRENT] if not sys.argv[3:] or name in sys.argv[3:]]
    size = 1 if sys.argv[3:] else 12
    for first in range(0, len(names), size):
        some = names[first:first + size]

        def group(some=some):
            try:
                complaints = compare(some)
            except Exception as error:
                raise RuntimeError(f"one of {', '.join(some)}: {error}") from error
            expect(not complaints, "; ".join(complaints))
        group.__name__ = ", ".join(some)
        case(group)


def watch():
    """Notes which rows are used."""
    for name, function in list(operators.ROWS.items()):
        def noted(*arguments, _name=name, _function=function, **keywords):
            tried.add(_name)
            return _function(*arguments, **keywords)
        operators.ROWS[name] = noted


def rows_that_torch_export_never_has():
    """Those of torch.compile, or of other tracers: each is built by itself."""
    from torch.fx.experimental.proxy_tensor import make_fx
    given = torch.rand(2, 4, 3, 5), torch.rand(4), whole(7, most=20), torch.tensor([0, 2, 2])

    def function(x, w, indices, offsets):
        y, sums = aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)
        return (aten.native_batch_norm(x, w, w, w * 2, w + 1, False, .1, 1e-5)[0], *aten.native_batch_norm(x, w, None, None, None, True, .1, 1e-5),
                aten.upsample_bilinear2d(x, [6, 10], False), aten.upsample_bicubic2d(x, [6, 10], True, None, None), aten.lift_fresh_copy(x), y, sums, *aten._scaled_dot_product_flash_attention_for_cpu_backward(x + 1, x, x, x, y, sums, 0., False), aten.upsample_trilinear3d(x.unsqueeze(0), [5, 6, 7], False), aten._embedding_bag_forward_only(x.view(24, 5), indices, offsets, False, 1)[0])
    with torch.no_grad():
        module = make_fx(function, tracing_mode="fake")(*given)
        left = [node for node in module.graph.nodes if node.op == "call_function" and "getitem" not in str(node.target) and parts.why_not(node)]
        expect_equal([(str(node.target), parts.why_not(node)) for node in left], [])
        found, wanted = parts.split(module, Kept(koine.default_context()), False, {"fallback": False})(*given), function(*given)
    for position, (one, other) in enumerate(zip(found, wanted)):
        expect(torch.allclose(one, other, rtol=1e-4, atol=1e-5), f"result {position} differs by {(one - other).abs().max():.2g}")


class Drawn(torch.nn.Module):
    """Its gradient is what was drawn."""

    KINDS = {"rand": lambda n: torch.rand(n), "rand_like": lambda n: torch.rand_like(torch.zeros(n)), "randn": lambda n: torch.randn(n), "randn_like": lambda n: torch.randn_like(torch.zeros(n)),
             "randint": lambda n: torch.randint(7, (n,)), "randint.low": lambda n: torch.randint(-3, 4, (n,)), "randperm": lambda n: torch.randperm(n),
             "bernoulli.p": lambda n: torch.bernoulli(torch.zeros(n), .25), "bernoulli": lambda n: torch.bernoulli(torch.full((n,), .75))}

    def __init__(self, count):
        super().__init__()
        self.given = torch.nn.ParameterDict({name.replace(".", "_"): torch.nn.Parameter(torch.zeros(count)) for name in self.KINDS})
        self.count = count

    def forward(self, batch):
        return sum((self.given[name.replace(".", "_")] * draw(self.count)).sum() for name, draw in self.KINDS.items())


def random_numbers_are_drawn_by_the_seed():
    count, found = 4000, []
    for seed in (1, 1, 2):
        model = Drawn(count)
        with koine.torch.train_step(model, lambda result, target: result * target[0], torch.optim.SGD(model.parameters(), 1.0), seed=seed) as step:
            for _ in range(2):
                step(torch.zeros(3), torch.ones(3))
                step.sync()
                found.append({name: -parameter.detach().numpy().copy() for (name, parameter) in model.given.items()})
    first = found[0]
    second = {name: array - first[name] for name, array in found[1].items()}  # of only the second step
    for name, array in first.items():
        expect(np.array_equal(array, found[2][name]), f"{name}: the same seed has other numbers")
        expect(not np.array_equal(array, found[4][name]) and not np.allclose(array, second[name]), f"{name}: another seed and another step have the same numbers")
    for name, low, high, mean, deviation in (("rand", 0, 1 - 2**-24, .5, 12**-.5), ("rand_like", 0, 1, .5, 12**-.5), ("randn", -6, 6, 0, 1), ("randn_like", -6, 6, 0, 1),
                                             ("randint", 0, 6, 3, 2), ("randint_low", -3, 3, 0, 2), ("bernoulli_p", 0, 1, .25, .433), ("bernoulli", 0, 1, .75, .433)):
        array = first[name]
        expect(low <= array.min() <= array.max() <= high, f"{name}: from {array.min()} to {array.max()}")
        expect(abs(array.mean() - mean) < 5 * deviation / count**.5 and abs(array.std() - deviation) < .05 * deviation, f"{name}: mean {array.mean()}, deviation {array.std()}")
    expect(len(set(first["randint"])) == 7, "randint does not have all numbers")
    expect(not np.array_equal(first["rand"], first["rand_like"]), "two operators draw the same numbers")
    expect_equal(sorted(first["randperm"].tolist()), list(range(count)))


def every_row_is_tried():
    missing = sorted(name for name in set(operators.ROWS) - tried if name.startswith("aten."))
    expect(not missing, f"no case uses {', '.join(missing)}")


def all_of_core_aten_is_in_the_table_or_has_a_reason():
    core = table.core()
    expect(len(core) > 150, f"core ATen has {len(core)} operators")
    expect_equal(sorted(core - set(operators.ROWS) - set(operators.REASONS) - set(operators.SIZES) - set(operators.FUNCTIONAL)), [])
    expect_equal(sorted((set(operators.ROWS) & set(operators.REASONS)) | (set(operators.REASONS) - core)), [])
    expect_equal(sorted(set(operators.FUNCTIONAL.values()) - set(operators.ROWS)), [])
    expect(len(operators.REASONS) <= .1 * len(core), f"{len(operators.REASONS)} of {len(core)} operators of core ATen are not covered")


def the_page_is_made_from_the_table():
    found = pathlib.Path(sys.argv[2], "docs/torch-operators.md").read_text(encoding="utf-8")
    expect(found == table.page(), "docs/torch-operators.md differs from the table: its first lines say how it is made")


watch()
register()
if not sys.argv[3:]:
    case(rows_that_torch_export_never_has)
    case(random_numbers_are_drawn_by_the_seed)
    case(every_row_is_tried)
    case(all_of_core_aten_is_in_the_table_or_has_a_reason)
    case(the_page_is_made_from_the_table)
run()
