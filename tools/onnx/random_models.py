#!/usr/bin/env python3
"""Compares random ONNX models in Koine with ONNX Runtime.

usage: random_models.py [--seed N] [--count N] [--nodes N] [--only OPERATOR,…] [--keep FOLDER]

Each model has up to --nodes operators with random shapes, types and attributes. ONNX Runtime computes it without optimizing it;
models that it refuses do not count. A result may differ by 1e-4 of the largest element. --keep saves the models that differ. The last line
counts the models that are right, wrong, and refused by Koine; a refusal is printed once per message. Exits with 77 if a package is missing.
"""
import argparse
import collections
import os
import re
import sys

SKIP = 77  # Meson's status for "skipped"
try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper
except ImportError as missing:
    print(f"{missing.name} is missing: tools/onnx/README.md says what to install")
    sys.exit(SKIP)

import bound  # noqa: E402
import koine  # noqa: E402

OPSET = 21
F, I64, BOOL = np.float32, np.int64, np.bool_
onnxruntime.set_default_logger_severity(4)


class Refused(Exception):
    """ONNX Runtime does not run the model."""


class Model:
    """A model under construction. values: arrays by name, as ONNX Runtime computes them."""

    def __init__(self, random):
        self.random, self.nodes, self.values, self.given, self.weights, self.outputs, self.opset = random, [], {}, {}, {}, [], OPSET

    # ---- random numbers ----

    def below(self, least, most):
        return int(self.random.integers(least, most + 1))

    def choose(self, *options):
        return options[self.below(0, len(options) - 1)]

    def maybe(self, share=0.5):
        return bool(self.random.random() < share)

    def number(self, least=0.1, most=2.0):
        return float(np.float32(self.random.uniform(least, most)))

    def shape(self, least=1, most=4):
        return tuple(self.below(1, 6) for _ in range(self.below(least, most)))

    def part_of(self, shape):
        """A shape that broadcasts to `shape`."""
        kept = shape[self.below(0, len(shape)):]
        return tuple(size if self.maybe(0.6) else 1 for size in kept)

    def axis(self, rank):
        return self.below(-rank, rank - 1)

    def axes(self, rank):
        chosen = sorted(self.random.permutation(rank)[:self.below(1, rank)].tolist())
        return [axis - rank if self.maybe(0.3) else axis for axis in chosen]

    def array(self, shape, kind=F, low=-3, high=3):
        if kind == BOOL:
            return self.random.random(shape) < 0.5
        if np.issubdtype(kind, np.floating):
            return np.asarray(self.random.uniform(low, high, shape), kind)
        info = np.iinfo(kind)
        return np.asarray(self.random.integers(max(low, info.min), min(high, info.max) + 1, shape), kind)

    # ---- values ----

    def feed(self, array, weight=None):
        """A new input of the model, or a constant."""
        weight = self.maybe(0.3) if weight is None else weight
        array = np.asarray(array)
        name = f"{'w' if weight else 'x'}{len(self.values)}"
        (self.weights if weight else self.given)[name] = array
        self.values[name] = array
        return name

    def constant(self, array, kind=I64):
        return self.feed(np.asarray(array, kind), weight=True)

    def tensor(self, shape, kind=F, low=-3, high=3):
        """A value of this shape and type: an earlier one if there is one, or a new one."""
        found = [name for name in self.outputs if self.values[name].shape == tuple(shape) and self.values[name].dtype == kind]
        if found and self.maybe(0.7) and low < 0:
            return found[self.below(0, len(found) - 1)]
        return self.feed(self.array(shape, kind, low, high))

    def any(self, least=1, most=4, kind=F, low=-3, high=3):
        """A value with a rank in this range."""
        found = [name for name in self.outputs if least <= self.values[name].ndim <= most and self.values[name].dtype == kind and
                 0 < self.values[name].size <= 4096]
        if found and self.maybe(0.75) and low < 0:
            return found[self.below(0, len(found) - 1)]
        return self.feed(self.array(self.shape(least, most), kind, low, high))

    def of(self, name):
        return self.values[name].shape

    def node(self, kind, inputs, results=1, domain="", **attributes):
        attributes = {key: value for key, value in attributes.items() if value is not None}
        names = [f"y{len(self.values) + i}" for i in range(results)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        try:
            made = run_runtime(self.proto(names), self.given)
        except Exception as error:
            self.nodes.pop()
            raise Refused(str(error)) from None
        for name, array in zip(names, made):
            self.values[name] = np.asarray(array)
            self.outputs.append(name)
        return names[0]

    def proto(self, outputs):
        inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                  for name, array in self.given.items()]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "random", inputs, [helper.make_empty_tensor_value_info(name) for name in outputs], weights)
        return helper.make_model(graph, ir_version=8 if self.opset < 19 else 10,
                                 opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)])


def run_runtime(proto, given):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, given)


# ---- operators: each adds one node to a model -----------------------------------------------------------------------

OPERATORS = {}


def operators(*names):
    def add(function):
        for name in names:
            OPERATORS[name] = lambda m, name=name: function(m, name)
        return function
    return add


@operators("Abs", "Neg", "Erf", "Exp", "Tanh", "Sigmoid", "Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh", "Softplus", "Softsign", "Mish",
           "HardSwish", "Relu", "Identity", "Sign", "Ceil", "Floor", "Round", "IsNaN")
def unary(m, name):
    kind = m.choose(F, F, F, np.float64, np.int32, I64, np.int8, np.float16) if name in ("Abs", "Neg", "Sign", "Relu", "Identity") else F
    return m.node(name, [m.any(0, 4, kind)])


@operators("Log", "Sqrt", "Reciprocal", "Acosh")
def of_positive(m, name):
    return m.node(name, [m.feed(m.array(m.shape(0, 4), F, 1, 4))])


@operators("Acos", "Asin", "Atanh", "Tan")
def of_small(m, name):
    return m.node(name, [m.feed(m.array(m.shape(0, 4), F, -0.9, 0.9))])


@operators("Elu", "Celu", "LeakyRelu", "ThresholdedRelu")
def with_alpha(m, name):
    return m.node(name, [m.any(0, 4)], alpha=m.number() if m.maybe(0.8) else None)


@operators("HardSigmoid", "Selu", "Shrink", "Gelu")
def with_attributes(m, name):
    more = {"HardSigmoid": {"alpha": m.number(), "beta": m.number()}, "Selu": {"alpha": m.number(), "gamma": m.number()},
            "Shrink": {"lambd": m.number(), "bias": m.number()}, "Gelu": {"approximate": m.choose("none", "tanh")}}[name]
    return m.node(name, [m.any(0, 4)], **{key: value for key, value in more.items() if m.maybe(0.8)})


@operators("IsInf")
def is_inf(m, name):
    array = m.array(m.shape(), F)
    array[m.random.random(array.shape) < 0.3] = np.inf
    array[m.random.random(array.shape) < 0.3] = -np.inf
    return m.node(name, [m.feed(array)], detect_negative=m.choose(0, 1), detect_positive=m.choose(0, 1))


def pair(m, kind, low=-3, high=3):
    one = m.any(0, 4, kind, low, high)
    shape = m.of(one)
    other = m.tensor(m.part_of(shape) if shape else m.shape(0, 3), kind, low, high)
    return [one, other] if m.maybe() else [other, one]


NUMBERS = (F, F, F, np.float64, np.int32, I64, np.int8, np.uint8, np.float16, np.int16, np.uint32)


@operators("Add", "Sub", "Mul")
def arithmetic(m, name):
    return m.node(name, pair(m, m.choose(*NUMBERS)))


@operators("Div")
def division(m, name):
    return m.node(name, pair(m, m.choose(F, np.int32, I64, np.int8, np.uint8), 1, 9))


@operators("Mod")
def modulo(m, name):
    kind = m.choose(F, np.int32, I64, np.int8)
    one = m.array(m.shape(), kind, -20, 20)
    other = m.array(m.part_of(one.shape), kind, 1, 7)
    if m.maybe():
        other = np.where(m.random.random(other.shape) < 0.5, -other, other).astype(kind)
    return m.node(name, [m.feed(one), m.feed(other)], fmod=1 if kind == F or m.maybe(0.4) else 0)


@operators("Pow")
def power(m, name):
    kind, exponent = m.choose((F, F), (F, I64), (I64, I64), (np.int32, F), (np.float64, F), (F, np.int32))
    one = m.array(m.shape(), kind, 1, 4)
    return m.node(name, [m.feed(one), m.feed(m.array(m.part_of(one.shape), exponent, 0, 4))])


@operators("Max", "Min", "Sum", "Mean")
def several(m, name):
    kind = m.choose(F, F, np.int32, I64, np.int8) if name in ("Max", "Min") else F
    first = m.any(0, 4, kind)
    return m.node(name, [first, *(m.tensor(m.part_of(m.of(first)), kind) for _ in range(m.below(0, 2)))])


@operators("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
def comparison(m, name):
    kind = m.choose(F, np.int32, I64, np.float64, *([BOOL] if name == "Equal" else []), np.int8, np.uint8)
    one = m.array(m.shape(0, 4), kind)
    return m.node(name, [m.feed(np.round(one).astype(kind)), m.feed(np.round(m.array(m.part_of(one.shape), kind)).astype(kind))])


@operators("And", "Or", "Xor")
def logic(m, name):
    return m.node(name, pair(m, BOOL))


@operators("Not")
def negation(m, name):
    return m.node(name, [m.any(0, 4, BOOL)])


@operators("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift")
def bits(m, name):
    kind = m.choose(np.uint8, np.uint32, np.uint64) if name == "BitShift" else m.choose(np.int32, I64, np.uint8, np.int8, np.int16)
    one = m.array(m.shape(), kind, -100, 200)
    if name == "BitwiseNot":
        return m.node(name, [m.feed(one)])
    more = {"direction": m.choose("LEFT", "RIGHT")} if name == "BitShift" else {}
    return m.node(name, [m.feed(one), m.feed(m.array(m.part_of(one.shape), kind, 0, 7))], **more)


@operators("Where")
def where(m, name):
    kind = m.choose(F, np.int32, I64, np.uint8, BOOL, np.float64)
    one = m.any(0, 4, kind)
    shape = m.of(one)
    return m.node(name, [m.tensor(m.part_of(shape), BOOL), *m.random.permutation([one, m.tensor(m.part_of(shape), kind)]).tolist()])


@operators("PRelu")
def prelu(m, name):
    one = m.any(1, 4)
    return m.node(name, [one, m.feed(m.array(m.part_of(m.of(one))))])


@operators("Clip")
def clip(m, name):
    kind = m.choose(F, np.int32, I64, np.int8, np.uint8, np.float64)
    low, high = (m.feed(np.asarray(value, kind)) if m.maybe(0.7) else "" for value in (m.below(0, 1), m.below(0, 3)))
    return m.node(name, [m.any(0, 4, kind), low, high])


@operators("Cast")
def cast(m, name):
    kind = m.choose(F, np.int32, I64, np.uint8, BOOL, np.float64, np.float16, np.int8)
    to = m.choose(F, np.int32, I64, np.uint8, np.int8, BOOL, np.float64, np.float16, np.int16)
    return m.node(name, [m.feed(m.array(m.shape(0, 4), kind, 0, 60))], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


@operators("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
           "ReduceLogSumExp", "ReduceLogSum")
def reduction(m, name):
    kind = m.choose(F, F, F, np.int32, I64, *([np.uint8, np.int8] if name in ("ReduceMax", "ReduceMin") else []))
    kind = F if "Log" in name else kind
    one = m.any(1, 4, kind) if name not in ("ReduceLogSum",) else m.feed(m.array(m.shape(1, 4), F, 0.5, 3))
    more = [m.constant(m.axes(len(m.of(one))))] if m.maybe(0.8) else []
    return m.node(name, [one, *more], keepdims=m.choose(0, 1, None), noop_with_empty_axes=m.choose(0, 1, None))


@operators("ArgMax", "ArgMin")
def argument(m, name):
    one = m.feed(np.round(m.array(m.shape(), m.choose(F, np.int32, np.int8))))
    return m.node(name, [one], axis=m.axis(len(m.of(one))), keepdims=m.choose(0, 1, None), select_last_index=m.choose(0, 1, None))


@operators("Softmax", "LogSoftmax", "Hardmax")
def soft(m, name):
    m.opset = m.opset if m.nodes else m.choose(OPSET, OPSET, 11)
    one = m.any(1, 4)
    return m.node(name, [one], axis=m.axis(len(m.of(one))) if m.maybe(0.8) else None)


def spatial(m, dims, kernels, strides=True):
    """The attributes that convolutions and pools share, and the smallest sizes that they need."""
    dilations = [m.choose(1, 1, 2, 3) for _ in range(dims)]
    least = [(kernel - 1) * dilation + 1 for kernel, dilation in zip(kernels, dilations)]
    more = {"kernel_shape": kernels, "strides": [m.below(1, 3) for _ in range(dims)] if strides and m.maybe(0.7) else None,
            "dilations": dilations if any(dilation > 1 for dilation in dilations) or m.maybe(0.3) else None}
    kind = m.choose("pads", "pads", "auto", "none")
    if kind == "pads":
        more["pads"] = [m.below(0, kernel - 1) for kernel in kernels * 2]
    elif kind == "auto":
        more["auto_pad"] = m.choose("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    # ONNX Runtime's sizes differ from the standard's with dilations, and its pools pad by negative numbers.
    if more.get("auto_pad", "").startswith("SAME"):
        more["dilations"] = None
        more["strides"] = [m.below(1, kernel) for kernel in kernels]
    return more, [size + m.below(0, 5) for size in least]


@operators("Conv", "ConvTranspose")
def convolution(m, name):
    dims, groups = m.choose(1, 2, 2, 2, 3), m.choose(1, 1, 1, 2, 3, 4)
    kernels = [m.below(1, 4) for _ in range(dims)]
    more, sizes = spatial(m, dims, kernels)
    inputs, outputs = groups * m.below(1, 5), groups * m.below(1, 5)
    if m.maybe(0.2):
        groups = inputs
        outputs = inputs * m.below(1, 2)
    one = m.tensor((m.below(1, 3), inputs, *sizes))
    weight = (outputs, inputs // groups, *kernels) if name == "Conv" else (inputs, outputs // groups, *kernels)
    bias = [m.feed(m.array((outputs,)))] if m.maybe() else []
    if name == "ConvTranspose" and m.maybe(0.3):
        more["output_padding"] = [m.below(0, step - 1) for step in more["strides"] or [1] * dims]
    if m.maybe(0.2):
        more.pop("kernel_shape")
    return m.node(name, [one, m.feed(m.array(weight)), *bias], group=groups if groups > 1 or m.maybe() else None, **more)


@operators("MaxPool", "AveragePool", "LpPool")
def pool(m, name):
    dims = m.choose(1, 2, 2, 3)
    kernels = [m.below(1, 4) for _ in range(dims)]
    more, sizes = spatial(m, dims, kernels)
    more["ceil_mode"] = m.choose(0, 1, None)
    if name == "AveragePool":
        more["count_include_pad"] = m.choose(0, 1, None)
    if name == "LpPool":
        more["p"] = m.choose(1, 2, 3, None)
    results = 2 if name == "MaxPool" and m.maybe(0.3) else 1
    if results == 2:
        more["storage_order"] = m.choose(0, 0, 1)
    kind = m.choose(F, F, F, np.int8, np.uint8) if name == "MaxPool" else F
    return m.node(name, [m.tensor((m.below(1, 2), m.below(1, 5), *sizes), kind)], results, **more)


@operators("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(m, name):
    return m.node(name, [m.any(3, 5)], **({"p": m.choose(1, 2, 3)} if name == "GlobalLpPool" else {}))


@operators("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN", "LayerNormalization", "LpNormalization",
           "MeanVarianceNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization")
def normalization(m, name):
    one = m.any(2 if name != "InstanceNormalization" else 3, 4)
    shape = m.of(one)
    if name == "GroupNormalization":
        groups = m.below(1, 4)
        one = m.feed(m.array((m.below(1, 3), groups * m.below(1, 3), *m.shape(1, 2))))
        shape = m.of(one)
        return m.node(name, [one, m.feed(m.array(shape[1:2])), m.feed(m.array(shape[1:2]))], num_groups=groups, epsilon=m.choose(1e-3, None))
    vector = [m.feed(m.array(shape[1:2], F, 0.5, 2)) for _ in range(4)]
    if name == "BatchNormalization":
        return m.node(name, [one, *vector], epsilon=m.choose(1e-3, None))
    if name == "InstanceNormalization":
        return m.node(name, [one, *vector[:2]], epsilon=m.choose(1e-3, None))
    if name == "LRN":
        return m.node(name, [m.feed(m.array(m.shape(4, 4)))], size=m.choose(1, 3, 5), alpha=m.choose(0.1, None), beta=m.choose(0.5, None), bias=m.choose(2.0, None))
    if name == "LpNormalization":
        return m.node(name, [one], axis=m.axis(len(shape)), p=m.choose(1, 2))
    if name == "MeanVarianceNormalization":  # 0 / 0 without a variance
        return m.node(name, [m.feed(m.array(tuple(size + 1 for size in shape)))], axes=m.axes(len(shape)))
    if name == "SkipLayerNormalization":
        one = m.feed(m.array(m.shape(3, 3)))
        size = m.of(one)[-1:]
        return m.node(name, [one, m.feed(m.array(m.of(one))), *(m.feed(m.array(size)) for _ in range(m.below(1, 3)))], domain="com.microsoft")
    axis = m.axis(len(shape))
    last = shape[axis % len(shape):]
    if name == "SimplifiedLayerNormalization":
        return m.node(name, [one, m.feed(m.array(last))], axis=axis, epsilon=m.choose(1e-3, None))
    return m.node(name, [one, m.feed(m.array(last)), *([m.feed(m.array(last))] if m.maybe() else [])], axis=axis, epsilon=m.choose(1e-3, None))


@operators("Gemm")
def gemm(m, name):
    rows, inner, columns, one, other = m.below(1, 9), m.below(1, 9), m.below(1, 9), m.choose(0, 1), m.choose(0, 1)
    more = [m.feed(m.array(m.part_of((rows, columns))))] if m.maybe(0.7) else []
    return m.node(name, [m.tensor((inner, rows) if one else (rows, inner)), m.tensor((columns, inner) if other else (inner, columns)), *more],
                  transA=one, transB=other, alpha=m.choose(None, m.number()), beta=m.choose(None, m.number()))


@operators("MatMul")
def product(m, name):
    rows, inner, columns, levels = m.below(1, 9), m.below(1, 9), m.below(1, 9), m.shape(0, 2)
    kind = m.choose(F, F, F, np.int32, I64, np.float64)
    one = (*levels, rows, inner) if m.maybe(0.85) else (inner,)
    other = (*m.part_of(levels), inner, columns) if m.maybe(0.85) else (inner,)
    return m.node(name, [m.tensor(one, kind), m.tensor(other, kind)])


@operators("Einsum")
def einsum(m, name):
    text = m.choose("ij,jk->ik", "bij,bkj->bik", "ij->ji", "bij->bj", "ii->i", "i,j->ij", "bhid,bhjd->bhij", "...ij,...jk->...ik", "ij,ij->", "bij,j->bi", "ijk->k")
    sizes = {letter: m.below(1, 5) for letter in "bhijkd"}
    shapes = [tuple(sizes[letter] for letter in word.replace("...", "bh")) for word in text.split("->")[0].split(",")]
    return m.node(name, [m.tensor(shape) for shape in shapes], equation=text)


ANY = (F, F, F, np.int32, I64, np.uint8, BOOL, np.float64, np.int8, np.float16)


@operators("Pad")
def pad(m, name):
    kind = m.choose(F, F, np.int32, I64, np.uint8, np.float64)
    mode, one = m.choose("constant", "reflect", "edge", "wrap", None), m.any(1, 4, kind)
    shape = m.of(one)
    axes = m.axes(len(shape)) if m.maybe(0.4) else None
    sizes = [shape[axis] for axis in axes] if axes else shape
    low = -1 if m.maybe(0.2) else 0
    pads = [m.below(low if size > 2 else 0, size - 1 if mode in ("reflect", "wrap") else 3) for size in [*sizes, *sizes]]
    value = m.feed(m.array((), kind)) if mode in ("constant", None) and m.maybe() else ""
    return m.node(name, [one, m.constant(pads), value, *([m.constant(axes, m.choose(np.int32, I64))] if axes else [])], mode=mode)


@operators("Slice")
def cut(m, name):
    one = m.any(1, 4, m.choose(*ANY))
    shape = m.of(one)
    axes = m.axes(len(shape))
    steps = [m.choose(1, 1, 2, -1, -2, 3) for _ in axes]
    bounds = [(m.below(-shape[axis] - 2, shape[axis] + 2), m.below(-shape[axis] - 2, shape[axis] + 2)) for axis in axes]
    begins, ends = ([bound[i] if m.maybe(0.9) else m.choose(-2**62, 2**62) for bound in bounds] for i in (0, 1))
    kind = I64 if max(map(abs, begins + ends)) > 2**31 else m.choose(np.int32, I64)
    return m.node(name, [one, *(m.constant(item, kind) for item in (begins, ends, axes, steps))])


@operators("Gather", "GatherElements", "ScatterElements", "GatherND", "ScatterND")
def gather(m, name):
    kind = m.choose(F, F, np.int32, I64, np.uint8, BOOL) if "Gather" in name else F
    one = m.any(1, 4, kind)
    shape, type_ = m.of(one), m.choose(np.int32, I64)
    rank = len(shape)
    axis = m.axis(rank)
    size = shape[axis]
    if name == "Gather":
        return m.node(name, [one, m.feed(m.array(m.shape(0, 2), type_, -size, size - 1))], axis=axis)
    if name.endswith("Elements"):
        wanted = tuple(m.below(1, length) for length in shape)
        if "Gather" in name:
            return m.node(name, [one, m.feed(m.array(wanted, type_, -size, size - 1))], axis=axis)
        reduction = m.choose("none", "add", "mul", "max", "min")
        indices = m.array(wanted, type_, -size, size - 1)
        if reduction == "none":  # each place once
            wanted = tuple(min(length, size) if place == axis % rank else length for place, length in enumerate(wanted))
            indices = np.argsort(m.random.random((*wanted[:axis % rank], size, *wanted[axis % rank + 1:])), axis % rank).astype(type_)
            indices = np.take(indices, range(wanted[axis % rank]), axis % rank)
        return m.node(name, [one, m.feed(indices), m.feed(m.array(wanted))], axis=axis, reduction=reduction)
    batch = m.below(0, rank - 1) if "Gather" in name and m.maybe() else 0
    depth = m.below(1, rank - batch)
    lead = (*shape[:batch], *m.shape(0, 2)) if batch else m.shape(1, 2)
    index = np.stack([m.array(lead, I64, -shape[batch + d] if m.maybe() else 0, shape[batch + d] - 1) for d in range(depth)], -1)
    if "Gather" in name:
        return m.node(name, [one, m.feed(index)], batch_dims=batch)
    reduction = m.choose("none", "add", "mul", "max", "min")
    if reduction == "none":
        places = m.random.permutation(int(np.prod(shape[:depth])))[:m.below(1, 5)]
        index, lead = np.stack(np.unravel_index(places, shape[:depth]), -1).astype(I64), (len(places),)
    return m.node(name, [one, m.feed(index), m.feed(m.array((*lead, *shape[depth:])))], reduction=reduction)


@operators("Concat")
def concatenation(m, name):
    one = m.any(1, 4, m.choose(*ANY))
    shape, kind = m.of(one), m.values[one].dtype
    axis = m.axis(len(shape))
    others = [m.tensor(tuple(m.below(1, 4) if i == axis % len(shape) else size for i, size in enumerate(shape)), kind.type) for _ in range(m.below(0, 3))]
    return m.node(name, m.random.permutation([one, *others]).tolist(), axis=axis)


@operators("Split")
def split(m, name):
    one = m.any(1, 4, m.choose(*ANY))
    shape = m.of(one)
    axis = m.axis(len(shape))
    size = shape[axis]
    if m.maybe():
        parts = m.below(1, size)
        return m.node(name, [one], parts if -(-size // parts) * (parts - 1) < size else 1, axis=axis,
                      num_outputs=parts if -(-size // parts) * (parts - 1) < size else 1)
    sizes = [m.below(0, size)]
    sizes.append(size - sizes[0])
    return m.node(name, [one, m.constant(sizes)], 2, axis=axis)


@operators("Squeeze", "Unsqueeze", "Flatten", "Transpose", "Reshape", "Expand", "Tile", "Shape", "Size")
def shapes(m, name):
    one = m.any(1, 4, m.choose(*ANY))
    shape = m.of(one)
    rank = len(shape)
    if name == "Squeeze":
        shape = tuple(1 if m.maybe() else size for size in shape)
        one = m.feed(m.array(shape))
        ones = [axis - rank if m.maybe(0.3) else axis for axis in range(rank) if shape[axis] == 1]
        return m.node(name, [one, *([m.constant(ones)] if ones and m.maybe(0.7) else [])])
    if name == "Unsqueeze":
        more = m.below(1, 2)
        axes = m.random.permutation(rank + more)[:more].tolist()
        return m.node(name, [one, m.constant([axis - rank - more if m.maybe(0.3) else axis for axis in axes])])
    if name == "Flatten":
        return m.node(name, [one], axis=m.choose(None, m.below(-rank, rank)))
    if name == "Transpose":
        return m.node(name, [one], perm=m.random.permutation(rank).tolist() if m.maybe(0.8) else None)
    if name == "Reshape":
        sizes = list(m.random.permutation(shape).tolist())
        while len(sizes) > 1 and m.maybe():
            sizes[:2] = [sizes[0] * sizes[1]]
        if m.maybe():
            sizes[m.below(0, len(sizes) - 1)] = -1
        elif sizes[0] == shape[0] and m.maybe():
            sizes[0] = 0
        return m.node(name, [one, m.constant(sizes)])
    if name == "Expand":
        one = m.feed(m.array(m.part_of(shape), m.choose(*ANY)))
        return m.node(name, [one, m.constant([size if m.maybe(0.8) else 1 for size in shape])])
    if name == "Tile":
        return m.node(name, [one, m.constant([m.below(1, 3) for _ in shape])])
    return m.node(name, [one], **({"start": m.below(-rank, rank), "end": m.below(-rank, rank)} if name == "Shape" and m.maybe() else {}))


@operators("DepthToSpace", "SpaceToDepth")
def blocks(m, name):
    size = m.below(1, 3)
    if name == "DepthToSpace":
        return m.node(name, [m.feed(m.array((m.below(1, 2), size * size * m.below(1, 3), m.below(1, 4), m.below(1, 4))))], blocksize=size, mode=m.choose("DCR", "CRD", None))
    return m.node(name, [m.feed(m.array((m.below(1, 2), m.below(1, 3), size * m.below(1, 3), size * m.below(1, 3))))], blocksize=size)


@operators("Resize")
def resize(m, name):
    dims = m.choose(1, 2, 2, 2)
    mode = m.choose("nearest", "linear", "cubic") if dims == 2 else m.choose("nearest", "linear")
    shape = (m.below(1, 2), m.below(1, 3), *(m.below(2, 7) for _ in range(dims)))
    axes = list(range(2, 2 + dims)) if m.maybe(0.3) else None
    fixed = [] if axes else [1.0, 1.0]
    more = {"mode": mode, "axes": axes, "coordinate_transformation_mode": m.choose("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", None)}
    if mode == "nearest":
        more["nearest_mode"] = m.choose("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", None)
    if mode == "cubic":
        more["cubic_coeff_a"], more["exclude_outside"] = m.choose(-0.5, None), m.choose(0, 1, None)
    if mode != "nearest" and m.maybe(0.2):
        more["antialias"] = 1
    one = m.feed(m.array(shape))
    # ONNX's reference aligns the corners of a fractional size, ONNX Runtime those of the rounded size.
    if m.maybe() and more["coordinate_transformation_mode"] != "align_corners":
        return m.node(name, [one, "", m.constant([*fixed, *(m.choose(0.5, 1.5, 2.0, 0.8, 3.0, 1.0, 1.3) for _ in range(dims))], F)], **more)
    sizes = [*([] if axes else shape[:2]), *(m.below(1, 12) for _ in range(dims))]
    if m.maybe(0.2):
        more["keep_aspect_ratio_policy"] = m.choose("stretch", "not_larger", "not_smaller") if axes else "stretch"
    return m.node(name, [one, "", "", m.constant(sizes)], **more)


@operators("CumSum")
def running_sum(m, name):
    one = m.any(1, 4, m.choose(F, np.int32, I64, np.float64))
    return m.node(name, [one, m.constant(m.axis(len(m.of(one))), m.choose(np.int32, I64))], exclusive=m.choose(0, 1), reverse=m.choose(0, 1))


@operators("OneHot")
def one_hot(m, name):
    depth = m.below(1, 6)
    index = m.array(m.shape(0, 3), m.choose(I64, np.int32), -depth, depth - 1)
    return m.node(name, [m.feed(index), m.constant(depth), m.feed(m.array((2,), m.choose(F, I64, np.int32)))], axis=m.below(-index.ndim - 1, index.ndim))


@operators("TopK")
def top(m, name):
    one = m.feed(m.array(m.shape(), m.choose(F, F, I64)))
    axis = m.axis(len(m.of(one)))
    return m.node(name, [one, m.constant([m.below(1, m.of(one)[axis])])], 2, axis=axis, largest=m.choose(0, 1), sorted=1)


@operators("Trilu")
def triangle(m, name):
    one = m.any(2, 4, m.choose(F, I64, BOOL, np.int32))
    return m.node(name, [one, *([m.constant(m.below(-4, 4))] if m.maybe(0.7) else [])], upper=m.choose(0, 1, None))


@operators("EyeLike")
def eye(m, name):
    return m.node(name, [m.any(2, 2, m.choose(F, np.int32))], k=m.below(-3, 3), dtype=m.choose(None, 1, 7))


@operators("ReverseSequence")
def reverse_sequence(m, name):
    time = m.choose(0, 1)
    shape = m.shape(2, 4)
    lengths = m.array((shape[1 - time],), I64, 1, shape[time])
    return m.node(name, [m.feed(m.array(shape)), m.feed(lengths)], time_axis=time, batch_axis=1 - time)


@operators("GridSample")
def grid_sample(m, name):
    batch, channels = m.below(1, 2), m.below(1, 3)
    grid = m.array((batch, m.below(1, 5), m.below(1, 5), 2), F, -1.3, 1.3)
    return m.node(name, [m.tensor((batch, channels, m.below(2, 6), m.below(2, 6))), m.feed(grid)], mode=m.choose("linear", "nearest", "cubic", None),
                  padding_mode=m.choose("zeros", "border", "reflection", None), align_corners=m.choose(0, 1, None))


@operators("RoiAlign")
def roi_align(m, name):
    count = m.below(1, 4)
    corner = m.array((count, 2), F, 0, 4)
    boxes = np.concatenate([corner, corner + m.array((count, 2), F, 0.5, 6)], 1)
    return m.node(name, [m.feed(m.array((m.below(1, 2), m.below(1, 3), m.below(4, 9), m.below(4, 9)))), m.feed(boxes), m.feed(np.zeros(count, I64))],
                  mode=m.choose("avg", "max"), output_height=m.below(1, 4), output_width=m.below(1, 4), sampling_ratio=m.below(0, 3),
                  spatial_scale=m.choose(1.0, 0.5), coordinate_transformation_mode=m.choose("half_pixel", "output_half_pixel", None))


@operators("LSTM", "GRU", "RNN")
def recurrence(m, name):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    time, batch, inputs, hidden = m.below(1, 6), m.below(1, 4), m.below(1, 5), m.below(1, 6)
    direction = m.choose("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    most = 0.5
    array = lambda *shape: m.feed(m.array(shape, F, -most, most))  # noqa: E731
    one = m.tensor((time, batch, inputs))
    lengths = m.feed(m.array((batch,), np.int32, 1, time)) if m.maybe(0.3) else ""
    start = array(ways, batch, hidden) if m.maybe(0.4) else ""
    items = [one, array(ways, gates * hidden, inputs), array(ways, gates * hidden, hidden), array(ways, 2 * gates * hidden) if m.maybe(0.7) else "", lengths, start]
    more = {"direction": direction, "hidden_size": hidden}
    if name == "LSTM":
        items += [array(ways, batch, hidden) if m.maybe(0.4) else "", array(ways, 3 * hidden) if m.maybe(0.3) else ""]
        more["input_forget"] = m.choose(0, 0, 1)
    if name == "GRU":
        more["linear_before_reset"] = m.choose(0, 1)
    if m.maybe(0.2):
        more["clip"] = m.number(0.2, 1.0)
    if m.maybe(0.3):
        words = ["Sigmoid", "Tanh", "Relu"]
        count = {"LSTM": 3, "GRU": 2, "RNN": 1}[name] * ways
        more["activations"] = [m.choose(*words) for _ in range(count)]
    return m.node(name, items, 3 if name == "LSTM" else 2, **more)


@operators("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
def quantization(m, name):
    if name == "DynamicQuantizeLinear":
        return m.node(name, [m.any(1, 4)], 3)
    kind, shape = m.choose(np.int8, np.uint8), m.shape(1, 4)
    axis = m.axis(len(shape))
    whole = m.maybe()
    scale = m.array(() if whole else (shape[axis],), F, 0.05, 0.5)
    zero = m.array(scale.shape, kind, -5, 5)
    one = m.array(shape, F, -5, 5) if name == "QuantizeLinear" else m.array(shape, kind, -100, 100)
    return m.node(name, [m.feed(one), m.feed(scale), *([m.feed(zero)] if m.maybe(0.8) else [])], axis=None if whole else axis)


@operators("MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv")
def quantized(m, name):
    one, other = m.choose(np.uint8, np.int8), np.int8
    if name == "MatMulInteger":
        rows, inner, columns = m.below(1, 9), m.below(1, 40), m.below(1, 20)
        zeros = [m.feed(m.array((), one, -9, 9)), m.feed(m.array((), other, -9, 9))][:m.below(0, 2)]
        return m.node(name, [m.feed(m.array((*m.shape(0, 1), rows, inner), one, -128, 255)), m.feed(m.array((inner, columns), other, -128, 127)), *zeros])
    if name == "QLinearMatMul":
        rows, inner, columns = m.below(1, 9), m.below(1, 40), m.below(1, 20)
        scale = lambda: m.feed(m.array((), F, 0.01, 0.1))  # noqa: E731
        return m.node(name, [m.feed(m.array((rows, inner), one, -128, 255)), scale(), m.feed(m.array((), one, -9, 9)),
                             m.feed(m.array((inner, columns), one, -128, 127)), scale(), m.feed(m.array((), one, -9, 9)), scale(), m.feed(m.array((), one, -9, 9))])
    groups, kernels = m.choose(1, 1, 2), [m.below(1, 3), m.below(1, 3)]
    more, sizes = spatial(m, 2, kernels)
    inputs, outputs = groups * m.below(1, 4), groups * m.below(1, 4)
    data, weight = m.array((m.below(1, 2), inputs, *sizes), np.uint8, 0, 255), m.array((outputs, inputs // groups, *kernels), np.uint8, 0, 255)
    if name == "ConvInteger":
        zeros = [m.feed(m.array((), np.uint8, 0, 9)), m.feed(m.array((), np.uint8, 0, 9))][:m.below(0, 2)]
        return m.node(name, [m.feed(data), m.feed(weight), *zeros], group=groups, **more)
    weight = weight.astype(np.int8)
    each = m.maybe()
    scales = m.array((outputs,) if each else (), F, 0.01, 0.1)
    return m.node(name, [m.feed(data), m.feed(m.array((), F, 0.01, 0.1)), m.feed(m.array((), np.uint8, 0, 200)), m.feed(weight, True), m.feed(scales, True),
                         m.feed(np.zeros(scales.shape, np.int8), True), m.feed(m.array((), F, 0.1, 2)), m.feed(m.array((), np.uint8, 0, 200)),
                         *([m.feed(m.array((outputs,), np.int32, -900, 900), True)] if m.maybe() else [])], group=groups, **more)


@operators("NonZero", "Compress", "Unique")
def counted(m, name):
    one = m.feed(np.round(m.array(m.shape(), m.choose(F, I64, np.int32, BOOL) if name != "Unique" else m.choose(F, I64))))
    rank = len(m.of(one))
    if name == "NonZero":
        return m.node(name, [one])
    axis = m.axis(rank) if m.maybe() else None
    if name == "Compress":
        size = m.of(one)[axis] if axis is not None else int(np.prod(m.of(one)))
        return m.node(name, [one, m.feed(m.array((m.below(1, size),), BOOL))], axis=axis)
    return m.node(name, [one], m.choose(1, 4), axis=axis, sorted=m.choose(0, 1, None))


@operators("CenterCropPad", "Col2Im", "AffineGrid", "Det")
def rare(m, name):
    if name == "CenterCropPad":
        one = m.any(1, 4)
        axes = m.axes(len(m.of(one)))
        return m.node(name, [one, m.constant([m.below(1, 8) for _ in axes])], axes=axes)
    if name == "Det":
        size = m.below(1, 5)
        return m.node(name, [m.feed(m.array((*m.shape(0, 2), size, size)))])
    if name == "AffineGrid":
        batch = m.below(1, 3)
        return m.node(name, [m.feed(m.array((batch, 2, 3))), m.constant([batch, 2, m.below(2, 5), m.below(2, 5)])], align_corners=m.choose(0, 1, None))
    kernel, image = [m.below(1, 3), m.below(1, 3)], [m.below(4, 7), m.below(4, 7)]
    strides, dilations, pads = [m.below(1, 2), m.below(1, 2)], [m.below(1, 2), m.below(1, 2)], [m.below(0, 1) for _ in range(4)]
    windows = [(image[i] + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in (0, 1)]
    if min(windows) < 1:
        raise Refused("no windows")
    return m.node(name, [m.feed(m.array((m.below(1, 2), m.below(1, 3) * kernel[0] * kernel[1], windows[0] * windows[1]))), m.constant(image), m.constant(kernel)],
                  strides=strides, dilations=dilations, pads=pads)


@operators("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(m, name):
    classes, batch, more = m.below(2, 6), m.below(1, 4), m.shape(1, 2) if m.maybe(0.4) else ()
    target = m.array((batch, *more), m.choose(I64, np.int32), 0, classes - 1)
    weights = [m.feed(m.array((classes,), F, 0.2, 2))] if m.maybe() else []
    ignored = m.below(0, classes - 1) if m.maybe(0.3) and not (target == target.flat[0]).all() else None
    return m.node(name, [m.tensor((batch, classes, *more)), m.feed(target), *weights], reduction=m.choose("mean", "sum", "none", None), ignore_index=ignored)


@operators("DFT")
def dft(m, name):
    m.opset = m.opset if m.nodes else m.choose(OPSET, 17)
    shape = (*m.shape(2, 3), m.choose(1, 2))
    axis = m.below(0, len(shape) - 2)
    inverse = m.choose(0, 1)
    onesided = m.choose(0, 1) if shape[-1] == 1 and not inverse else 0
    length = [m.constant(m.below(1, 8))] if m.maybe(0.4) else [""]
    if m.opset < 20:
        return m.node(name, [m.feed(m.array(shape)), *length], axis=axis, inverse=inverse, onesided=onesided)
    return m.node(name, [m.feed(m.array(shape)), *length, m.constant(axis)], inverse=inverse, onesided=onesided)


# ---- comparing -----------------------------------------------------------------------------------------------------


def difference(found, wanted):
    """What is wrong with a result; None if it is right. Koine's integers have 32 bits, its floats are float32."""
    if found.shape != wanted.shape:
        return f"{found.shape}, expected {wanted.shape}"
    if not wanted.size:
        return None
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    if wanted.dtype.kind != "f":
        wrong = np.abs(one - other)
        return f"{np.count_nonzero(wrong)} of {wrong.size} integers differ: {found.flat[wrong.argmax()]}, expected {wanted.flat[wrong.argmax()]}" if wrong.max() else None
    if (np.isnan(one) != np.isnan(other)).any():
        return "NaN in different places"
    finite = np.isfinite(other)
    if not (one[~finite & ~np.isnan(other)] == other[~finite & ~np.isnan(other)]).all():
        return "infinities in different places"
    if not finite.any():
        return None
    far = np.abs(one[finite] - other[finite]).max() / max(1e-3, np.abs(other[finite]).max())
    return None if far <= (3e-3 if wanted.dtype == np.float16 else 1e-4) else f"differs by {far:.3g} of the largest element"


def make(seed, nodes, only):
    random = np.random.default_rng(seed)
    model = Model(random)
    count, tries, names = model.below(1, nodes), 0, only or sorted(OPERATORS)
    while len(model.nodes) < count and tries < 12:
        tries += 1
        try:
            OPERATORS[names[model.below(0, len(names) - 1)]](model)
        except (Refused, ValueError, IndexError, OverflowError):
            continue
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--keep")
    options = parser.parse_args()
    counts, refusals, context = collections.Counter(), collections.Counter(), koine.Context()
    for seed in range(options.seed, options.seed + options.count):
        model = make(seed, options.nodes, options.only)
        if not model.nodes:
            continue
        proto, kinds = model.proto(model.outputs), " → ".join(node.op_type for node in model.nodes)
        path = os.path.join(options.keep or "/tmp", f"random-{os.getpid()}.onnx")
        onnx.save(proto, path)
        try:
            found = bound.runner(path, model.given, lambda array: array.dtype.kind != "f", context)()
        except koine.KoineError as error:
            counts["refused"] += 1
            text = re.sub(r"\d+", "N", str(error).split(": ", 1)[-1])
            refusals[text] += 1
            if refusals[text] == 1:
                print(f"seed {seed}: {kinds}: refused: {error}", flush=True)
            continue
        wrong = [f"{name}: {why}" for name, why in ((name, difference(np.asarray(one), model.values[name])) for name, one in zip(model.outputs, found)) if why]
        counts["wrong" if wrong else "right"] += 1
        if wrong:
            print(f"seed {seed}: {kinds}: {'; '.join(wrong)}", flush=True)
            if options.keep:
                onnx.save(proto, os.path.join(options.keep, f"seed-{seed}.onnx"))
    if os.path.exists(path):
        os.remove(path)
    print(f"{counts['right']} right, {counts['wrong']} wrong, {counts['refused']} refused")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
