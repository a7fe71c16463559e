"""How the inputs of the operator cases are made, and how a case is computed."""

from dataclasses import dataclass

import numpy
import torch

import random_stream

SEED = 1
MARGIN = 1.0 / 256  # the least distance from kinks and ties: central differences must not cross one


@dataclass
class Input:
  name: str
  dtype: str
  shape: tuple
  rule: str  # "uniform", "below" or "values"
  argument: object  # [low, high], the bound, or the elements

  def array(self, prefix):
    """float64 or int64, row-major; all floats are exact in float32"""
    count = int(numpy.prod(self.shape, dtype=numpy.int64))
    stream = random_stream.key(SEED, f"{prefix}.{self.name}")
    if self.rule == "uniform":
      flat = scale(random_stream.uniform(stream, 0, count), *self.argument)
    elif self.rule == "below":
      flat = random_stream.below(stream, 0, count, self.argument)
    else:
      flat = numpy.array(self.argument, dtype=numpy.float64)
    if self.dtype in ("float32", "bool"):
      flat = flat.astype(numpy.float64)
    return flat.reshape(self.shape)

  def describe(self, prefix):
    """The exact sum lets a reader check its own copy of the rule."""
    out = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), self.rule: self.argument}
    out["sum"] = float(self.array(prefix).sum())
    return out


def scale(u, low, high):
  """(float)(low + (high - low) * u), computed in double"""
  wide = numpy.float64(low) + (numpy.float64(high) - numpy.float64(low)) * u.astype(numpy.float64)
  return wide.astype(numpy.float32).astype(numpy.float64)


def uniform(name, shape, low, high):
  return Input(name, "float32", shape, "uniform", [low, high])


def below(name, shape, bound, dtype="int32"):
  return Input(name, dtype, shape, "below", bound)


def values(name, shape, elements, dtype="float32"):
  return Input(name, dtype, shape, "values", elements)


def distributions(name, rows, columns):
  """Rows of multiples of 1/64 that add up to 1 exactly; one class may have none of it."""
  draws = random_stream.below(random_stream.key(SEED, name), 0, rows * 64, columns).reshape(rows, 64)
  counts = [numpy.bincount(row, minlength=columns) for row in draws]
  return values(name, (rows, columns), [float(count) / 64 for row in counts for count in row])


def tensors_of(entry, prefix):
  tensors = []
  for source in entry["inputs"]:
    tensor = torch.from_numpy(source.array(prefix))
    tensors.append(tensor.bool() if source.dtype == "bool" else tensor)
  return tensors


def keeps_margins(entry, tensors):
  """False if an element of the first input, or a difference that decides, is too near a kink."""
  for point in entry["avoid"]:
    if (tensors[0] - point).abs().min() < MARGIN:
      return False
  return entry["gap"] is None or bool(entry["gap"](*tensors).abs().min() >= MARGIN)


def choose_inputs(entry):
  """The first of the streams NAME, NAME.1, NAME.2 … whose inputs keep clear of kinks and ties."""
  for attempt in range(100):
    prefix = entry["name"] if attempt == 0 else f"{entry['name']}.{attempt}"
    tensors = tensors_of(entry, prefix)
    if keeps_margins(entry, tensors):
      return prefix, tensors
  raise SystemExit(f"operators: no stream keeps the inputs of {entry['name']} clear of kinks and ties")


def flat_list(tensor):
  numbers = tensor.detach().reshape(-1).tolist()
  return [float(number) for number in numbers]


def compute(entry):
  """One case of the golden file."""
  name = entry["name"]
  prefix, tensors = choose_inputs(entry)
  by = entry["by"]
  if by is None:
    by = [source.name for source in entry["inputs"] if source.dtype == "float32"]
  for source, tensor in zip(entry["inputs"], tensors):
    tensor.requires_grad_(source.name in by)
  results = entry["function"](*tensors)
  results = results if isinstance(results, tuple) else (results,)
  out = {
    "name": name,
    "operator": entry["operator"],
    "stream": prefix,
    "attributes": entry["attributes"],
    "inputs": [source.describe(prefix) for source in entry["inputs"]],
    "outputs": [
      {"name": label, "shape": list(result.shape), "values": flat_list(result)}
      for label, result in zip(entry["outputs"], results)
    ],
    "gradients": [],
  }
  if by:
    stream = random_stream.key(SEED, f"{prefix}.{entry['outputs'][0]}.gradient")
    output_gradient = scale(random_stream.uniform(stream, 0, results[0].numel()), -1, 1)
    results[0].backward(torch.from_numpy(output_gradient).reshape(results[0].shape))
    for source, tensor in zip(entry["inputs"], tensors):
      if source.name in by:
        out["gradients"].append({"input": source.name, "values": flat_list(tensor.grad)})
  for part in out["outputs"] + out["gradients"]:
    if not numpy.isfinite(part["values"]).all():
      raise SystemExit(f"operators: {name} gives a number that is not finite")
  return out
