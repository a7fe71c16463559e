"""Caffe networks with the command: planned, run with weights in a second file and inside, trained and converted.

usage: caffe.py KOINE HOUSE_TESTS
"""
import math
import os
import sys

from koine import case, expect, koine, numbers_of, read_npy, read_safetensors, run_cases, write, write_bytes, write_npy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/caffe"))
import files  # noqa: E402
from files import Word, layer  # noqa: E402

CLASSES, INPUTS = 3, 4
WEIGHT, BIAS = numbers_of(CLASSES * INPUTS * 4, 5), numbers_of(CLASSES, 6)
# The largest of each window of 2 x 2, of 3 rows and columns with a part of a window at their ends; a product; a softmax.
NET = [("name", "tiny"), ("input", "data"), *[("input_dim", size) for size in (8, INPUTS, 3, 3)],
       layer("Pooling", "pool", "data", pooling_param=[("pool", Word("MAX")), ("kernel_size", 2), ("stride", 2)]),
       layer("InnerProduct", "ip/1", "pool", blobs=[((CLASSES, INPUTS * 4), WEIGHT), ((CLASSES,), BIAS)],
             inner_product_param=[("num_output", CLASSES)]),
       layer("Softmax", "prob", "ip/1")]


def stage(folder):
    write(folder, "deploy.prototxt", files.text(NET))
    write_bytes(folder, "net.caffemodel", files.binary(NET))


def logits(sample):
    pooled = [max(sample[c * 9 + row * 3 + column] for row in rows for column in columns)
              for c in range(INPUTS) for rows in ((0, 1), (2,)) for columns in ((0, 1), (2,))]
    return [BIAS[k] + sum(a * b for a, b in zip(pooled, WEIGHT[k * 16:])) for k in range(CLASSES)]


def probabilities(sample):
    powers = [math.exp(number) for number in logits(sample)]
    return [power / sum(powers) for power in powers]


def gives(folder, *words, samples=5):
    size = INPUTS * 9
    x = numbers_of(samples * size)
    write_npy(os.path.join(folder, "x.npy"), "<f4", (samples, INPUTS, 3, 3), x)
    koine("infer", *words, "--input", "x.npy", "--output", "y.npy", "--overwrite", folder=folder).needs(0)
    shape, found = read_npy(os.path.join(folder, "y.npy"))
    expect(shape == (samples, CLASSES), f"{words}: found {shape}")
    wanted = [number for i in range(samples) for number in probabilities(x[i * size:(i + 1) * size])]
    expect(all(abs(a - b) < 1e-5 for a, b in zip(found, wanted)), f"{words}: {found}, expected {wanted}")


@case
def weights_beside_the_net_and_in_it(folder):
    stage(folder)
    gives(folder, "deploy.prototxt", "--weights", "net.caffemodel")
    gives(folder, "net.caffemodel")


@case
def older_layers_and_blobs(folder):
    param = {"Pooling": "POOLING", "InnerProduct": "INNER_PRODUCT", "Softmax": "SOFTMAX"}
    older = [(("layers" if name == "layer" else name),
              [(key, Word(param[value]) if key == "type" else value) for key, value in content] if name == "layer" else content)
             for name, content in NET]
    write(folder, "old.prototxt", files.text(older))
    write_bytes(folder, "old.caffemodel", files.binary(older))
    stage(folder)
    gives(folder, "old.caffemodel")
    gives(folder, "old.prototxt", "--weights", "net.caffemodel")
    gives(folder, "deploy.prototxt", "--weights", "old.caffemodel")


@case
def other_files_are_made(folder):
    stage(folder)
    koine("convert", "deploy.prototxt", "net.safetensors", "--weights", "net.caffemodel", folder=folder).needs(0)
    gives(folder, "net.safetensors")
    koine("convert", "net.caffemodel", "net.onnx", folder=folder).needs(0)
    gives(folder, "net.onnx")
    found = koine("plan", "deploy.prototxt", "--batch", "2", "--json", folder=folder).needs(0).objects()[0]
    expect(found["batch"] == 2, f"{found}")


@case
def learns_from_where_it_was(folder):
    stage(folder)
    samples = 6
    x = numbers_of(samples * INPUTS * 9)
    write_npy(os.path.join(folder, "x.npy"), "<f4", (samples, INPUTS, 3, 3), x)
    write_npy(os.path.join(folder, "y.npy"), "<i4", (samples,), [i % CLASSES for i in range(samples)])
    koine("train", "deploy.prototxt", "--init", "net.caffemodel", "--data", "npy:x.npy,y.npy", "--loss", "cross-entropy",
          "--optimizer", "sgd", "--momentum", "0", "--lr", "0.5", "--schedule", "constant", "--steps", "1", "--batch", str(samples),
          "--save", "new.safetensors", folder=folder).needs(0)
    bias = list(BIAS)
    for i in range(samples):
        for k, share in enumerate(probabilities(x[i * INPUTS * 9:(i + 1) * INPUTS * 9])):
            bias[k] -= 0.5 * (share - (k == i % CLASSES)) / samples
    found = read_safetensors(os.path.join(folder, "new.safetensors"))["ip_1.bias"][2]
    expect(all(abs(a - b) < 1e-5 for a, b in zip(found, bias)), f"found {found}, expected {bias}")


@case
def mistakes(folder):
    stage(folder)
    write(folder, "bad.prototxt", files.text(NET).replace("Softmax", "Interp"))
    koine("plan", "bad.prototxt", folder=folder).needs(1, err="Interp ('prob')")
    koine("infer", "deploy.prototxt", "--input", "x.npy", "--output", "y.npy", "--overwrite", folder=folder).needs(1, err="--weights")
    write(folder, "wide.prototxt", files.text(NET).replace("num_output: 3", "num_output: 4"))
    koine("convert", "wide.prototxt", "w.safetensors", "--weights", "net.caffemodel", folder=folder).needs(
        1, err="layer 'ip/1': blob 0 is (3, 16); expected (4, 16)")


run_cases()
