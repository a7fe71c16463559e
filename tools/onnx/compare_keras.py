#!/usr/bin/env python3
"""Exports Keras models by tf2onnx and holds what Koine makes of the files against ONNX Runtime.

Needs numpy, tensorflow, tf2onnx, onnx and onnxruntime, in a separate environment. See README.md in this folder.
"""

import argparse
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras  # noqa: E402
import numpy  # noqa: E402
import onnxruntime  # noqa: E402
import tensorflow  # noqa: E402
import tf2onnx  # noqa: E402
from keras import layers  # noqa: E402

OUTPUTS = 1e-4


def pictures():
  """Channels last, paddings of either side, depthwise convolutions, a dense head."""
  return keras.Sequential([
      keras.Input((24, 24, 3)), layers.Conv2D(8, 3, 2, "same", use_bias=False), layers.BatchNormalization(),
      layers.ReLU(), layers.DepthwiseConv2D(3, padding="same"), layers.Conv2D(12, 1), layers.LeakyReLU(),
      layers.MaxPooling2D(), layers.Conv2DTranspose(6, 3, 2, "same"), layers.AveragePooling2D(2, padding="same"),
      layers.Flatten(), layers.Dropout(0.2), layers.Dense(16, "swish"), layers.Dense(5, "softmax")])


def sequences():
  """Tokens, a bidirectional recurrence, and one that returns its last state."""
  return keras.Sequential([
      keras.Input((12,), dtype="int32"), layers.Embedding(20, 8),
      layers.Bidirectional(layers.LSTM(6, return_sequences=True)),
      layers.LayerNormalization(), layers.GRU(7), layers.Dense(5)])


MODELS = {"pictures": (pictures, (24, 24, 3), 0), "sequences": (sequences, (12,), 20)}


def runtime(path, x):
  session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
  return session.run(None, {session.get_inputs()[0].name: x})[0]


def run(*words):
  done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
  if done.returncode:
    raise SystemExit(f"{' '.join(str(word) for word in words)}\n{done.stdout}{done.stderr}")


def compare(koine, folder, name):
  make, shape, tokens = MODELS[name]
  keras.utils.set_random_seed(5)
  model, random = make(), numpy.random.default_rng(3)
  shape = (3,) + shape
  x = random.integers(0, tokens, shape).astype(numpy.int32) if tokens else random.random(shape, numpy.float32)
  model(x, training=True)  # moves running statistics from where they begin
  folder = folder / f"keras-{name}"
  folder.mkdir(parents=True, exist_ok=True)
  signature = [tensorflow.TensorSpec((None,) + shape[1:], x.dtype, name="images")]
  function = tensorflow.function(lambda images: model(images, training=False))
  tf2onnx.convert.from_function(function, signature, opset=18, output_path=str(folder / "model.onnx"))
  numpy.save(folder / "x.npy", x)
  run(koine, "infer", folder / "model.onnx", "--input", folder / "x.npy", "--output", folder / "y.npy", "--quiet", "--overwrite")
  run(koine, "convert", folder / "model.onnx", folder / "same.onnx", "--overwrite")
  wanted = model(x, training=False).numpy()
  apart = {"ONNX Runtime": runtime(folder / "model.onnx", x), "Koine": numpy.load(folder / "y.npy"),
           "the converted file": runtime(folder / "same.onnx", x)}
  apart = {who: float(abs(found - wanted).max()) for who, found in apart.items()}
  print(f"{name}: furthest from Keras: " + ", ".join(f"{who} {much:.2g}" for who, much in apart.items()), flush=True)
  return max(apart.values()) <= OUTPUTS


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("koine", type=pathlib.Path, help="the command")
  parser.add_argument("folder", type=pathlib.Path, help="where files are written")
  given = parser.parse_args()
  sys.exit(0 if all([compare(given.koine, given.folder, name) for name in MODELS]) else 1)


if __name__ == "__main__":
  main()
