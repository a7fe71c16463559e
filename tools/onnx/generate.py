#!/usr/bin/env python3
"""Writes the backend tests of the onnx package as files. See README.md in this folder."""

import argparse
import hashlib
import pathlib
import re
import shutil
import sys
import warnings

import numpy
import onnx
import onnx.reference
from onnx import ModelProto, OptionalProto, SequenceProto, TensorProto, numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests

VERSIONS = {"onnx": "1.23.2", "numpy": "2.4.6"}
MANIFEST = pathlib.Path(__file__).resolve().parents[2] / "tests" / "onnx" / "manifest.tsv"
KINDS = {"node": 1884, "pytorch-converted": 82, "pytorch-operator": 35, "real": 9, "simple": 23}


def serialized(message):
  return message.SerializeToString(deterministic=True)


def value_bytes(value, info):
  """A value as the package's own runner would write it: the kind of message follows the type of `info`."""
  if isinstance(value, (TensorProto, SequenceProto, OptionalProto)):
    return serialized(value)
  kind = info.type.WhichOneof("value")
  make = {"tensor_type": numpy_helper.from_array, "sequence_type": numpy_helper.from_list,
          "optional_type": numpy_helper.from_optional, "map_type": numpy_helper.from_dict}[kind]
  return serialized(make(numpy.asarray(value) if kind == "tensor_type" else value, info.name))


def made_case(case):
  """path -> bytes of a test that exists in memory only"""
  files = {"model.onnx": serialized(case.model)}
  for index, (inputs, outputs) in enumerate(case.data_sets):
    for word, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
      for number, value in enumerate(values):
        files[f"test_data_set_{index}/{word}_{number}.pb"] = value_bytes(value, infos[number])
  return files


def kept_case(case):
  """path -> bytes of a test that the package holds as files"""
  root = pathlib.Path(case.model_dir)
  return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*"))
          if path.suffix in (".onnx", ".pb")}


def real_case(case):
  """path -> bytes of a network whose one input is counted up from 0 to 1, as the package's runner does it"""
  path = pathlib.Path(DATA_DIR) / "light" / pathlib.Path(case.url).name
  files = {"model.onnx": path.read_bytes()}
  graph = onnx.load_from_string(files["model.onnx"]).graph
  given = {tensor.name for tensor in graph.initializer}
  inputs = [info for info in graph.input if info.name not in given]
  for number, info in enumerate(inputs):
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else 1 for dim in info.type.tensor_type.shape.dim)
    count = numpy.prod(shape)
    value = (numpy.arange(count).reshape(shape) / count).astype(numpy.float32)
    files[f"test_data_set_0/input_{number}.pb"] = value_bytes(value, info)
  for number in range(len(graph.output)):
    files[f"test_data_set_0/output_{number}.pb"] = path.with_name(f"{path.stem}_output_{number}.pb").read_bytes()
  return files


def cases(kinds):
  """(kind, name, function that makes the files), in the order of the manifest"""
  for kind in sorted(kinds):
    with warnings.catch_warnings():
      warnings.simplefilter("ignore")  # numpy's, about the special values that the tests are made for
      found = sorted(load_model_tests(kind=kind), key=lambda case: case.name)
    if len(found) != KINDS[kind]:
      sys.exit(f"generate.py: onnx has {len(found)} tests of the kind {kind}, {KINDS[kind]} are expected")
    make = made_case if kind == "node" else real_case if kind == "real" else kept_case
    for case in found:
      yield kind, case.name, lambda case=case: make(case)


def shown(number, data):
  """What of a file the manifest holds. Of an expected output its type and shape: its last bits follow the processor."""
  if "/output_" not in number:
    return data
  tensor = TensorProto()
  try:
    tensor.ParseFromString(data)
    return repr((tensor.data_type, list(tensor.dims))).encode()
  except Exception:  # a sequence or an optional
    return b"output"


def digest(files):
  out = hashlib.sha256()
  for name in sorted(files):
    part = shown(name, files[name])
    out.update(f"{name}\0{len(part)}\0".encode() + part)
  return out.hexdigest()[:16]


def write(folder, files):
  shutil.rmtree(folder, ignore_errors=True)
  for name, data in files.items():
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def read_manifest():
  lines = MANIFEST.read_text(encoding="utf-8").splitlines() if MANIFEST.is_file() else []
  return {tuple(line.split("\t")[:2]): line.split("\t")[2] for line in lines if line and not line.startswith("#")}


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder", type=pathlib.Path, help="where the tests go: FOLDER/KIND/NAME/model.onnx and data sets")
  parser.add_argument("--filter", default="", help="a regular expression: only tests whose KIND/NAME it is found in")
  parser.add_argument("--every", type=int, default=1, help="only each N-th line of the manifest")
  parser.add_argument("--write-manifest", action="store_true", help="write the hashes to tests/onnx/manifest.tsv")
  options = parser.parse_args()
  for module in (onnx, numpy):
    if module.__version__ != VERSIONS[module.__name__]:
      sys.exit(f"generate.py: {module.__name__} is {module.__version__}, the tests are made with "
               f"{VERSIONS[module.__name__]}: pip install -r tools/onnx/requirements.txt")
  manifest, made, differing = read_manifest(), {}, []
  for position, (kind, name, make) in enumerate(cases(KINDS)):
    if position % options.every or not re.search(options.filter, f"{kind}/{name}"):
      continue
    files = make()
    onnx.load_from_string(files["model.onnx"])
    made[kind, name] = digest(files)
    if manifest.get((kind, name)) != made[kind, name]:
      differing.append(f"{kind}/{name}")
    write(options.folder / kind / name, files)
  if options.write_manifest:
    head = f"# kind, name, hash of the backend tests of onnx {VERSIONS['onnx']}; made by tools/onnx/generate.py\n"
    MANIFEST.write_text(head + "".join(f"{kind}\t{name}\t{value}\n" for (kind, name), value in made.items()),
                        encoding="utf-8")
  elif differing:
    print("\n".join(differing[:20]))
    sys.exit(f"generate.py: {len(differing)} of {len(made)} tests are not those of tests/onnx/manifest.tsv")
  print(f"{len(made)} tests in {options.folder}")


if __name__ == "__main__":
  main()
