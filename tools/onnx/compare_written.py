#!/usr/bin/env python3
"""Holds files that ONNX Runtime's quantizer and optimizers wrote, as Koine runs them, against ONNX Runtime.

A file of level "all" may be laid out for one processor, which Koine refuses with that reason. Needs numpy, torch, onnx,
onnxscript and onnxruntime. See README.md in this folder.
"""

import argparse
import collections
import json
import logging
import pathlib
import sys
import warnings

import numpy
import onnx
import onnxruntime
import torch
from onnxruntime import quantization
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
from torch import nn

import compare_networks
import compare_torch
from compare_networks import CLASSES, Network

SAMPLES, STEPS, BATCH = 24, 20, 8
FLOATS = 1e-5  # how far a result may be, by root mean squares
QUANTIZED = 2  # the same as a multiple of how far the runtime's own optimized result is
ROUNDED = 0.02  # and at least this: a number at a tie may be quantized to either side


class Bert(nn.Module):
  """Tokens, places, blocks with norms after the sums, as the transformer optimizer expects them."""

  def __init__(self, tokens=CLASSES, places=12, width=32, heads=4):
    super().__init__()
    self.heads, self.width = heads, width
    self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(places, width)
    self.first, self.between, self.after = (nn.LayerNorm(width) for _ in range(3))
    self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
    self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    self.head = nn.Linear(width, tokens)

  def apart(self, x):
    return x.view(x.shape[0], x.shape[1], self.heads, self.width // self.heads).permute(0, 2, 1, 3)

  def forward(self, x):
    x = self.first(self.tokens(x) + self.places(torch.arange(x.shape[1])))
    q, k, v = self.apart(self.query(x)), self.apart(self.key(x)), self.apart(self.value(x))
    weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / (self.width // self.heads) ** 0.5, -1)
    y = torch.matmul(weights, v).permute(0, 2, 1, 3).contiguous()
    x = self.between(self.mix(y.view(y.shape[0], y.shape[1], self.width)) + x)
    x = self.after(self.narrow(nn.functional.gelu(self.wide(x))) + x)
    return self.head(x)


class Mixed(nn.Module):
  """What the quantizer has operators for: sums, products, means, joined and leaky and sigmoid activations."""

  def __init__(self):
    super().__init__()
    self.first, self.left, self.right = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 1, 1), nn.Conv2d(8, 8, 1)
    self.head = nn.Linear(16, CLASSES)

  def forward(self, x):
    x = nn.functional.leaky_relu(self.first(x), 0.1)
    left, right = torch.relu(self.left(x)), torch.sigmoid(self.right(x))
    x = torch.cat([nn.functional.avg_pool2d(left + x, 2), nn.functional.max_pool2d(left * right, 2)], 1)
    return torch.softmax(self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)), -1)


NETWORKS = [network for network in compare_networks.NETWORKS
            if network.name in ("mlp", "resnet", "mobile", "unet", "squeeze", "lstm", "gpt", "rotary")]
NETWORKS += [Network("bert", Bert, (12,), (12,), tokens=True), Network("mixed", Mixed, compare_networks.PICTURE)]


# ---- files ----------------------------------------------------------------------------------------


class Reader(CalibrationDataReader):
  def __init__(self, name, x):
    self.batches = iter([{name: x[at:at + BATCH]} for at in range(0, len(x), BATCH)])

  def get_next(self):
    return next(self.batches, None)


def optimized(level):
  def write(source, path, x, network):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
  return write


def transformer(source, path, x, network):
  from onnxruntime.transformers import optimizer
  if network.name not in ("bert", "gpt"):
    return
  heads, width = (4, 32) if network.name == "bert" else (2, 16)
  kind = "bert" if network.name == "bert" else "gpt2"
  model = optimizer.optimize_model(str(source), kind, num_heads=heads, hidden_size=width, opt_level=0)
  model.save_model_to_file(str(path))


def static(form, weights, each):
  def write(source, path, x, network):
    quantization.quantize_static(str(source), str(path), Reader("images", x), quant_format=form, per_channel=each,
                                 activation_type=QuantType.QUInt8, weight_type=weights)
  return write


def dynamic(weights):
  def write(source, path, x, network):
    quantization.quantize_dynamic(str(source), str(path), weight_type=weights,
                                  extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
  return write


def transformer_dynamic(source, path, x, network):
  middle = path.with_suffix(".middle.onnx")
  transformer(source, middle, x, network)
  if middle.exists():
    dynamic(QuantType.QUInt8)(middle, path, x, network)


def blocks(bits):
  def write(source, path, x, network):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    quantizer = MatMulNBitsQuantizer(onnx.load(str(source)), bits=bits, block_size=16)
    quantizer.process()
    quantizer.model.save_model_to_file(str(path))
  return write


def optimized_after(write_first):
  def write(source, path, x, network):
    middle = path.with_suffix(".middle.onnx")
    write_first(source, middle, x, network)
    optimized(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)(middle, path, x, network)
  return write


LEVELS = onnxruntime.GraphOptimizationLevel
FORMS = {
    "exported": None,
    "basic": optimized(LEVELS.ORT_ENABLE_BASIC),
    "extended": optimized(LEVELS.ORT_ENABLE_EXTENDED),
    "all": optimized(LEVELS.ORT_ENABLE_ALL),
    "transformer": transformer,
    "qdq": static(QuantFormat.QDQ, QuantType.QInt8, False),
    "qdq-channels": static(QuantFormat.QDQ, QuantType.QInt8, True),
    "qdq-extended": optimized_after(static(QuantFormat.QDQ, QuantType.QInt8, False)),
    "operators": static(QuantFormat.QOperator, QuantType.QUInt8, False),
    "operators-channels": static(QuantFormat.QOperator, QuantType.QInt8, True),
    "dynamic": dynamic(QuantType.QInt8),
    "transformer-dynamic": transformer_dynamic,
    "dynamic-extended": optimized_after(dynamic(QuantType.QUInt8)),
    "blocks4": blocks(4),
    "blocks8": blocks(8),
}
WHOLE = ("exported", "basic", "extended", "all", "transformer")


# ---- comparing ------------------------------------------------------------------------------------


def runtime(path, x, level=LEVELS.ORT_DISABLE_ALL):
  options = onnxruntime.SessionOptions()
  options.graph_optimization_level = level
  options.log_severity_level = 3
  session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
  return session.run(None, {session.get_inputs()[0].name: x})[0]


def distance(left, right):
  left, right = left.astype(numpy.float64), right.astype(numpy.float64)
  return float(numpy.sqrt(((left - right) ** 2).mean() / max((right ** 2).mean(), 1e-30)))


def own_operators(path):
  nodes = onnx.load(str(path)).graph.node
  return collections.Counter(node.op_type for node in nodes if node.domain.startswith("com.microsoft"))


def losses(koine, folder, form):
  log = folder / f"{form}.jsonl"
  compare_torch.run(koine, "train", folder / f"{form}.onnx", "--data", f"npy:{folder}/x.npy,{folder}/y.npy", "--loss",
                    "cross-entropy", "--optimizer", "sgd", "--lr", 0.01, "--batch", BATCH, "--steps", STEPS, "--no-shuffle",
                    "--math", "exact", "--log", log, "--save", folder / f"{form}.out.onnx", "--quiet", "--overwrite")
  lines = [json.loads(line) for line in log.read_text().splitlines()]
  return numpy.array([line["loss"] for line in lines if "loss" in line and "step" in line][:STEPS])


def compare(koine, folder, network, form, x):
  path = folder / f"{form}.onnx"
  if not path.exists():
    return None
  part = x[:5]
  numpy.save(folder / "part.npy", part)
  compare_torch.run(koine, "infer", path, "--input", folder / "part.npy", "--output", folder / "out.npy", "--quiet",
                    "--overwrite")
  wanted, found = runtime(path, part), numpy.load(folder / "out.npy")
  own = distance(runtime(path, part, LEVELS.ORT_ENABLE_ALL), wanted)
  apart = distance(found, wanted)
  allowed = FLOATS if form in WHOLE else max(ROUNDED, QUANTIZED * own)
  words = ", ".join(f"{name} {count}" for name, count in sorted(own_operators(path).items()))
  said = f"{network.name} {form}: {apart:.2g} apart, the runtime's own optimized result {own:.2g}; {words or 'ONNX alone'}"
  if form in ("extended", "transformer"):
    first, other = losses(koine, folder, "exported"), losses(koine, folder, form)
    trained = float(numpy.abs(first - other).max())
    said += f"; {STEPS} losses {trained:.2g} apart"
    apart = apart if trained <= 1e-4 else numpy.inf
  print(said + ("" if apart <= allowed else f" -- FAILED, allowed is {allowed:.2g}"), flush=True)
  return apart <= allowed


def begin_layer_norms(module):
  """No two weights that are equal: the optimizer would keep one of them, which then would be trained for both."""
  for part in module.modules():
    if isinstance(part, nn.LayerNorm):
      nn.init.uniform_(part.weight, 0.8, 1.2)
      nn.init.uniform_(part.bias, -0.1, 0.1)


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("koine", type=pathlib.Path, help="the command")
  parser.add_argument("folder", type=pathlib.Path, help="where files are written")
  parser.add_argument("--networks", help="names with commas between them (all)")
  parser.add_argument("--forms", help="names with commas between them (all)")
  given = parser.parse_args()
  torch.set_num_threads(1)
  logging.disable(logging.WARNING)
  warnings.simplefilter("ignore")
  good = True
  for network in NETWORKS:
    if given.networks and network.name not in given.networks.split(","):
      continue
    torch.manual_seed(7)
    module = network.make()
    begin_layer_norms(module)
    x, y = network.data(numpy.random.default_rng(3), STEPS * BATCH)
    folder = given.folder / f"written-{network.name}"
    folder.mkdir(parents=True, exist_ok=True)
    numpy.save(folder / "x.npy", x)
    numpy.save(folder / "y.npy", y.astype(numpy.int64))
    if network.folds:
      module = compare_networks.fold(module)
    compare_torch.export(network, module, torch.from_numpy(x[:BATCH]), "folded", folder / "exported.onnx")
    for form, write in FORMS.items():
      if network.name == "gpt" and form.startswith("qdq"):
        continue  # its mask has infinities, which make a scale infinite and all numbers NaN
      if given.forms and form not in given.forms.split(",") + ["exported"]:
        continue
      if write:
        (folder / f"{form}.onnx").unlink(missing_ok=True)
        write(folder / "exported.onnx", folder / f"{form}.onnx", x[:SAMPLES], network)
      try:
        good = compare(given.koine, folder, network, form, x) is not False and good
      except SystemExit as failure:
        good = form == "all" and "for one processor" in str(failure) and good
        print(f"{network.name} {form}: {failure}", flush=True)
  sys.exit(0 if good else 1)


if __name__ == "__main__":
  main()
