"""Networks of Caffe's kinds, computed by Koine and by OpenCV's independent reader of such files.

usage: compare.py KOINE FOLDER [NETWORK...]

Each network (networks.py) is written to FOLDER with made-up weights and computed from the net as text with the weights
in a second file, and from only the file with weights. A line prints the largest difference between Koine's numbers and OpenCV's, relative to the largest number;
beyond 1e-4 the comparison fails.
"""
import pathlib
import subprocess
import sys

import cv2
import numpy

import files
import networks

MOST = 1e-4


def computed(koine, folder, name, *words):
  subprocess.run([koine, "infer", *words, "--input", "x.npy", "--output", f"{name}.npy", "--math", "exact", "--quiet", "--overwrite"],
                 cwd=folder, check=True)
  return numpy.load(folder / f"{name}.npy")


def compare(koine, folder, name):
  net = networks.NETWORKS[name]()
  deploy, weights = f"{name}.prototxt", f"{name}.caffemodel"
  (folder / deploy).write_text(files.text(net.message), encoding="utf-8")
  (folder / weights).write_bytes(files.binary(net.message))
  x = numpy.random.default_rng(7).normal(0, 1, net.shape).astype(numpy.float32)
  numpy.save(folder / "x.npy", x)
  theirs = cv2.dnn.readNetFromCaffe(str(folder / deploy), str(folder / weights))
  theirs.setInput(x)
  wanted = theirs.forward()
  worst = 0
  for found in (computed(koine, folder, "separate", deploy, "--weights", weights), computed(koine, folder, "alone", weights)):
    if found.size != wanted.size:
      raise SystemExit(f"{name}: {found.shape} from Koine, {wanted.shape} from OpenCV")
    worst = max(worst, float(numpy.abs(found.ravel() - wanted.ravel()).max() / numpy.abs(wanted).max()))
  print(f"{name:12} {str(wanted.shape):18} {worst:.2g}", flush=True)
  return worst <= MOST


def main():
  if len(sys.argv) < 3:
    raise SystemExit(__doc__)
  folder = pathlib.Path(sys.argv[2])
  folder.mkdir(parents=True, exist_ok=True)
  koine = str(pathlib.Path(sys.argv[1]).resolve())
  names = sys.argv[3:] or list(networks.NETWORKS)
  return 0 if all([compare(koine, folder, name) for name in names]) else 1


sys.exit(main())
