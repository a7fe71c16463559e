#!/usr/bin/env python3
"""Makes the golden files of tests/golden with PyTorch. See README.md in this folder."""

import argparse
import json
import pathlib
import sys

import torch

import layers  # noqa: F401  (its cases join those of operators)
import shapes  # noqa: F401  (so do these)
import operators
import precision
import random_stream
import trajectories

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
# float64 results on another machine or with another PyTorch differ by the order of additions only.
TOLERANCE = 1e-10


def makers():
  """file name -> function that makes its contents"""
  out = {"random.json": random_stream.golden, "operators.json": operators.golden}
  for file in precision.FILES:
    out[file + ".json"] = lambda file=file: precision.golden(file)
  for case in trajectories.CASES:
    out[case.name + ".json"] = lambda case=case: trajectories.golden(case)
  return out


def write(value, indent=0):
  """JSON in which each value that fits, and each list of numbers, is on one line."""
  plain = json.dumps(value, allow_nan=False)
  numbers = isinstance(value, list) and all(isinstance(item, (int, float)) for item in value)
  if len(plain) + indent <= 110 or numbers or not isinstance(value, (dict, list)):
    return plain
  inner = " " * (indent + 1)
  if isinstance(value, dict):
    parts = [f"{inner}{json.dumps(key)}: {write(item, indent + 1)}" for key, item in value.items()]
    return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
  parts = [inner + write(item, indent + 1) for item in value]
  return "[\n" + ",\n".join(parts) + "\n" + " " * indent + "]"


def same(path, old, new, problems):
  """Compares two contents; what depends on float32 arithmetic or on the version may differ."""
  if "float32" in path.rsplit(".", 1)[-1] or "float32_distance" in path or path.endswith(".torch"):
    return
  if isinstance(old, dict) and isinstance(new, dict) and list(old) == list(new):
    for key in old:
      same(f"{path}.{key}", old[key], new[key], problems)
  elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
    for position, (left, right) in enumerate(zip(old, new)):
      same(f"{path}[{position}]", left, right, problems)
  elif isinstance(old, float) and isinstance(new, float):
    if not abs(old - new) <= TOLERANCE * max(1.0, abs(old)):
      problems.append(f"{path}: {old!r} in the file, {new!r} made now")
  elif old != new or type(old) is not type(new):
    problems.append(f"{path}: differs")


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("names", nargs="*", help="files to make, such as mlp_sgd.json; default: all")
  parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
  options = parser.parse_args()
  torch.set_num_threads(1)
  random_stream.self_test()
  table = makers()
  unknown = [name for name in options.names if name not in table]
  if unknown:
    parser.error(f"no such file: {unknown[0]}; there are {', '.join(table)}")

  problems = []
  FOLDER.mkdir(parents=True, exist_ok=True)
  for name in options.names or table:
    contents = table[name]()
    path = FOLDER / name
    if options.check:
      before = len(problems)
      # Through text, so that both sides have the same types.
      same(name, json.loads(path.read_text()), json.loads(write(contents)), problems)
      print(f"{name}: {'as committed' if len(problems) == before else 'DIFFERS'}")
    else:
      path.write_text(write(contents) + "\n")
      print(f"{name}: {path.stat().st_size} bytes")
  for problem in problems[:20]:
    print(problem, file=sys.stderr)
  return 1 if problems else 0


if __name__ == "__main__":
  sys.exit(main())
