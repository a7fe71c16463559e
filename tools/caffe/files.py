"""Caffe files, written without Caffe: networks as text, and with weights as protocol buffers.

A message is a list of pairs (field, value), where a value is a number, a text, a Word or a message. Blobs are (shape, numbers).
"""
import struct

FILLER = {"type": (1, "text"), "value": (2, "float"), "std": (6, "float")}
SHAPE = {"dim": (1, "whole")}
PARAMS = {
  "argmax_param": (103, {"out_max_val": (1, "whole"), "top_k": (2, "whole"), "axis": (3, "whole")}),
  "batch_norm_param": (139, {"use_global_stats": (1, "whole"), "moving_average_fraction": (2, "float"), "eps": (3, "float")}),
  "concat_param": (104, {"axis": (2, "whole")}),
  "convolution_param": (106, {
    "num_output": (1, "whole"), "bias_term": (2, "whole"), "pad": (3, "whole"), "kernel_size": (4, "whole"), "group": (5, "whole"),
    "stride": (6, "whole"), "weight_filler": (7, FILLER), "bias_filler": (8, FILLER), "pad_h": (9, "whole"), "pad_w": (10, "whole"),
    "kernel_h": (11, "whole"), "kernel_w": (12, "whole"), "stride_h": (13, "whole"), "stride_w": (14, "whole"),
    "dilation": (18, "whole")}),
  "crop_param": (144, {"axis": (1, "whole"), "offset": (2, "whole")}),
  "dropout_param": (108, {"dropout_ratio": (1, "float")}),
  "eltwise_param": (110, {"operation": (1, {"PROD": 0, "SUM": 1, "MAX": 2}), "coeff": (2, "float")}),
  "elu_param": (140, {"alpha": (1, "float")}),
  "flatten_param": (135, {"axis": (1, "whole"), "end_axis": (2, "whole")}),
  "inner_product_param": (117, {"num_output": (1, "whole"), "bias_term": (2, "whole"), "weight_filler": (3, FILLER),
                                "bias_filler": (4, FILLER), "axis": (5, "whole"), "transpose": (6, "whole")}),
  "input_param": (143, {"shape": (1, SHAPE)}),
  "lrn_param": (118, {"local_size": (1, "whole"), "alpha": (2, "float"), "beta": (3, "float"),
                      "norm_region": (4, {"ACROSS_CHANNELS": 0, "WITHIN_CHANNEL": 1}), "k": (5, "float")}),
  "permute_param": (202, {"order": (1, "whole")}),
  "pooling_param": (121, {"pool": (1, {"MAX": 0, "AVE": 1}), "kernel_size": (2, "whole"), "stride": (3, "whole"),
                          "pad": (4, "whole"), "kernel_h": (5, "whole"), "kernel_w": (6, "whole"), "pad_h": (9, "whole"),
                          "pad_w": (10, "whole"), "global_pooling": (12, "whole")}),
  "power_param": (122, {"power": (1, "float"), "scale": (2, "float"), "shift": (3, "float")}),
  "prelu_param": (131, {"channel_shared": (2, "whole")}),
  "reduction_param": (136, {"operation": (1, {"SUM": 1, "ASUM": 2, "SUMSQ": 3, "MEAN": 4}), "axis": (2, "whole"), "coeff": (3, "float")}),
  "relu_param": (123, {"negative_slope": (1, "float")}),
  "reshape_param": (133, {"shape": (1, SHAPE), "axis": (2, "whole"), "num_axes": (3, "whole")}),
  "scale_param": (142, {"axis": (1, "whole"), "num_axes": (2, "whole"), "bias_term": (4, "whole")}),
  "slice_param": (126, {"slice_point": (2, "whole"), "axis": (3, "whole")}),
  "softmax_param": (125, {"axis": (2, "whole")}),
  "tile_param": (138, {"axis": (1, "whole"), "tiles": (2, "whole")}),
}
LAYER = {"name": (1, "text"), "type": (2, "text"), "bottom": (3, "text"), "top": (4, "text"),
         "param": (6, {"name": (1, "text"), "lr_mult": (3, "float")}), "blobs": (7, "blob"),
         "include": (8, {"phase": (1, {"TRAIN": 0, "TEST": 1})}), **PARAMS}
NET = {"name": (1, "text"), "input": (3, "text"), "input_dim": (4, "whole"), "input_shape": (8, SHAPE), "layer": (100, LAYER)}
# The first kind of layers: enough for an old file.
FIRST = {"bottom": (2, "text"), "top": (3, "text"), "name": (4, "text"),
         "type": (5, {"CONVOLUTION": 4, "INNER_PRODUCT": 14, "POOLING": 17, "RELU": 18, "SOFTMAX": 20}), "blobs": (6, "old blob"),
         "convolution_param": (10, PARAMS["convolution_param"][1]), "inner_product_param": (17, PARAMS["inner_product_param"][1]),
         "pooling_param": (19, PARAMS["pooling_param"][1])}
NET["layers"] = (2, FIRST)


class Word(str):
  """A name of an enumeration, or true and false: without quotes in a text."""


def text(message, indent=""):
  """The message as text, without weights."""
  lines = []
  for name, value in message:
    if name == "blobs":
      continue
    if isinstance(value, list):
      lines += [f"{indent}{name} {{", text(value, indent + "  ").rstrip("\n"), indent + "}"]
    elif isinstance(value, str) and not isinstance(value, Word):
      lines.append(f'{indent}{name}: "{value}"')
    else:
      lines.append(f"{indent}{name}: {value}")
  return "\n".join(line for line in lines if line) + "\n"


def varint(number):
  number &= (1 << 64) - 1
  made = bytearray()
  while number > 127:
    made.append(number & 127 | 128)
    number >>= 7
  made.append(number)
  return bytes(made)


def tagged(number, data):
  return varint(number << 3 | 2) + varint(len(data)) + data


def floats(numbers):
  return struct.pack(f"<{len(numbers)}f", *numbers)


def blob(shape, numbers):
  return tagged(5, floats(numbers)) + tagged(7, tagged(1, b"".join(varint(size) for size in shape)))


def old_blob(shape, numbers):
  """Four sizes, and each number in a separate field."""
  sizes = [1] * (4 - len(shape)) + list(shape)
  return (b"".join(varint(i + 1 << 3) + varint(size) for i, size in enumerate(sizes)) +
          b"".join(b"\x2d" + struct.pack("<f", number) for number in numbers))


def binary(message, fields=None):
  """The message as protocol buffers have it, blobs included."""
  fields = NET if fields is None else fields
  made = b""
  for name, value in message:
    number, kind = fields[name]
    if isinstance(value, list):
      made += tagged(number, binary(value, kind))
    elif isinstance(kind, dict):
      made += varint(number << 3) + varint(kind[value])
    elif kind == "text":
      made += tagged(number, value.encode())
    elif kind == "float":
      made += varint(number << 3 | 5) + struct.pack("<f", value)
    elif kind == "whole":
      made += varint(number << 3) + varint({"true": 1, "false": 0}.get(value, value))
    else:
      made += tagged(number, (blob if kind == "blob" else old_blob)(*value))
  return made


def layer(kind, name, bottoms, top=None, blobs=(), more=(), **params):
  """A layer; params are those of its type, by their names: convolution_param=[("num_output", 8), ...]."""
  return ("layer", [("name", name), ("type", kind), *[("bottom", bottom) for bottom in bottoms.split()],
                    *[("top", one) for one in (top or name).split()], *more, *params.items(),
                    *[("blobs", one) for one in blobs]])
