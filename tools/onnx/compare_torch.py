#!/usr/bin/env python3
"""Exports networks from PyTorch, has Koine train the files, and holds the result against PyTorch and ONNX Runtime.

Needs numpy, torch, onnx, onnxscript and onnxruntime. See README.md in this folder.
"""

import argparse
import copy
import json
import pathlib
import subprocess
import sys
import warnings

import numpy
import onnx
import onnxruntime
import torch
from torch import nn

import compare_models
import compare_networks

STEPS, BATCH, MOMENTUM = 20, 16, 0.9
LEAST = 1e-4  # the minimum tolerance of losses, whatever PyTorch's precision
ASTRAY = 3e-3  # where the losses of these are further apart, the rule would allow anything
OUTPUTS = 1e-4


# ---- exporting ------------------------------------------------------------------------------------------


def export(network, module, example, exporter, path):
  """exporter: "script" keeps batch norms apart, "folded" puts them into convolutions, "dynamo" is the newer one."""
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    if exporter == "dynamo":
      dynamic = {0: torch.export.Dim("batch", min=2)}
      if network.open_length:
        dynamic[1] = torch.export.Dim("length", min=2, max=32)
      program = torch.onnx.export(module.eval(), (example,), dynamo=True, dynamic_shapes=(dynamic,), verbose=False,
                                  optimize=False, input_names=["images"], output_names=["logits"])
      program.save(str(path))
      return
    training = torch.onnx.TrainingMode.EVAL if exporter == "folded" else torch.onnx.TrainingMode.TRAINING
    module.train(exporter == "script")
    axes = {0: "batch", 1: "length"} if network.open_length else {0: "batch"}
    torch.onnx.export(copy.deepcopy(module), (example,), str(path), dynamo=False, training=training,
                      do_constant_folding=exporter == "folded", input_names=["images"], output_names=["logits"],
                      dynamic_axes={"images": axes, "logits": axes})


# ---- PyTorch's opinion --------------------------------------------------------------------------------------


def train(module, x, y, lr, dtype):
  """The losses of 20 steps, and the trained module."""
  module = copy.deepcopy(module).to(dtype).train()
  optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=MOMENTUM)
  losses = []
  for step in range(STEPS):
    part = slice(step * BATCH, (step + 1) * BATCH)
    inputs = torch.from_numpy(x[part])
    inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
    loss = nn.functional.cross_entropy(module(inputs).flatten(0, -2), torch.from_numpy(y[part]).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
  return losses, module


# ---- Koine's ------------------------------------------------------------------------------------------------


def run(*words):
  done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
  if done.returncode:
    raise SystemExit(f"{' '.join(str(word) for word in words)}\n{done.stdout}{done.stderr}")
  return done.stdout


def koine_train(koine, folder, name, lr):
  log = folder / f"{name}.jsonl"
  run(koine, "train", folder / f"{name}.onnx", "--data", f"npy:{folder}/x.npy,{folder}/y.npy", "--loss",
      "cross-entropy", "--optimizer", "sgd", "--lr", lr, "--momentum", MOMENTUM, "--batch", BATCH, "--steps", STEPS,
      "--no-shuffle", "--math", "exact", "--log", log, "--save", folder / f"{name}.out.onnx", "--quiet", "--overwrite")
  lines = [json.loads(line) for line in log.read_text().splitlines()]
  return [line["loss"] for line in lines if "loss" in line and "step" in line][:STEPS]


def runtime(path, x):
  session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
  return session.run(None, {session.get_inputs()[0].name: x})[0]


def initializers(path):
  return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(str(path)).graph.initializer}


# ---- one network ----------------------------------------------------------------------------------------------


def apart(name, found, double, single):
  """Where a number is further from float64 than the rule allows: 3 times as far as float32's, and at least LEAST."""
  found, double, single = (numpy.asarray(numbers, numpy.float64) for numbers in (found, double, single))
  allowed, distance = max(3 * float(abs(double - single).max()), LEAST), float(abs(found - double).max())
  return [] if distance <= allowed else [f"{name} is {distance:.3g} apart, allowed are {allowed:.3g}"]


def furthest_of(left, right):
  return float(numpy.abs(numpy.asarray(left) - numpy.asarray(right)).max())


def compare(koine, folder, network, exporter):
  torch.manual_seed(7)
  module = network.make()
  x, y = network.data(numpy.random.default_rng(3), STEPS * BATCH)
  rate = network.lr
  if exporter == "folded":
    module, rate = compare_networks.fold(module), network.folded_lr or rate
  folder = folder / f"{network.name}-{exporter}"
  folder.mkdir(parents=True, exist_ok=True)
  numpy.save(folder / "x.npy", x)
  numpy.save(folder / "y.npy", y.astype(numpy.int64))
  export(network, copy.deepcopy(module), torch.from_numpy(x[:BATCH]), exporter, folder / "model.onnx")
  # Exporting for training runs the network once: its statistics begin where the file has them.
  before = initializers(folder / "model.onnx")
  with torch.no_grad():
    for name, value in module.named_buffers():
      if name in before and value.is_floating_point():
        value.copy_(torch.from_numpy(before[name].copy()))
  double, far = train(module, x, y, rate, torch.float64)
  single, near = train(module, x, y, rate, torch.float32)
  found = koine_train(koine, folder, "model", rate)
  faults = apart("the loss", found, double, single)
  astray, furthest = furthest_of(double, single), {}
  if not astray <= ASTRAY:
    faults.append(f"PyTorch's own losses are {astray:.3g} apart: a lower rate is needed")
  # The trained file, by the names that both know.
  saved = initializers(folder / "model.out.onnx")
  if set(saved) != set(before):
    faults.append("the names of the initializers differ")
  states = {name: (value, near.state_dict()[name]) for name, value in far.state_dict().items()}
  compared = 0
  for name, (value, other) in states.items():
    if name not in saved or saved[name].shape != tuple(value.shape) or not value.is_floating_point() or (
        not value.isfinite().all()):
      continue
    compared += 1
    faults += apart(name, saved[name], value.numpy(), other.numpy())
  # The results of the trained file in Koine, ONNX Runtime and PyTorch.
  part = x[:8]
  numpy.save(folder / "part.npy", part)
  run(koine, "infer", folder / "model.out.onnx", "--input", folder / "part.npy", "--output", folder / "koine.npy",
      "--quiet", "--overwrite")
  own, other = numpy.load(folder / "koine.npy"), runtime(folder / "model.out.onnx", part)
  if abs(own - other).max() > OUTPUTS:
    faults.append(f"Koine and ONNX Runtime are {abs(own - other).max():.3g} apart on the trained file")
  with torch.no_grad():
    inputs = torch.from_numpy(part)
    wide = far.eval()(inputs.double() if inputs.is_floating_point() else inputs).numpy()
    narrow = near.eval()(inputs).numpy()
  faults += apart("what the trained file gives", other, wide, narrow)
  # The file as it was exported, and written anew, on other numbers of samples, and of places where that is open; not
  # where its batch norms train, which then have no one answer.
  onnx.checker.check_model(str(folder / "model.out.onnx"), full_check=True)
  for samples, shorter in ((5, 2), (3, -4)) if exporter != "script" or not network.folds else ():
    other_x = network.data(numpy.random.default_rng(4), samples, shorter if network.open_length else 0)[0]
    numpy.save(folder / "part.npy", other_x)
    run(koine, "convert", folder / "model.onnx", folder / "same.onnx", "--overwrite")
    run(koine, "infer", folder / "model.onnx", "--input", folder / "part.npy", "--output", folder / "koine.npy",
        "--quiet", "--overwrite")
    onnx.checker.check_model(str(folder / "same.onnx"), full_check=True)
    first, again = runtime(folder / "model.onnx", other_x), runtime(folder / "same.onnx", other_x)
    for what, found_y in (("Koine", numpy.load(folder / "koine.npy")), ("the converted file", again)):
      furthest[what] = max(furthest.get(what, 0), float(abs(first - found_y).max()))
  faults += [f"{what} is {much:.3g} from the exported file" for what, much in furthest.items() if not much <= OUTPUTS]
  print(f"{network.name} {exporter}: {'; '.join(faults) or 'as PyTorch'} "
        f"(last loss {found[-1]:.6f}, PyTorch {double[-1]:.6f}; furthest loss {furthest_of(found, double):.2g}, of "
        f"PyTorch's float32 {astray:.2g}; {compared} weights compared; before the training "
        f"{', '.join(f'{what} {much:.2g}' for what, much in furthest.items()) or 'nothing'} apart)", flush=True)
  return not faults


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("koine", type=pathlib.Path, help="the command")
  parser.add_argument("folder", type=pathlib.Path, help="where files are written")
  parser.add_argument("--networks", help="names with commas between them (all)")
  parser.add_argument("--exporters", default="script,folded,dynamo")
  given = parser.parse_args()
  torch.set_num_threads(1)
  names = given.networks.split(",") if given.networks else None
  good = True
  for network in compare_networks.NETWORKS + compare_models.MODELS:
    if names and network.name not in names:
      continue
    for exporter in given.exporters.split(","):
      if exporter != "folded" or network.folds:
        good = compare(given.koine, given.folder, network, exporter) and good
  sys.exit(0 if good else 1)


if __name__ == "__main__":
  main()
