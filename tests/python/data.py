"""Datasets, loaders and files.

usage: data.py HOUSE_FOLDER
"""
import os
import tempfile

from package import case, expect, expect_equal, raises, run

os.chdir(tempfile.mkdtemp(prefix="koine-python-"))

import numpy as np  # noqa: E402

import koine  # noqa: E402

RANDOM = np.random.default_rng(3)


@case
def sources_are_listed_and_opened():
    usage = [usage for usage, about in koine.data_sources() if about]
    expect(any(word.startswith("csv:") for word in usage) and len(usage) > 8)
    digits = koine.load_dataset("digits", max_samples=300)
    expect_equal((len(digits), digits.classes, digits.class_names[:2], len(digits.test)), (300, 10, ["0", "1"], 300))
    expect_equal(digits.read("y", [3, 1]).tolist(), [digits[3]["y"], digits[1]["y"]])
    expect("300" in digits._repr_html_() and "digits" in repr(digits))
    with raises(koine.NotFoundError, "there is no field 'z'"):
        digits.read("z")
    with raises(koine.KoineError, "digit"):
        len(koine.load_dataset("digitss"))
    with raises(TypeError, "'max_sample'; did you mean 'max_samples'?"):
        koine.load_dataset("digits", max_sample=3)
    with raises(IndexError):
        digits[300]


@case
def arrays_become_datasets_of_their_types():
    for kind in ("float32", "float64", "int64", "int32", "uint8", "bool", "float16"):
        array = (RANDOM.random((20, 3)) * 2).astype(kind)
        found = koine.Dataset.from_arrays(x=array, y=np.arange(20) % 4)
        wanted = array.astype(np.float32) / (255 if kind == "uint8" else 1)
        expect(np.allclose(found.read("x"), wanted), kind)
        expect_equal((found.classes, found.fields["y"].dtype, found.fields["x"].dtype), (4, "int32", "float32"))
    strange = koine.Dataset.from_arrays(x=np.asfortranarray(RANDOM.random((20, 3))), y=RANDOM.random(20))
    expect_equal((strange.classes, strange.fields["y"].dtype), (0, "float32"))


@case
def datasets_are_split_and_measured():
    x, y = RANDOM.random((100, 2, 3), np.float32), np.arange(100) % 3
    whole = koine.Dataset.from_arrays(x=x, y=y)
    rest, part = whole.split(0.2)
    expect_equal((len(rest), len(part)), (80, 20))
    means, deviations = whole.statistics()
    expect(np.allclose(means, x.mean((0, 2)), atol=1e-5) and np.allclose(deviations, x.std((0, 2)), atol=1e-4))
    expect(abs(whole.variance("x") - x.var(0).mean()) < 1e-5)
    expect(np.allclose(whole.class_weights(), 100 / (3 * np.bincount(y)), atol=1e-5))
    whole.close()
    expect_equal(rest.read("x").shape, (80, 2, 3))  # parts live on


@case
def loaders_give_batches():
    x, y = np.arange(50, dtype=np.float32).reshape(50, 1), np.arange(50) % 2
    loader = koine.Dataset.from_arrays(x=x, y=y).loader(batch_size=8, no_shuffle=True)
    batches = list(loader)
    expect_equal((len(loader), len(batches), batches[-1].count), (7, 7, 2))
    expect_equal(batches[1].feeds["x"][:, 0].tolist(), list(range(8, 16)))
    expect_equal(batches[1].samples.tolist(), list(range(8, 16)))
    loader.seek(1, 6)
    expect_equal([batch.count for batch in loader], [2])
    flipped = koine.load_dataset("digits", max_samples=64).loader(batch_size=64, augment="flip,crop=2")
    expect_equal(next(iter(flipped)).feeds["x"].shape, (64, 1, 28, 28))
    expect(koine.debug.keeps_bytes("flip,crop=2") and not koine.debug.keeps_bytes("noise=0.1"))
    mixed = next(iter(koine.load_dataset("digits", max_samples=64).loader(batch_size=64, augment="mix-up=0.2")))
    expect_equal(sorted(mixed.feeds), ["x", "y", "y.other", "y.share"])
    as_bytes = next(iter(koine.load_dataset("digits", max_samples=64).loader(batch_size=64, bytes=True)))
    expect_equal((as_bytes.feeds["x"].dtype, as_bytes.scales["x"] > 0), (np.dtype("uint8"), True))
    with raises(koine.ArgumentError, "flipp"):
        koine.load_dataset("digits").loader(augment="flipp")


@case
def text_is_encoded():
    open("a.txt", "w").write("abcabc" * 100)
    data = koine.load_dataset("text:a.txt,length=8")
    expect_equal(data.vocabulary, "abc")
    expect_equal(koine.io.encode(data.vocabulary, "cab").tolist(), [2, 0, 1])


@case
def arrays_go_to_files_and_back():
    for kind in ("float32", "float64", "int64", "uint8", "bool", "float16"):
        array = (RANDOM.random((3, 4)) * 2).astype(kind)
        koine.io.save_npy("a.npy", array)
        expect((koine.io.load_npy("a.npy") == array).all() and (np.load("a.npy") == array).all(), kind)
        koine.io.save_safetensors("a.safetensors", a=array, b=np.asfortranarray(array))
        expect(all((found == array).all() and found.dtype == array.dtype for found in koine.io.load_safetensors("a.safetensors").values()), kind)
        koine.io.save_onnx_tensor("a.pb", array, "a")
        name, found = koine.io.load_onnx_tensor("a.pb")
        expect(name == "a" and (found == array).all(), kind)
    for load in (koine.io.load_npy, koine.io.load_safetensors, koine.io.load_onnx_tensor):
        with raises(koine.KoineError, "nothing.here"):
            load("nothing.here")
        with raises(OSError):
            load("nothing.here")


@case
def onnx_files_tell_their_inputs():
    koine.Model("koine 1\ninput x 3\nlogits = linear 2\n").to_onnx("a.onnx")
    inputs, outputs = koine.io.onnx_signature("a.onnx")
    expect_equal((list(inputs.values()), list(outputs)), (["float32"], ["logits"]))
    about = koine.io.onnx_description("a.onnx")
    with open("a.onnx", "rb") as file:
        expect_equal(koine.io.onnx_description(bytearray(file.read())), about)
    expect_equal((about["inputs"], about["producer"]), ({"x": ("float32", ("batch", 3))}, "koine"))
    expect(isinstance(about["metadata"], dict) and about["version"] == 0, str(about))
    def field(number, content):
        return bytes([8 * number + 2, len(content)]) + content

    floats = field(4, field(1, field(1, b"\x08\x01")))  # a sequence of tensors of float32
    given = field(1, b"list") + field(2, floats)
    about = koine.io.onnx_description(bytearray(field(7, field(11, given) + field(12, given)) + field(8, b"\x10\x15")))
    expect_equal((about["inputs"], about["outputs"]), ({"list": ("a sequence of float32", None)},) * 2)
    with raises(ValueError):
        koine.io.onnx_description(memoryview(b"no model"))


@case
def events_are_written():
    with koine.io.Events("runs") as events:
        events.scalar("loss", 1, 0.5)
        events.histogram("weights", 1, RANDOM.random(100))
        events.image("image", 1, np.zeros((4, 5, 3), np.uint8))
        expect(os.path.getsize(events.path) > 200)


@case
def states_without_a_device_hold_weights():
    states = koine.States.on_host()
    states["w"] = np.ones((2, 3), np.float32)
    expect_equal((list(states), states.shape("w"), states["w"].sum()), (["w"], (2, 3), 6.0))


@case
def kernels_are_tuned():
    context = koine.Context("cpu", cache_folder="tuned")
    tuner = koine.debug.Tuner(context)
    graph = koine.Graph()
    session = koine.Session(graph.input("x", "batch,32").linear(16), context, switches="tuning=noted")
    session.run(x=np.zeros((4, 32)))
    shapes = tuner.shapes()
    expect(shapes and all(shape.candidates > 1 for shape in shapes))
    with raises(koine.CancelledError):
        tuner.run(0, seconds=1e-9)
    expect_equal(tuner.entries(), [])
    tuner.export("choices.txt")
    expect_equal(tuner.load("choices.txt").imported, 0)


run()
