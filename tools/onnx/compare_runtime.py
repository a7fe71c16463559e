#!/usr/bin/env python3
"""Holds ONNX Runtime's own operators, as Koine computes them, against ONNX Runtime.

usage: compare_runtime.py KOINE_ONNX_TEST [--folder FOLDER] [--filter REGEX] [ARGUMENT OF KOINE_ONNX_TEST...]

Each case of runtime_cases.py is a small model. ONNX Runtime computes it without optimizing it; where it has no such
kernel for processors, the case computes with NumPy. Quantized results may differ by one step where the exact number is
a tie, in at most one element of fifty; others by 1e-4 of the largest element. Exits with 77 where onnx or onnxruntime
is missing. See README.md in this folder.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

SKIP = 77  # what meson takes for "skipped"
try:
  import numpy
  import onnx
  import onnxruntime
  from onnx import TensorProto, numpy_helper
except ImportError as missing:
  print(f"{missing.name} is missing: tools/onnx/README.md says what to install")
  sys.exit(SKIP)

import runtime_cases  # noqa: E402

NEAR, STEPS = 1e-4, 0.02


def write(folder, model, case, outputs):
  data = folder / "test_data_set_0"
  data.mkdir(parents=True, exist_ok=True)
  (folder / "model.onnx").write_bytes(model.SerializeToString())
  for word, arrays in (("input", case.given.values()), ("output", outputs)):
    for number, array in enumerate(arrays):
      (data / f"{word}_{number}.pb").write_bytes(numpy_helper.from_array(numpy.asarray(array)).SerializeToString())


def apart(found, wanted):
  """What is wrong with a result; None where nothing is."""
  if found.dtype != wanted.dtype or found.shape != wanted.shape:
    return f"is {found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}"
  if not wanted.size:
    return None
  distance = numpy.abs(found.astype(numpy.float64) - wanted.astype(numpy.float64))
  if wanted.dtype.itemsize == 1 and wanted.dtype != bool:
    steps = numpy.count_nonzero(distance)
    return None if distance.max() <= 1 and steps <= max(1, STEPS * wanted.size) else \
        f"{steps} of {wanted.size} elements differ, by up to {distance.max():g} steps"
  allowed = NEAR * max(1e-3, float(numpy.abs(wanted).max())) if wanted.dtype.kind == "f" else 0
  allowed *= 10 if wanted.dtype == numpy.float16 else 1
  worst = distance.max()
  return None if worst <= allowed else f"differs by up to {worst:g}, {allowed:g} is allowed"


def verdict_of(name, folder, outputs, reasons):
  for number, wanted in enumerate(outputs):
    path = folder / "out" / name / "test_data_set_0" / f"output_{number}.pb"
    if not path.is_file():
      return reasons.get(name, "nothing was computed")
    wrong = apart(numpy_helper.to_array(TensorProto.FromString(path.read_bytes())), wanted)
    if wrong:
      return f"output {number} {wrong}"
  return None


def compare(program, folder, wanted, arguments):
  """The number of cases that are not right, and of all."""
  made = {}
  for case in runtime_cases.all_cases():
    if re.search(wanted, case.name):
      model = case.model()
      try:
        made[case.name] = case.reference()
      except Exception as failure:  # the runtime's own, of many types
        sys.exit(f"{case.name}: {failure}")
      write(folder / "cases" / case.name, model, case, made[case.name])
  table = folder / "table.tsv"
  done = subprocess.run([program, "--quiet", "--table", str(table), "--outputs", str(folder / "out"), *arguments,
                         str(folder / "cases")], check=False, capture_output=True, text=True)
  if not table.is_file():
    sys.exit(done.stdout + done.stderr)
  lines = [line.split("\t", 2) for line in table.read_text(encoding="utf-8").splitlines()]
  reasons = {name: f"{verdict}: {reason}" for name, verdict, reason in lines}
  wrong = 0
  for name, outputs in made.items():
    verdict = verdict_of(name, folder, outputs, reasons)
    if verdict:
      wrong += 1
      print(f"{name}: {verdict}")
  return wrong, len(made)


def take(arguments, option, usual):
  """Removes an option with its value from the arguments; returns the value."""
  if option not in arguments:
    return usual
  at = arguments.index(option)
  value = arguments[at + 1]
  del arguments[at:at + 2]
  return value


def main():
  arguments = sys.argv[1:]
  folder, wanted = take(arguments, "--folder", None), take(arguments, "--filter", "")
  if not arguments or arguments[0] == "--help":
    sys.exit(__doc__)
  with tempfile.TemporaryDirectory() as place:
    wrong, count = compare(arguments[0], pathlib.Path(folder or place), wanted, arguments[1:])
  print(f"{count - wrong} passed, {wrong} failed (ONNX Runtime {onnxruntime.__version__}, onnx {onnx.__version__})")
  sys.exit(1 if wrong or not count else 0)


if __name__ == "__main__":
  main()
