"""Small models of ONNX Runtime's own operators, by family. compare_runtime.py runs them."""

import numpy
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
F, U8, I8, I32, I64 = numpy.float32, numpy.uint8, numpy.int8, numpy.int32, numpy.int64


class Case:
  """A model: nodes, arrays that are given to it, and weights. expected: results by NumPy, where the runtime has none."""

  def __init__(self, name, nodes, given, weights=None, outputs=("y",), expected=None):
    self.name, self.nodes, self.given, self.weights = name, nodes, given, weights or {}
    self.outputs, self.expected = outputs, expected

  def model(self):
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
              for name, array in self.given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
    weights = [numpy_helper.from_array(numpy.asarray(array), name) for name, array in self.weights.items()]
    graph = helper.make_graph(self.nodes, "case", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def node(kind, inputs, outputs="y", domain=MICROSOFT, **attributes):
  return helper.make_node(kind, inputs.split(","), outputs.split(","), domain=domain, **attributes)


class Source:
  """Arrays that depend on the name of a case alone."""

  def __init__(self, name):
    self.random = numpy.random.default_rng(sum(ord(letter) * (place + 1) for place, letter in enumerate(name)))

  def floats(self, *shape, scale=1.0):
    return (self.random.standard_normal(shape) * scale).astype(F)

  def whole(self, dtype, *shape, low=None, high=None):
    info = numpy.iinfo(dtype)
    return self.random.integers(info.min if low is None else low, (info.max if high is None else high) + 1,
                                shape).astype(dtype)


def scales(**numbers):
  return {name: F(number) for name, number in numbers.items()}


# ---- quantized ---------------------------------------------------------------------------------


def points(dtype, **numbers):
  return {name: dtype(number) for name, number in numbers.items()}


def quantized_binary():
  for kind in ("QLinearAdd", "QLinearMul"):
    for dtype, zeros in ((U8, (128, 100, 90)), (I8, (3, -5, 7))):
      for shape in ((2, 3, 4, 5), (5,), ()):
        name = f"{kind}_{dtype.__name__}_{len(shape)}"
        source = Source(name)
        given = {"a": source.whole(dtype, 2, 3, 4, 5), "b": source.whole(dtype, *shape)}
        weights = scales(sa=0.03137, sb=0.02129, sc=0.07177) | points(dtype, za=zeros[0], zb=zeros[1], zc=zeros[2])
        yield Case(name, [node(kind, "a,sa,za,b,sb,zb,sc,zc")], given, weights)
    source = Source(kind)
    given = {"a": source.whole(U8, 7), "b": source.whole(U8, 7)}
    a, b = given["a"] * F(0.25), given["b"] * F(0.5)
    y = (a + b if kind == "QLinearAdd" else a * b) / F(0.5)
    yield Case(f"{kind}_no_points", [node(kind, "a,sa,,b,sb,,sc")], given, scales(sa=0.25, sb=0.5, sc=0.5),
               expected=[numpy.round(y).clip(0, 255).astype(U8)])


def quantized_unary():
  for dtype, zero in ((U8, 120), (I8, -3)):
    for kind, attributes in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.2}), ("QLinearLeakyRelu", {})):
      name = f"{kind}_{dtype.__name__}_{len(attributes)}"
      weights = scales(sx=0.04, sy=0.03) | points(dtype, zx=zero, zy=zero // 2)
      yield Case(name, [node(kind, "x,sx,zx,sy,zy", **attributes)], {"x": Source(name).whole(dtype, 3, 40)}, weights)
    for opset, axis in ((13, -1), (13, 1), (11, 1), (12, 2)):
      name = f"QLinearSoftmax_{dtype.__name__}_{opset}_{axis + 1}"
      weights = scales(sx=0.05, sy=1 / 256) | points(dtype, zx=zero, zy=0 if dtype == U8 else -128)
      yield Case(name, [node("QLinearSoftmax", "x,sx,zx,sy,zy", opset=opset, axis=axis)],
                 {"x": Source(name).whole(dtype, 2, 3, 7)}, weights)


def quantized_joins():
  for dtype, zero in ((U8, 120), (I8, -3)):
    source = Source(f"QLinearConcat{dtype.__name__}")
    given = {"a": source.whole(dtype, 2, 3, 4), "b": source.whole(dtype, 2, 5, 4), "c": source.whole(dtype, 2, 1, 4)}
    weights = scales(sy=0.05, sa=0.04, sb=0.02, sc=0.05) | points(dtype, zy=zero, za=zero + 5, zb=zero - 9, zc=zero)
    yield Case(f"QLinearConcat_{dtype.__name__}", [node("QLinearConcat", "sy,zy,a,sa,za,b,sb,zb,c,sc,zc", axis=1)],
               given, weights)
    given = {"k": source.whole(U8, 3, 1, low=0, high=1).astype(bool), "a": source.whole(dtype, 3, 4),
             "b": source.whole(dtype, 4)}
    yield Case(f"QLinearWhere_{dtype.__name__}", [node("QLinearWhere", "k,a,sa,za,b,sb,zb,sy,zy")], given, weights)


def quantized_means():
  for dtype, zero in ((U8, 120), (I8, -3)):
    word = dtype.__name__
    weights = scales(sx=0.05093, sy=0.03119) | points(dtype, zx=zero, zy=zero + 4)
    for last in (0, 1):
      x = Source(f"means{word}{last}").whole(dtype, *((2, 6, 7, 3) if last else (2, 3, 6, 7)))
      yield Case(f"QLinearGlobalAveragePool_{word}_{last}",
                 [node("QLinearGlobalAveragePool", "x,sx,zx,sy,zy", channels_last=last)], {"x": x}, weights)
      for counts in (0, 1):
        yield Case(f"QLinearAveragePool_{word}_{last}_{counts}",
                   [node("QLinearAveragePool", "x,sx,zx,sy,zy", channels_last=last, kernel_shape=[3, 2], pads=[1, 0, 1, 1],
                         strides=[2, 1], count_include_pad=counts)], {"x": x}, weights)
    x = Source(f"reduced{word}").whole(dtype, 3, 4, 5)
    real = (x.astype(F) - zero) * F(0.05093)
    for axes, keep in (([1], 1), ([0, 2], 0)):
      mean = numpy.round(real.mean(tuple(axes), keepdims=bool(keep), dtype=numpy.float64) / F(0.03119)) + zero + 4
      info = numpy.iinfo(dtype)
      yield Case(f"QLinearReduceMean_{word}_{keep}",
                 [node("QLinearReduceMean", "x,sx,zx,sy,zy", axes=axes, keepdims=keep)], {"x": x}, weights,
                 expected=[mean.clip(info.min, info.max).astype(dtype)])
    wide = numpy.uint32 if dtype == U8 else I32
    yield Case(f"ReduceSumInteger_{word}", [node("ReduceSumInteger", "x", axes=[1], keepdims=0)], {"x": x},
               expected=[x.sum(1).astype(wide)])


def quantized_products():
  for word, left, right in (("uu", U8, U8), ("ui", U8, I8), ("ii", I8, I8)):
    source = Source(f"products{word}")
    a, b = source.whole(left, 4, 24), source.whole(right, 24, 6)
    columns = {"sb": source.random.random(6).astype(F) * F(0.02) + F(0.01), "zb": source.whole(right, 6, low=0, high=5)}
    single = scales(sb=0.03) | points(right, zb=2)
    for form, more in (("one", single), ("columns", columns)):
      weights = scales(sa=0.02, sy=0.5) | points(left, za=7, zy=9) | more | {"b": b}
      weights["c"], weights["bias"] = source.whole(I32, 6, low=-900, high=900), source.floats(6)
      weights["ba"], weights["bt"] = numpy.ascontiguousarray(a.T), numpy.ascontiguousarray(b.T)
      yield Case(f"QGemm_{word}_{form}", [node("QGemm", "a,sa,za,b,sb,zb,c,sy,zy", alpha=1.0)], {"a": a}, weights)
      yield Case(f"QGemm_{word}_{form}_float", [node("QGemm", "a,sa,za,b,sb,zb", alpha=0.5)], {"a": a}, weights)
      yield Case(f"QGemm_{word}_{form}_turned",
                 [node("QGemm", "at,sa,za,bt,sb,zb,c", transA=1, transB=1)], {"at": weights["ba"]}, weights)
      yield Case(f"MatMulIntegerToFloat_{word}_{form}", [node("MatMulIntegerToFloat", "a,b,sa,sb,za,zb,bias")],
                 {"a": a}, weights)
      if left == U8:
        x = source.floats(2, 3, 24)
        yield Case(f"DynamicQuantizeMatMul_{word}_{form}", [node("DynamicQuantizeMatMul", "x,b,sb,zb,bias")],
                   {"x": x}, weights)
    yield Case(f"MatMulIntegerToFloat_{word}_plain", [node("MatMulIntegerToFloat", "a,b,sa,sb")], {"a": a},
               scales(sa=0.01, sb=0.02) | {"b": b})
  source = Source("wholes")
  a, b = source.whole(numpy.int16, 3, 8, low=-3000, high=3000), source.whole(numpy.int16, 8, 5, low=-3000, high=3000)
  yield Case("MatMulInteger16", [node("MatMulInteger16", "a,b")], {"a": a, "b": b})
  a, b = source.whole(U8, 3, 8), source.whole(U8, 8)
  yield Case("MulInteger", [node("MulInteger", "a,za,b,zb")], {"a": a, "b": b}, points(U8, za=7, zb=200),
             expected=[(a.astype(I32) - 7) * (b.astype(I32) - 200)])


def quantized_convolutions():
  source = Source("convolutions")
  w = source.whole(I8, 5, 3, 3, 3)
  weights = scales(sx=0.02, sy=0.3) | points(U8, zx=120, zy=60) | {
      "w": w, "sw": source.random.random(5).astype(F) * F(0.01) + F(0.01), "zw": numpy.zeros(5, I8),
      "b": source.whole(I32, 5, low=-2000, high=2000)}
  for last in (0, 1):
    x = source.whole(U8, *((2, 7, 8, 3) if last else (2, 3, 7, 8)))
    yield Case(f"QLinearConv_{last}", [node("QLinearConv", "x,sx,zx,w,sw,zw,sy,zy,b", channels_last=last, pads=[1, 0, 1, 2],
                                            strides=[1, 2])], {"x": x}, weights)


def quantized_linear():
  source = Source("linear")
  x = source.floats(3, 4, scale=3)
  for word, dtype in (("u8", U8), ("i8", I8), ("u16", numpy.uint16), ("i16", numpy.int16)):
    one, four = {"s": F(0.05), "z": dtype(9)}, {"s": source.random.random(4).astype(F) + F(0.1), "z": dtype([1, 2, 3, 4])}
    yield Case(f"QuantizeLinear_{word}", [node("QuantizeLinear", "x,s,z")], {"x": x}, one)
    yield Case(f"QuantizeLinear_{word}_axis", [node("QuantizeLinear", "x,s,z", axis=1)], {"x": x}, four)
    q = source.whole(dtype, 3, 4)
    yield Case(f"DequantizeLinear_{word}", [node("DequantizeLinear", "q,s,z")], {"q": q}, one)
    yield Case(f"DequantizeLinear_{word}_axis", [node("DequantizeLinear", "q,s,z", axis=1)], {"q": q}, four)


FAMILIES = [quantized_binary, quantized_unary, quantized_joins, quantized_means, quantized_products,
            quantized_convolutions, quantized_linear]


def all_cases():
  for family in FAMILIES:
    yield from family()
