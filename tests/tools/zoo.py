"""koine train: every model that has a name, for a few steps on data that fits it; then as an ONNX file and back.

usage: zoo.py KOINE HOUSE_TESTS small|large [PART PARTS]
"""
import json
import math
import os
import re
import struct
import sys

from koine import add, bytes_of, case, expect, koine, numbers_of, read_npy, run_cases, write, write_npy

# name: data, batch size, and whether it is in the quick suite: cheap, or trained in no other test
MODELS = {
    "alexnet": ("shapes", 2, False),
    "alexnet2012": ("shapes", 2, False),
    "autoencoder": ("digits", 4, False),
    "char-gru": ("text", 2, False),
    "char-rnn": ("text", 2, False),
    "cifar-cnn": ("shapes", 4, False),
    "elman": ("text", 2, True),
    "gpt": ("text", 2, False),
    "keyword": ("tones", 4, True),
    "lenet": ("digits", 4, False),
    "linear": ("digits", 4, True),
    "lstm": ("text", 2, False),
    "mlp": ("digits", 4, False),
    "mobilenetv2": ("shapes", 2, False),
    "resnet18": ("shapes", 2, False),
    "resnet18c": ("shapes", 2, False),
    "resnet50": ("shapes", 2, False),
    "squeezenet": ("shapes", 2, False),
    "table": ("csv:rows.csv,target=sum", 4, False),
    "table-classes": ("csv:rows.csv,target=sign", 4, False),
    "unet": ("figures", 1, False),
    "vgg11": ("shapes", 1, False),
    "vgg11c": ("shapes", 2, False),
    "vit-tiny": ("shapes", 2, False),
    "wind": ("wind", 4, True),
}
SMALL = sys.argv[3] == "small"


@case
def all_are_here(folder):
    listed = [line.split()[0] for line in koine("models", folder=folder).needs(0).out.splitlines()]
    expect(sorted(listed) == sorted(MODELS), f"koine models lists {listed}, and this table has {sorted(MODELS)}")


@case
def data_that_does_not_fit(folder):
    koine("train", "lenet", "--data", "shapes", folder=folder).needs(
        1, out="", err=("(batch,3,32,32) in the data", "(batch,1,28,28)", "enlarged, never reduced; --set channels=3,size=32 adapts"))
    koine("train", "lenet,classes=3", "--data", "digits:test", folder=folder).needs(
        1, out="", err="its last layer should have 10 outputs, as --set classes=10 sets it")
    koine("train", "unet", "--data", "shapes", folder=folder).needs(
        1, out="", err=("the data 'shapes' does not match the model 'unet'", "`figures`"))
    koine("train", "gpt", "--data", "digits", folder=folder).needs(1, out="", err="text:FILE")


def weights_of(path):
    """The text of the model, and {name: bytes} without what continues a training."""
    data = bytes_of(path)
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    about = json.loads(data[8:begin])
    text = about.pop("__metadata__", {}).get("koine.model", "")
    return text, {name: data[begin + row["data_offsets"][0]:begin + row["data_offsets"][1]]
                  for name, row in about.items() if not name.startswith("koine.training.")}


def write_input(path, text, samples=2):
    """Numbers for the line `input x SHAPE [int32]` of a text."""
    lines = [line.split() for line in text.splitlines()]
    settings = {words[1]: int(words[2]) for words in lines if words[:1] == ["set"]}
    words = next(words for words in lines if words[:2] == ["input", "x"])
    shape = (samples,) + tuple(settings.get(size) or int(size) for size in re.split("[x,]", words[2]))
    numbers = numbers_of(math.prod(shape))
    if words[-1] == "int32":
        write_npy(path, "<i4", shape, [int(4 * number + 4) for number in numbers])
    else:
        write_npy(path, "<f4", shape, numbers)


def there_and_back(folder):
    """model.safetensors as an ONNX file: the same results, and from there the same weights."""
    def run(*words):
        koine(*words, "--quiet", folder=folder).needs(0)

    text, before = weights_of(os.path.join(folder, "model.safetensors"))
    run("convert", "model.safetensors", "model.onnx")
    run("convert", "model.onnx", "back.safetensors")
    after = weights_of(os.path.join(folder, "back.safetensors"))[1]
    other = [name for name in set(before) | set(after) if before.get(name) != after.get(name)]
    expect(not other, f"there are {sorted(before)}, there were {sorted(after)}; not the same: {sorted(other)}")
    write_input(os.path.join(folder, "x.npy"), text)
    results = []
    for model in ("model.safetensors", "model.onnx"):
        run("infer", model, "--input", "x.npy", "--output", "y.npy", "--overwrite")
        results.append(read_npy(os.path.join(folder, "y.npy")))
    (shape, wanted), (found_shape, found) = results
    most = max(map(abs, wanted))
    apart = max(abs(a - b) for a, b in zip(wanted, found))
    expect(shape == found_shape and apart <= 1e-5 * (1 + most), f"{apart} apart, of {most}: {shape}, {found_shape}")


def trained(name):
    data, batch, _ = MODELS[name]

    def test(folder):
        rows = [(i * 7 % 13 - 6, i * 5 % 11 - 5) for i in range(2000)]
        write(folder, "rows.csv", "a,b,sum,sign\n" + "".join(
            f"{a},{b},{a + b},{'plus' if a + b > 0 else 'minus'}\n" for a, b in rows))
        found = koine("train", name, "--data", data, "--steps", "2", "--batch", str(batch), "--validation", "0.001",
                      "--json", "--quiet", "--save", "model.safetensors", folder=folder).objects()[0]
        expect(found["step"] == 2 and 0 < found["loss"] < 1000 and found["validation_loss"] > 0, f"found {found}")
        there_and_back(folder)

    return test


for model, (_, _, small) in MODELS.items():
    if small == SMALL:
        add(model, trained(model))

run_cases(*sys.argv[4:6])
