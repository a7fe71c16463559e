"""Small models of ONNX Runtime's own operators, by family. compare_runtime.py runs them."""

import math

import numpy
import onnxruntime
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"
F, U8, I8, I32, I64 = numpy.float32, numpy.uint8, numpy.int8, numpy.int32, numpy.int64


class Case:
  """A model: nodes, arrays that are given to it, and weights. expected: results by NumPy, where the runtime has none."""

  def __init__(self, name, nodes, given, weights=None, outputs=("y",), expected=None):
    self.name, self.nodes, self.weights = name, nodes, weights or {}
    self.given = {key: numpy.asarray(array) for key, array in given.items()}
    self.outputs, self.expected = outputs, expected

  def model(self):
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
              for name, array in self.given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
    weights = [numpy_helper.from_array(numpy.asarray(array), name) for name, array in self.weights.items()]
    graph = helper.make_graph(self.nodes, "case", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)

  def reference(self):
    """What ONNX Runtime makes of the model without optimizing it, or the results by NumPy."""
    if self.expected is not None:
      return [numpy.asarray(each) for each in self.expected]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    model = self.model().SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, self.given)


def node(kind, inputs, outputs="y", domain=MICROSOFT, **attributes):
  return helper.make_node(kind, inputs.split(","), outputs.split(","), domain=domain, **attributes)


class Source:
  """Arrays that depend only on the name of a case."""

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
  # Filters of 7 bits: on CPUs without VNNI, ONNX Runtime's sums of larger ones may be cut to 16 bits.
  x = source.floats(2, 12, 9, 11, scale=3)
  for word, left, group, size, more in (("u8", U8, 1, 3, {"pads": [1, 1, 1, 1]}), ("i8", I8, 1, 1, {}), ("u8_group", U8, 3, 3, {"strides": [2, 1], "dilations": [1, 2]})):
    weights = {"w": source.whole(I8, 8 if group == 1 else 12, 12 // group, size, size) // 2, "sx": F(0.05), "zx": left(9), "c": source.floats(8 if group == 1 else 12)}
    weights |= {"sw": source.random.random(len(weights["c"])).astype(F), "zw": source.whole(I8, len(weights["c"])) * I8(0)}
    yield Case(f"DequantizeLinear_Conv_{word}",
               [node("QuantizeLinear", "x,sx,zx", "q", domain=""), node("DequantizeLinear", "q,sx,zx", "a", domain=""),
                node("DequantizeLinear", "w,sw,zw", "b", domain="", axis=0), node("Conv", "a,b,c", domain="", group=group, **more)],
               {"x": x}, weights)
  x = source.floats(2, 7, 70, scale=3)
  for word, left, right in (("u8_i8", U8, I8), ("i8_i8", I8, I8), ("u8_u8", U8, U8)):
    between = [node("QuantizeLinear", "x,sx,zx", "q", domain=""), node("DequantizeLinear", "q,sx,zx", "a", domain="")]
    weights = {"w": source.whole(right, 70, 33), "sx": F(0.05), "zx": left(9)}
    for form, scale, zero in (("tensor", F(0.02), right(3)), ("columns", source.random.random(33).astype(F), source.whole(right, 33))):
      yield Case(f"DequantizeLinear_MatMul_{word}_{form}",
                 [*between, node("DequantizeLinear", "w,sw,zw", "b", domain="", axis=1), node("MatMul", "a,b", domain="")],
                 {"x": x}, weights | {"sw": scale, "zw": zero})
      turned = weights | {"w": weights["w"].T.copy(), "sw": scale, "zw": zero, "c": source.floats(33)}
      yield Case(f"DequantizeLinear_Gemm_{word}_{form}",
                 [*between, node("DequantizeLinear", "w,sw,zw", "b", domain="", axis=0), node("Gemm", "a,b,c", domain="", transB=1)],
                 {"x": x[0]}, turned)


# ---- joined layers -----------------------------------------------------------------------------


def erf(x):
  return numpy.vectorize(math.erf, otypes=[F])(x)


def gelu(x):
  return x * 0.5 * (1 + erf(x / numpy.sqrt(F(2))))


def fast_gelu(x):
  return x * F(0.5) * (1 + numpy.tanh(F(math.sqrt(2 / math.pi)) * (x + F(0.044715) * x ** 3)))


def softmax(x, axis=-1):
  powers = numpy.exp(x - x.max(axis, keepdims=True))
  return powers / powers.sum(axis, keepdims=True)


def joined_products():
  activations = [("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": 0.3}),
                 ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}), ("Softplus", {}), ("Elu", {"activation_alpha": 0.7})]
  source = Source("products")
  a, b = source.floats(3, 5), source.floats(5, 4)
  for kind, attributes in activations:
    yield Case(f"FusedGemm_{kind}", [node("FusedGemm", "a,b,c", activation=kind, alpha=0.7, beta=1.5, **attributes)],
               {"a": a}, {"b": b, "c": source.floats(4)})
  yield Case("FusedGemm_turned", [node("FusedGemm", "a,b,c", activation="Relu", transA=1, transB=1)],
             {"a": source.floats(5, 3)}, {"b": source.floats(4, 5), "c": source.floats(3, 1)})
  a, b = source.floats(2, 3, 4, 5), source.floats(2, 3, 5, 6)
  for turn_a in (0, 1):
    for turn_b in (0, 1):
      left = numpy.ascontiguousarray(a.swapaxes(2, 3)) if turn_a else a
      right = numpy.ascontiguousarray(b.swapaxes(2, 3)) if turn_b else b
      yield Case(f"FusedMatMul_{turn_a}{turn_b}", [node("FusedMatMul", "a,b", transA=turn_a, transB=turn_b, alpha=0.25)],
                 {"a": left, "b": right})
      wanted = numpy.maximum(0.25 * (a @ b), 0)
      yield Case(f"FusedMatMulActivation_{turn_a}{turn_b}",
                 [node("FusedMatMulActivation", "a,b", transA=turn_a, transB=turn_b, alpha=0.25, activation="Relu")],
                 {"a": left, "b": right}, expected=[wanted])
  yield Case("FusedMatMul_batches", [node("FusedMatMul", "a,b", transBatchA=1, transBatchB=1)],
             {"a": source.floats(4, 2, 3, 5), "b": source.floats(5, 2, 3, 6)})
  yield Case("FusedMatMul_row", [node("FusedMatMul", "a,b", alpha=2.0)], {"a": source.floats(5), "b": source.floats(5, 4)})
  yield Case("TransposeMatMul", [node("TransposeMatMul", "a,b", transB=1)], {"a": source.floats(3, 5), "b": source.floats(4, 5)})
  x, w, c = source.floats(2, 3, 5), source.floats(5, 4), source.floats(4)
  yield Case("GemmFastGelu", [node("GemmFastGelu", "x,w,c")], {"x": x}, {"w": w, "c": c}, expected=[fast_gelu(x @ w + c)])


def joined_convolutions():
  activations = [("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 1.5]),
                 ("HardSigmoid", [0.3, 0.4])]
  source = Source("convolutions")
  x, w, b = source.floats(2, 4, 7, 6), source.floats(6, 2, 3, 3), source.floats(6)
  for kind, numbers in activations:
    attributes = {"activation_params": numbers} if numbers else {}
    yield Case(f"FusedConv_{kind}", [node("FusedConv", "x,w,b", activation=kind, group=2, pads=[1, 0, 1, 2], strides=[1, 2],
                                          **attributes)], {"x": x}, {"w": w, "b": b})
  yield Case("FusedConv_sum", [node("FusedConv", "x,w,b,z", activation="Relu", group=2, pads=[1, 1, 1, 1])],
             {"x": x, "z": source.floats(2, 6, 7, 6)}, {"w": w, "b": b})
  turned = numpy.ascontiguousarray(x.transpose(0, 2, 3, 1))
  plain = Case("", [node("Conv", "x,w,b", domain="", group=2, pads=[1, 1, 1, 1])], {"x": x}, {"w": w, "b": b})
  wanted = numpy.ascontiguousarray(plain.reference()[0].transpose(0, 2, 3, 1))
  yield Case("NhwcConv", [node("NhwcConv", "x,w,b", group=2, pads=[1, 1, 1, 1])], {"x": turned}, {"w": w, "b": b},
             expected=[wanted])
  z = source.floats(*wanted.shape)
  yield Case("NhwcFusedConv", [node("NhwcFusedConv", "x,w,b,z", group=2, pads=[1, 1, 1, 1], activation="Relu")],
             {"x": turned, "z": z}, {"w": w, "b": b}, expected=[numpy.maximum(wanted + z, 0)])
  yield Case("NhwcMaxPool", [node("NhwcMaxPool", "x", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])],
             {"x": source.whole(I8, 2, 7, 6, 4)})


def joined_activations():
  source = Source("activations")
  x, bias = source.floats(2, 3, 8), source.floats(8)
  yield Case("Gelu", [node("Gelu", "x")], {"x": x})
  yield Case("FastGelu", [node("FastGelu", "x")], {"x": x})
  yield Case("FastGelu_bias", [node("FastGelu", "x,b")], {"x": x}, {"b": bias})
  yield Case("BiasGelu", [node("BiasGelu", "x,b")], {"x": x}, {"b": bias})
  yield Case("QuickGelu", [node("QuickGelu", "x")], {"x": x})
  yield Case("QuickGelu_alpha", [node("QuickGelu", "x", alpha=0.5)], {"x": x})
  left, right = numpy.split(x + bias, 2, -1)
  yield Case("BiasSplitGelu", [node("BiasSplitGelu", "x,b")], {"x": x}, {"b": bias}, expected=[left * gelu(right)])
  more = source.floats(2, 3, 8)
  yield Case("BiasAdd", [node("BiasAdd", "x,b,z")], {"x": x, "z": more}, {"b": bias}, expected=[x + bias + more])
  inner, outer = source.floats(2, 1, 8), source.floats(3, 8)
  yield Case("BiasSoftmax_inner", [node("BiasSoftmax", "x,b", axis=2, is_inner_broadcast=1)], {"x": x}, {"b": inner},
             expected=[softmax(x + inner)])
  both = (x + outer).reshape(2, 24)
  yield Case("BiasSoftmax_outer", [node("BiasSoftmax", "x,b", axis=1, is_inner_broadcast=0)], {"x": x}, {"b": outer},
             expected=[softmax(both).reshape(x.shape)])
  gate = source.floats(2, 3, 1)
  yield Case("GatedAdd", [node("GatedAdd", "x,z,g")], {"x": x, "z": more, "g": gate}, expected=[x + more * gate])


def joined_norms():
  source = Source("norms")
  x, skip = source.floats(2, 3, 8), source.floats(2, 3, 8)
  weights = {"scale": source.floats(8), "beta": source.floats(8), "bias": source.floats(8)}
  yield Case("LayerNormalization_old", [node("LayerNormalization", "x,scale,beta", domain="", axis=-1)], {"x": x}, weights)
  yield Case("SimplifiedLayerNormalization", [node("SimplifiedLayerNormalization", "x,scale", domain="", epsilon=1e-3)],
             {"x": x}, weights)
  yield Case("SimplifiedLayerNormalization_deviation",
             [node("SimplifiedLayerNormalization", "x,scale", "y,d", domain="", axis=-1, epsilon=1e-3)], {"x": x}, weights,
             outputs=("y", "d"))
  for word, inputs in (("plain", "x,skip,scale"), ("beta", "x,skip,scale,beta"), ("bias", "x,skip,scale,beta,bias"),
                       ("bias_alone", "x,skip,scale,,bias")):
    yield Case(f"SkipLayerNormalization_{word}", [node("SkipLayerNormalization", inputs, epsilon=1e-5)],
               {"x": x, "skip": skip}, weights)
  yield Case("SkipLayerNormalization_sum", [node("SkipLayerNormalization", "x,skip,scale,beta,bias", "y,,,s")],
             {"x": x, "skip": skip}, weights, outputs=("y", "s"))
  yield Case("SkipLayerNormalization_broadcast", [node("SkipLayerNormalization", "x,skip,scale,beta", "y,,,s")],
             {"x": x, "skip": skip[0]}, weights, outputs=("y", "s"))
  yield Case("SkipSimplifiedLayerNormalization", [node("SkipSimplifiedLayerNormalization", "x,skip,scale,bias", "y,,,s")],
             {"x": x, "skip": skip}, weights, outputs=("y", "s"))
  tables = {"words": source.floats(20, 8), "places": source.floats(12, 8), "segments": source.floats(2, 8)} | weights
  given = {"ids": source.whole(I32, 2, 5, low=0, high=19), "kinds": source.whole(I32, 2, 5, low=0, high=1),
           "mask": numpy.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], I32)}
  yield Case("EmbedLayerNormalization",
             [node("EmbedLayerNormalization", "ids,kinds,words,places,segments,scale,beta,mask", "y,m")], given, tables,
             outputs=("y", "m"))
  yield Case("EmbedLayerNormalization_places",
             [node("EmbedLayerNormalization", "ids,,words,places,,scale,beta,,at", "y,m,s", epsilon=1e-3)],
             {"ids": given["ids"], "at": source.whole(I32, 2, 5, low=0, high=11)}, tables, outputs=("y", "m", "s"))
  image, scale, beta = source.floats(2, 4, 5, 6), source.floats(6), source.floats(6)
  for last in (1, 0):
    x = image if last else numpy.ascontiguousarray(image.transpose(0, 3, 1, 2))
    skip, bias = source.floats(2, 6), source.floats(6)
    for kind in ("GroupNorm", "SkipGroupNorm"):
      total = image + (skip[:, None, None, :] + bias if kind != "GroupNorm" else 0)
      groups = total.reshape(2, 20, 3, 2)
      y = (groups - groups.mean((1, 3), keepdims=True)) / numpy.sqrt(groups.var((1, 3), keepdims=True) + 1e-5)
      y = y.reshape(image.shape) * scale + beta
      results = [y / (1 + numpy.exp(-y))] + ([total] if kind != "GroupNorm" else [])
      results = [(each if last else each.transpose(0, 3, 1, 2)).astype(F) for each in results]
      inputs, outputs = ("x,scale,beta,skip,bias", "y,s") if kind != "GroupNorm" else ("x,scale,beta", "y")
      yield Case(f"{kind}_{last}", [node(kind, inputs, outputs, groups=3, channels_last=last, activation=1)],
                 {"x": x, "skip": skip} if kind != "GroupNorm" else {"x": x}, {"scale": scale, "beta": beta, "bias": bias},
                 outputs.split(","), expected=results)


def packed(codes, bits):
  """Codes (…,n), the lowest bits of a byte first."""
  each = 8 // bits
  more = -codes.shape[-1] % each
  codes = numpy.concatenate([codes, numpy.zeros(codes.shape[:-1] + (more,), U8)], -1)
  codes = codes.reshape(codes.shape[:-1] + (-1, each)).astype(I32) << (numpy.arange(each) * bits)
  return codes.sum(-1).astype(U8)


def packed_weights():
  for bits in (2, 4, 8):
    for rows, columns, block in ((6, 40, 16), (5, 32, 32)):
      source, blocks = Source(f"packed{bits}{rows}"), -(-columns // block)
      codes = source.whole(U8, rows, blocks, block, low=0, high=2 ** bits - 1)
      zeros = source.whole(U8, rows, blocks, low=0, high=2 ** bits - 1)
      weights = {"w": packed(codes, bits), "s": source.random.random((rows, blocks)).astype(F) * F(0.1) + F(0.05),
                 "bias": source.floats(rows), "zp": packed(zeros, bits), "zf": zeros.astype(F) + F(0.25)}
      for word, inputs in (("plain", "x,w,s"), ("packed", "x,w,s,zp"), ("numbers", "x,w,s,zf"), ("bias", "x,w,s,zp,,bias")):
        if bits != 4 and word == "numbers":
          continue  # the runtime has no kernel for these
        yield Case(f"MatMulNBits_{bits}_{block}_{word}",
                   [node("MatMulNBits", inputs, N=rows, K=columns, bits=bits, block_size=block)],
                   {"x": source.floats(2, 3, columns)}, weights)
      table = packed(codes.reshape(rows, -1), bits)
      given = {"i": I64([[0, 2, 4], [1, 1, 3]])}
      if bits != 2:
        for word, inputs in (("plain", "t,i,s"), ("points", "t,i,s,zp")):
          yield Case(f"GatherBlockQuantized_{bits}_{block}_{word}",
                     [node("GatherBlockQuantized", inputs, bits=bits, block_size=block, quantize_axis=1)], given,
                     {"t": table} | weights)
  for kind in (0, 1):
    source = Source(f"codes{kind}")
    weights = {"w": source.whole(U8, 6 * 40 // 2), "s": source.random.random(6 * 40 // 16).astype(F)}
    yield Case(f"MatMulBnb4_{kind}", [node("MatMulBnb4", "x,w,s", N=6, K=40, block_size=16, quant_type=kind)],
               {"x": source.floats(3, 40)}, weights)


def quantized_tables():
  source = Source("tables")
  names = ("words", "places", "segments", "scale", "beta")
  shapes = ((20, 8), (12, 8), (2, 8), (8,), (8,))
  weights = {name: source.whole(U8, *shape) for name, shape in zip(names, shapes)}
  weights |= {name[0] + "s": F(0.01 + 0.003 * place) for place, name in enumerate(names)}
  weights |= {name[0] + "z": U8(120 + place) for place, name in enumerate(names)}
  weights |= {"gs": F(0.017), "gz": U8(117)}  # of the scale, which begins like the segments
  given = {"ids": source.whole(I32, 2, 5, low=0, high=19), "kinds": source.whole(I32, 2, 5, low=0, high=1),
           "mask": numpy.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], I32)}
  inputs = "ids,kinds,words,places,segments,scale,beta,mask,ws,ps,ss,gs,bs,wz,pz,sz,gz,bz"
  yield Case("QEmbedLayerNormalization", [node("QEmbedLayerNormalization", inputs, "y,m")], given, weights,
             outputs=("y", "m"))


def quantized_lstm():
  for form in ("one", "rows"):
    source = Source(f"lstm{form}")
    shape = (2,) if form == "one" else (2, 16)
    weights = {"b": source.floats(2, 32)}
    real = {"b": weights["b"]}
    for name, size in (("w", 3), ("r", 4)):
      codes, zero = source.whole(I8, 2, size, 16), numpy.full(shape, 3, I8)
      scale = source.random.random(shape).astype(F) * F(0.005) + F(0.002)
      weights |= {name: codes, name + "s": scale, name + "z": zero}
      wide = (2, 1, 1) if form == "one" else (2, 1, 16)
      numbers = (codes.astype(F) - zero.reshape(wide)) * scale.reshape(wide)
      real[name] = numpy.ascontiguousarray(numbers.transpose(0, 2, 1))
    attributes = {"hidden_size": 4, "direction": "bidirectional"}
    given = {"x": source.floats(6, 2, 3)}
    plain = Case("", [node("LSTM", "x,w,r,b", "y,h,c", domain="", **attributes)], given, real, ("y", "h", "c"))
    yield Case(f"DynamicQuantizeLSTM_{form}",
               [node("DynamicQuantizeLSTM", "x,w,r,b,,,,,ws,wz,rs,rz", "y,h,c", **attributes)], given, weights,
               ("y", "h", "c"), expected=plain.reference())


# ---- attention ---------------------------------------------------------------------------------

MASKS = {
    "lengths": I32([3, 5]),
    "ends": I32([5, 4, 1, 0]),
    "keys": I32([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]]),
    "all": I32(numpy.arange(50).reshape(2, 5, 5) % 3 > 0),
}


def projected_attention():
  source = Source("attention")
  x, w, b = source.floats(2, 5, 12), source.floats(12, 48, scale=0.4), source.floats(48)
  weights = {"w": w, "b": b}
  for word, attributes in (("plain", {}), ("causal", {"unidirectional": 1}), ("scaled", {"scale": 0.3})):
    yield Case(f"Attention_{word}", [node("Attention", "x,w,b", num_heads=4, **attributes)], {"x": x}, weights)
  for word, mask in MASKS.items():
    for causal in (0, 1):
      yield Case(f"Attention_{word}_{causal}", [node("Attention", "x,w,b,m", num_heads=4, unidirectional=causal)],
                 {"x": x, "m": mask}, weights)
  yield Case("Attention_sizes", [node("Attention", "x,w,b", num_heads=2, qkv_hidden_sizes=[12, 12, 24])], {"x": x}, weights)
  yield Case("Attention_bias", [node("Attention", "x,w,b,,,z", num_heads=4)], {"x": x, "z": source.floats(1, 4, 5, 5)},
             weights)
  yield Case("Attention_no_bias", [node("Attention", "x,w", num_heads=4)], {"x": x}, weights)
  past = source.floats(2, 2, 4, 3, 4)
  for causal in (0, 1):
    yield Case(f"Attention_past_{causal}", [node("Attention", "x,w,b,,p", "y,n", num_heads=4, unidirectional=causal)],
               {"x": x, "p": past}, weights, outputs=("y", "n"))
  mask = source.whole(I32, 2, 8, low=0, high=1)
  mask[:, 0] = 1
  yield Case("Attention_past_mask", [node("Attention", "x,w,b,m,p", "y,n", num_heads=4, unidirectional=1)],
             {"x": x, "m": mask, "p": past}, weights, outputs=("y", "n"))
  yield Case("Attention_present", [node("Attention", "x,w,b", "y,n", num_heads=4)], {"x": x}, weights, outputs=("y", "n"))
  q, wq = source.whole(U8, 2, 5, 12), source.whole(I8, 12, 48, low=-60, high=60)
  quantized = {"w": wq, "b": b, "sx": F(0.02), "sw": F(0.01), "zx": U8(120), "zw": I8(3)}
  yield Case("QAttention", [node("QAttention", "x,w,b,sx,sw,,zx,zw", num_heads=4)], {"x": q}, quantized)
  yield Case("QAttention_mask", [node("QAttention", "x,w,b,sx,sw,m,zx,zw", num_heads=4, unidirectional=1)],
             {"x": q, "m": MASKS["lengths"]}, quantized)
  yield Case("QAttention_past", [node("QAttention", "x,w,b,sx,sw,,zx,zw,p", "y,n", num_heads=4)], {"x": q, "p": past},
             quantized, outputs=("y", "n"))


def multi_head_attention():
  source = Source("heads")
  q, k, v = source.floats(2, 5, 12), source.floats(2, 6, 12), source.floats(2, 6, 20)
  same, weights = source.floats(2, 6, 12), {"b": source.floats(36), "bv": source.floats(44)}
  cases = {
      "plain": ("q,k,v", {"q": q, "k": k, "v": same}, {}),
      "sizes": ("q,k,v,bv", {"q": q, "k": k, "v": v}, {}),
      "bias": ("q,k,v,b", {"q": q, "k": k, "v": same}, {"scale": 0.4}),
      "lengths": ("q,k,v,,m", {"q": q, "k": k, "v": same, "m": I32([4, 6])}, {}),
      "keys": ("q,k,v,b,m", {"q": q, "k": k, "v": same, "m": I32([[1, 1, 0, 1, 0, 0], [0, 1, 1, 1, 1, 1]])},
               {"mask_filter_value": -30000.0}),
      "masks": ("q,k,v,,m", {"q": q, "k": k, "v": same, "m": I32(numpy.arange(60).reshape(2, 5, 6) % 4 > 0)}, {}),
      "scores": ("q,k,v,,,z", {"q": q, "k": k, "v": same, "z": source.floats(2, 1, 5, 6)}, {}),
      "encoder": ("q,k,v,b", {"q": q, "k": source.floats(2, 4, 6, 3), "v": source.floats(2, 4, 6, 3)}, {}),
      "causal": ("q,k,v", {"q": q, "k": k[:, :5], "v": same[:, :5]}, {"unidirectional": 1}),
  }
  for word, (inputs, given, attributes) in cases.items():
    yield Case(f"MultiHeadAttention_{word}", [node("MultiHeadAttention", inputs, num_heads=4, **attributes)], given, weights)
  packed_heads = source.floats(2, 6, 4, 3, 3)
  parts = [numpy.ascontiguousarray(packed_heads[:, :, :, i]).reshape(2, 6, 12) for i in range(3)]
  apart = Case("", [node("MultiHeadAttention", "q,k,v", num_heads=4)], dict(zip("qkv", parts)))
  yield Case("MultiHeadAttention_packed", [node("MultiHeadAttention", "q", num_heads=4)], {"q": packed_heads},
             expected=apart.reference())
  yield Case("MultiHeadAttention_packed_keys", [node("MultiHeadAttention", "q,k", num_heads=4)],
             {"q": parts[0], "k": packed_heads[:, :, :, 1:]}, expected=apart.reference())
  given = {"q": q, "k": k, "v": same, "pk": source.floats(2, 4, 3, 3), "pv": source.floats(2, 4, 3, 3)}
  yield Case("MultiHeadAttention_past", [node("MultiHeadAttention", "q,k,v,b,,,pk,pv", "y,nk,nv", num_heads=4)], given,
             weights, outputs=("y", "nk", "nv"))
  yield Case("MultiHeadAttention_present", [node("MultiHeadAttention", "q,k,v,b", "y,nk,nv", num_heads=4)],
             {name: given[name] for name in "qkv"}, weights, outputs=("y", "nk", "nv"))


def group_query_attention():
  source = Source("groups")
  tables = {"cos": numpy.cos(source.floats(16, 8)), "sin": numpy.sin(source.floats(16, 8)), "sink": source.floats(4),
            "wq": source.floats(16), "wk": source.floats(16)}
  heads, names = {"num_heads": 4, "kv_num_heads": 2}, ("y", "nk", "nv")

  def made(word, length, past, total, lengths, inputs="q,k,v,pk,pv,n,t", room=None, **attributes):
    size = len(lengths)
    given = {"q": source.floats(size, length, 64), "k": source.floats(size, length, 32),
             "v": source.floats(size, length, 32), "pk": source.floats(size, 2, past, 16),
             "pv": source.floats(size, 2, past, 16), "n": I32(lengths) - 1, "t": I32(total)}
    given["qkv"] = source.floats(size, length, 128)
    given["z"] = source.floats(1, 4, length, total)
    given["at"] = I64(numpy.arange(length)[None] + numpy.array(lengths)[:, None] - length)
    used, outputs = inputs.split(","), ("y", "k0", "v0")
    keep = numpy.arange(max(past, total))[None] < numpy.array(lengths)[:, None]  # nothing is said about later places
    weights = tables | {"keep": keep[:, None, :, None], "none": F(0)}
    nodes = [node("GroupQueryAttention", inputs, ",".join(outputs), **heads, **attributes)]
    nodes += [node("Where", f"keep,{word}0,none", f"n{word}", domain="") for word in "kv"]
    return Case(f"GroupQueryAttention_{word}", nodes, {name: given[name] for name in given if name in used}, weights,
                outputs=names)

  yield made("prompt", 5, 0, 5, [5, 5], "q,k,v,,,n,t")
  yield made("prompt_cache", 5, 0, 5, [5, 5])
  yield made("packed", 5, 0, 5, [5, 5], "qkv,,,,,n,t")
  yield made("next", 1, 6, 7, [7, 7])
  yield made("several", 3, 6, 9, [9])
  yield made("room", 1, 12, 8, [8, 8])
  yield made("room_apart", 1, 12, 8, [8, 5])
  yield made("apart", 1, 6, 7, [7, 4])
  yield made("scaled", 3, 6, 9, [9], scale=0.2)
  yield made("softcap", 3, 6, 9, [9], softcap=1.5)
  yield made("window", 3, 6, 9, [9], local_window_size=4)
  yield made("window_prompt", 8, 0, 8, [8, 8], local_window_size=3)
  yield made("smooth", 3, 6, 9, [9], smooth_softmax=1)
  yield made("sink", 3, 6, 9, [9], "q,k,v,pk,pv,n,t,,,,,sink")
  yield made("bias", 3, 6, 9, [9], "q,k,v,pk,pv,n,t,,,,z")
  yield made("rotary", 3, 6, 9, [9], "q,k,v,pk,pv,n,t,cos,sin", do_rotary=1)
  yield made("rotary_packed", 1, 6, 7, [7, 5], "qkv,,,pk,pv,n,t,cos,sin", do_rotary=1)
  yield made("rotary_prompt", 5, 0, 5, [5, 5], "q,k,v,,,n,t,cos,sin", do_rotary=1, rotary_interleaved=1)
  normed = made("norms", 1, 6, 7, [7, 7], "q,k,v,pk,pv,n,t,cos,sin,,,,,,wq,wk", do_rotary=1)
  nodes = []
  for word in "qk":  # the same with the norms as nodes
    nodes += [helper.make_node("Reshape", [word, "apart"], [word + "4"]),
              helper.make_node("SimplifiedLayerNormalization", [word + "4", "w" + word], [word + "n"], epsilon=1e-6),
              helper.make_node("Reshape", [word + "n", "joined"], [word + "3"])]
  nodes += [node("GroupQueryAttention", "q3,k3,v,pk,pv,n,t,cos,sin", "y,k0,v0", do_rotary=1, **heads)] + normed.nodes[1:]
  shapes = {"apart": I64([2, 1, -1, 16]), "joined": I64([2, 1, -1])}
  normed.expected = Case("", nodes, normed.given, normed.weights | shapes, outputs=names).reference()
  yield normed


def rotary_embedding():
  source = Source("rotary")
  tables = {"cos": numpy.cos(source.floats(16, 4)), "sin": numpy.sin(source.floats(16, 4))}
  small = {"cos": tables["cos"][:, :2], "sin": tables["sin"][:, :2]}
  places = source.whole(I64, 2, 5, low=0, high=15)
  for word, x, more, weights in (("heads", source.floats(2, 3, 5, 8), {}, tables), ("flat", source.floats(2, 5, 24), {}, tables),
                                 ("part", source.floats(2, 5, 24), {"num_heads": 3, "rotary_embedding_dim": 4}, small)):
    for turn in (0, 1):
      for form, at in (("places", places), ("first", I64([4]))):
        yield Case(f"RotaryEmbedding_{word}_{turn}_{form}", [node("RotaryEmbedding", "x,at,cos,sin", interleaved=turn, **more)],
                   {"x": x, "at": at}, weights)


def others():
  source = Source("others")
  a, b = source.floats(4, 6), source.floats(5, 6)
  for metric in ("euclidean", "sqeuclidean"):
    yield Case(f"CDist_{metric}", [node("CDist", "a,b", metric=metric)], {"a": a, "b": b})
  x = source.floats(2, 4, 6)
  yield Case("Trilu", [node("Trilu", "x,k", upper=0)], {"x": x}, {"k": I64(1)})
  yield Case("ExpandDims", [node("ExpandDims", "x,axis")], {"x": x}, {"axis": I32(-2)})
  yield Case("Range", [node("Range", "a,b,c")], {"a": F(1), "b": F(7), "c": F(1.5)})
  yield Case("Range_ones", [node("Range", "a,b")], {"a": I32(3), "b": I32(7)})
  yield Case("Pad", [node("Pad", "x,p,v", mode="constant")], {"x": x}, {"p": I64([0, 1, 2, 0, 0, 1]), "v": F(2.5)})
  yield Case("GatherND", [node("GatherND", "x,i")], {"x": x, "i": I64([[0, 1], [1, 3]])})
  yield Case("GridSample", [node("GridSample", "x,g", mode="bilinear", padding_mode="border", align_corners=1)],
             {"x": source.floats(2, 3, 5, 6), "g": source.floats(2, 4, 4, 2, scale=0.6)})
  a, b = source.floats(3, 4, 2), source.floats(3, 4, 2)
  for kind in ("ComplexMul", "ComplexMulConj"):
    right = b.view(numpy.complex64)
    wanted = a.view(numpy.complex64) * (right.conj() if kind != "ComplexMul" else right)
    yield Case(kind, [node(kind, "a,b")], {"a": a, "b": b}, expected=[wanted.view(F)])


def matrices():
  source = Source("matrices")
  for columns in (1, 2, 5, 16):
    x = source.floats(2, 3, columns, columns)
    x[0, 0, 0, 0] = 0
    yield Case(f"Inverse_{columns}", [node("Inverse", "x")], {"x": x + numpy.eye(columns, dtype=F)})
    yield Case(f"Det_{columns}", [node("Det", "x", domain="")], {"x": x})
  yield Case("Det_singular", [node("Det", "x", domain="")], {"x": numpy.ones((3, 3), F)})


def spectra():
  source = Source("spectra")
  for length in (8, 9):
    x = source.floats(3, 5, length)
    one, two = numpy.fft.rfft(x).astype(numpy.complex64), numpy.fft.rfft2(x).astype(numpy.complex64)
    for axes, wanted in ((1, one), (2, two)):
      parts = numpy.stack([wanted.real, wanted.imag], -1)
      yield Case(f"Rfft_{length}_{axes}", [node("Rfft", "x", signal_ndim=axes, onesided=1, normalized=0)], {"x": x},
                 expected=[parts])
      if length == 8:
        yield Case(f"Irfft_{axes}", [node("Irfft", "x", signal_ndim=axes, onesided=1, normalized=0)], {"x": parts},
                   expected=[x])


def moving_taps():
  source = Source("taps")
  for word, groups, offsets, attributes in (("plain", 1, 1, {}), ("groups", 2, 1, {"group": 2}),
                                            ("offsets", 1, 2, {"offset_group": 2, "strides": [2, 1], "dilations": [1, 2]})):
    rows, columns = (4, 4) if word == "offsets" else (7, 6)
    weights = {"w": source.floats(6, 4 // groups, 3, 3), "b": source.floats(6)}
    given = {"x": source.floats(2, 4, 7, 6), "o": source.floats(2, offsets * 18, rows, columns, scale=1.5),
             "m": source.floats(2, offsets * 9, rows, columns)}
    for inputs in ("x,w,o", "x,w,o,b,m"):
      used = {name: given[name] for name in given if name in inputs.split(",")}
      yield Case(f"DeformConv_{word}_{len(used)}",
                 [node("DeformConv", inputs, domain="", pads=[1, 1, 1, 1], kernel_shape=[3, 3], **attributes)], used, weights)


def terms():
  x = Source("terms").whole(I64, 3, 9, low=1, high=4)
  pool = [1, 2, 3, 1, 2, 2, 3, 4, 4, 1, 2, 3]  # three single ones, three pairs, a run of three
  lists = {"ngram_counts": [0, 3, 9], "ngram_indexes": [6, 0, 2, 1, 3, 5, 4], "pool_int64s": pool,
           "weights": [0.5, 2.0, 1.5, 0.25, 3.0, 1.0, 4.0]}
  for mode in ("TF", "IDF", "TFIDF"):
    for least, most, skips in ((1, 1, 0), (1, 3, 1), (2, 2, 3)):
      for row in (0, 1):
        yield Case(f"TfIdfVectorizer_{mode}_{least}{most}{skips}_{row}",
                   [node("TfIdfVectorizer", "x", domain="", mode=mode, min_gram_length=least, max_gram_length=most,
                         max_skip_count=skips, **lists)], {"x": x[0] if row else x})


def halves():
  """The same nodes with numbers of 16 bits, which Koine computes with as 32."""
  chosen = ("MatMulNBits_4_16_packed", "GroupQueryAttention_rotary", "GroupQueryAttention_packed",
            "SkipSimplifiedLayerNormalization", "SkipLayerNormalization_sum", "RotaryEmbedding_flat_0_places", "FastGelu_bias",
            "QuickGelu", "MultiHeadAttention_bias", "EmbedLayerNormalization", "GatherBlockQuantized_4_16_points")
  for family in (packed_weights, group_query_attention, joined_norms, rotary_embedding, joined_activations,
                 multi_head_attention):
    for case in family():
      if case.name not in chosen:
        continue
      narrow = [{name: array.astype(numpy.float16) if array.dtype == F else array for name, array in arrays.items()}
                for arrays in (case.given, {name: numpy.asarray(array) for name, array in case.weights.items()})]
      wide = [{name: array.astype(F) if array.dtype == numpy.float16 else array for name, array in arrays.items()}
              for arrays in narrow]
      exact = Case("", case.nodes, wide[0], wide[1], case.outputs).reference()
      results = [each.astype(numpy.float16) if each.dtype == F else each for each in exact]
      yield Case(f"{case.name}_half", case.nodes, narrow[0], narrow[1], case.outputs, expected=results)


FAMILIES = [quantized_binary, quantized_unary, quantized_joins, quantized_means, quantized_products,
            quantized_convolutions, quantized_linear, packed_weights, joined_products, joined_convolutions, joined_activations,
            joined_norms, quantized_tables, quantized_lstm,
            projected_attention, multi_head_attention, group_query_attention, rotary_embedding, others, matrices, spectra, moving_taps, terms, halves]


def all_cases():
  for family in FAMILIES:
    yield from family()
