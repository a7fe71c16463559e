"""ONNX files in Python: open sizes that the inputs decide, inputs that decide what is computed, scalars, names.

usage: onnx_shapes.py HOUSE_FOLDER
"""
import copy
import os
import pickle
import struct
import tempfile

from package import case, expect, expect_equal, raises, run

os.chdir(tempfile.mkdtemp(prefix="koine-python-"))

import numpy as np  # noqa: E402

import koine  # noqa: E402

FLOAT, INT64 = 1, 7


def field(number, value):
    """A field of a message: an integer, or a text, bytes or messages."""
    def varint(rest):
        return bytes([rest & 127 | 128]) + varint(rest >> 7) if rest > 127 else bytes([rest])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def value(number, name, kind=FLOAT, sizes=()):
    """An input (11) or an output (12) of a graph."""
    shape = b"".join(field(1, field(1 if isinstance(size, int) else 2, size)) for size in sizes)
    return field(number, field(1, name) + field(2, field(1, field(1, kind) + field(2, shape))))


def output(name):
    return field(12, field(1, name))


def tensor(name, array):
    array = np.asarray(array)
    kind = FLOAT if array.dtype == np.float32 else INT64
    return field(5, b"".join(field(1, size) for size in array.shape) + field(2, kind) + field(8, name) + field(9, array.tobytes()))


def node(kind, inputs, outputs, **attributes):
    """A node whose attributes are integers, texts, lists of integers, or graphs (bytes)."""
    def attribute(given):
        if isinstance(given, list):
            return b"".join(field(8, number) for number in given) + field(20, 7)
        number, kind = {int: (3, 2), str: (4, 3), bytes: (6, 5)}[type(given)]
        return field(number, given) + field(20, kind)
    return field(1, b"".join(field(1, name) for name in inputs.split()) + b"".join(field(2, name) for name in outputs.split()) +
                 field(4, kind) + b"".join(field(5, field(1, key) + attribute(given)) for key, given in attributes.items()))


def graph(*fields):
    return b"".join(fields) + field(2, "net")


def onnx_file(name, *fields):
    with open(name, "wb") as file:
        file.write(field(1, 10) + field(8, field(1, "") + field(2, 20)) + field(7, graph(*fields)))
    return name


# Every second pixel, plus every fourth, enlarged: sizes that are equal for some heights only.
SCALES = (value(11, "images:0", sizes=("n", 1, "height", "width")), tensor("twice", np.float32([1, 1, 2, 2])),
          node("MaxPool", "images:0", "half", kernel_shape=[1, 1], strides=[2, 2]),
          node("MaxPool", "half", "fourth", kernel_shape=[1, 1], strides=[2, 2]),
          field(1, field(1, "fourth") + field(1, "") + field(1, "twice") + field(2, "large") + field(4, "Resize") +
                b"".join(field(5, field(1, key) + field(4, text) + field(20, 3)) for key, text in
                         (("mode", "nearest"), ("coordinate_transformation_mode", "asymmetric"), ("nearest_mode", "floor")))),
          node("Add", "half large", "sum"))


def scales(x):
    half, fourth = x[:, :, ::2, ::2], x[:, :, ::4, ::4]
    return half + fourth.repeat(2, 2).repeat(2, 3)


def random(*shape):
    return np.random.default_rng(len(shape)).random(shape, np.float32)


@case
def sizes_in_a_row():
    model = koine.Model(onnx_file("scales.onnx", *SCALES, output("sum")))
    expect_equal(model.input_names, ["images:0"])
    expect_equal(model.outputs, [])
    expect_equal(model.open_sizes, ["height", "width"])
    with raises(koine.ShapeError, "Add"):
        model.states
    for shape in ((1, 1, 8, 4), (5, 1, 4, 12), (2, 1, 16, 16), (1, 1, 8, 4), (9, 1, 8, 8), (3, 1, 8, 12), (1, 1, 4, 4)):
        x = random(*shape)
        np.testing.assert_array_equal(model.predict({"images:0": x}), scales(x))
        np.testing.assert_array_equal(model.predict(x, batch_size=2), scales(x))
    expect(len(model._shapes.kept) <= 4, f"{len(model._shapes.kept)} graphs are kept")
    with raises(koine.ShapeError, "Add"):
        model.predict(random(1, 1, 6, 6))
    model.close()


@case
def kept_graphs():
    model = koine.Model(onnx_file("scales.onnx", *SCALES, output("sum")))
    for _ in range(3):
        for size in (4, 8, 16):
            model.predict(random(1, 1, size, size))
    expect_equal(len(model._shapes.kept), 3)
    found = list(model._shapes.kept.values())
    model.predict(random(1, 1, 4, 4))
    expect(all(bound in found for bound in model._shapes.kept.values()), "a graph was built twice")


@case
def branches():
    def branch(first):
        return graph(tensor("weight", np.float32([[first], [first + 1]])), node("MatMul", "x weight", "product"), output("product"))
    path = onnx_file("branches.onnx", value(11, "x", sizes=("n", 2)), value(11, "rate", INT64), tensor("wide", np.int64([16])),
                     node("Equal", "rate wide", "is_wide"),
                     node("If", "is_wide", "out", then_branch=branch(1), else_branch=branch(10)), output("out"))
    model = koine.Model(path)
    x = random(3, 2)
    for rate in (16, 8, 16, 9):
        first = 1 if rate == 16 else 10
        np.testing.assert_allclose(model.predict({"x": x, "rate": np.int64(rate)}), x @ np.float32([[first], [first + 1]]), rtol=1e-5)
    expect_equal(len(model.states), 2)


@case
def loops_that_end_on_computed_conditions():
    """The body reads a value that is computed before the loop; the variable grows, and so does what each iteration gives."""
    body = graph(value(11, "number", INT64), value(11, "going", 9), value(11, "rows"), node("MatMul", "rows scaled", "product"),
                 node("Tanh", "product", "more"), node("Concat", "rows more", "next", axis=0), node("ReduceSum", "next", "sum", keepdims=0),
                 node("Less", "sum limit", "goes_on"), node("ReduceSum", "more axis", "total", keepdims=0), output("goes_on"), output("next"),
                 output("total"))
    path = onnx_file("loop.onnx", value(11, "x", sizes=(1, 3)), value(11, "limit"), tensor("most", np.int64(5)),
                     tensor("weight", np.eye(3, dtype=np.float32)), tensor("axis", np.int64([0])), tensor("none", np.int64(0)),
                     node("Less", "none most", "yes"), node("Exp", "x", "factor"), node("Mul", "weight factor", "scaled"),
                     node("Loop", "most yes x", "all totals", body=body), node("Relu", "all", "out"), output("out"), output("totals"))
    model = koine.Model(path)
    iterations = set()
    for run in range(8):
        x, limit = random(1, 3), np.float32([0.1, 5, 7, 50, 7, 7, 0, 10][run])
        rows, totals = x, []
        for _ in range(5):
            more = np.tanh(rows @ np.diag(np.exp(x[0])))
            rows = np.concatenate([rows, more])
            totals.append(more.sum(0))
            if not rows.sum() < limit:
                break
        found = model.predict({"x": x, "limit": limit})
        np.testing.assert_allclose(found["out"], rows, rtol=1e-5)
        np.testing.assert_allclose(found["totals"], totals, rtol=1e-5)
        iterations.add(len(totals))
    expect(len(iterations) > 2, f"the loops have {iterations} iterations")


@case
def loops_whose_body_depends_on_the_value_of_an_input():
    """The number of largest elements, which only the body reads, determines its shapes. The weight is too large for a constant."""
    body = graph(value(11, "number", INT64), value(11, "going", 9), value(11, "v"), node("MatMul", "v weight", "product"),
                 node("TopK", "product k", "largest places"), node("ReduceSum", "largest", "sum", keepdims=1), node("Add", "v sum", "next"),
                 node("Less", "sum limit", "goes_on"), output("goes_on"), output("next"))
    weight = random(2, 40000) / 100
    path = onnx_file("largest.onnx", value(11, "x", sizes=(1, 2)), value(11, "k", INT64, sizes=(1,)), tensor("limit", np.float32([[10]])),
                     tensor("most", np.int64(100)), tensor("none", np.int64(0)), tensor("weight", weight), node("Less", "none most", "yes"),
                     node("Loop", "most yes x", "out", body=body), output("out"))
    model = koine.Model(path)
    x = random(1, 2)
    for k in (1, 3, 2, 2, 4, 1):
        v, total, iterations = x, 0, 0
        while total < 10 and iterations < 100:
            total = np.sort(v @ weight)[0, -k:].sum()
            v, iterations = v + total, iterations + 1
        np.testing.assert_allclose(model.predict({"x": x, "k": np.int64([k])}), v, rtol=1e-4)


@case
def random_numbers_of_loops():
    """Each iteration draws different numbers."""
    body = graph(value(11, "number", INT64), value(11, "going", 9), value(11, "v"), node("RandomUniformLike", "v", "drawn"),
                 node("Add", "v drawn", "next"), node("ReduceSum", "next", "sum", keepdims=0), node("Less", "sum limit", "goes_on"),
                 output("goes_on"), output("next"), output("drawn"))
    path = onnx_file("drawn.onnx", value(11, "x", sizes=(8,)), tensor("limit", np.float32(40)), tensor("most", np.int64(100)),
                     tensor("none", np.int64(0)), node("Less", "none most", "yes"), node("Loop", "most yes x", "out draws", body=body),
                     output("out"), output("draws"))
    model = koine.Model(path)
    x = random(8)
    for _ in range(2):
        found = model.predict({"x": x})
        draws = found["draws"]
        expect(len(draws) > 5, f"{len(draws)} iterations")
        expect(len({row.tobytes() for row in draws}) == len(draws), "iterations draw the same numbers")
        np.testing.assert_allclose(found["out"], x + draws.sum(0), rtol=1e-5)


@case
def no_common_rows():
    path = onnx_file("state.onnx", value(11, "x", sizes=("batch", 3)), value(11, "state", sizes=(2, "batch", 3)), value(11, "factor"),
                     tensor("axis", np.int64([0])), node("ReduceSum", "state axis", "before", keepdims=0), node("Add", "x before", "sum"),
                     node("Mul", "sum factor", "out"), node("Mul", "state factor", "next"), output("out"), output("next"))
    model = koine.Model(path)
    for batch in (1, 2, 5):
        x, state = random(batch, 3), random(2, batch, 3)
        found = model.predict({"x": x, "state": state, "factor": np.float32(2)})
        np.testing.assert_allclose(found["out"], (x + state.sum(0)) * 2, rtol=1e-6)
        np.testing.assert_allclose(found["next"], state * 2, rtol=1e-6)
    one = koine.Model(onnx_file("scalar.onnx", value(11, "s"), node("Neg", "s", "out"), output("out")))
    expect_equal(float(one.predict(np.float32(3))), -3.0)


@case
def saved_without_training():
    path = onnx_file("net.onnx", *SCALES, tensor("factor.weight", np.float32([2])), node("Mul", "sum factor.weight", "out"), output("out"))
    model, x = koine.Model(path), random(2, 1, 8, 8)
    expect("images_0 (batch,1,height,width) to out" in repr(model), repr(model))
    model.save("same.onnx")  # before anything is computed
    np.testing.assert_allclose(koine.Model("same.onnx").predict(x), scales(x) * 2, rtol=1e-6)
    model.predict(x)
    model.states["factor.weight"] = np.float32([5])
    model.save("other.onnx")
    np.testing.assert_allclose(koine.Model("other.onnx").predict(random(1, 1, 4, 8)), scales(random(1, 1, 4, 8)) * 5, rtol=1e-6)


@case
def copies():
    path = onnx_file("net.onnx", *SCALES, node("GlobalAveragePool", "sum", "mean"), node("Flatten", "mean", "flat"),
                     tensor("head.weight", np.float32([[1, -1]])), node("MatMul", "flat head.weight", "logits"), output("logits"))
    model, x = koine.Model(path), random(8, 1, 8, 8)
    y = np.arange(8, dtype=np.int32) % 2
    for step in range(3):  # as it was opened, after predicting, after training
        for made in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            np.testing.assert_allclose(made.predict(x), model.predict(x), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(made.predict(x[:, :, :4]), model.predict(x[:, :, :4]), rtol=1e-5, atol=1e-6)
        if step == 1:
            model.fit(x, y, epochs=1, batch_size=4, progress=False)
    copy.deepcopy(model).fit(x, y, epochs=1, batch_size=4, progress=False)


@case
def names_of_the_file():
    path = onnx_file("named.onnx", value(11, "images", sizes=("n", 2)), tensor("w.weight", np.float32([[1, 2], [3, 4]])),
                     node("MatMul", "images w.weight", "out"), output("out"))
    model, x = koine.Model(path), random(20, 2)
    expect_equal([value.name for value in model.inputs], ["images"])
    for given in (x, {"images": x}, {"x": x}):
        np.testing.assert_allclose(model.predict(given), x @ np.float32([[1, 2], [3, 4]]), rtol=1e-5)
    session = koine.Session(model.outputs, states=model.states)
    np.testing.assert_array_equal(session.run(images=x)[0], session.run(x=x)[0])
    with raises(koine.KoineError, "'image'"):
        session.run(image=x)
    model.fit({"images": x}, (x[:, 0] > 0.5).astype(np.int32), epochs=1, progress=False)
    np.savez("data.npz", x=x, y=(x[:, 0] > 0.5).astype(np.int32))
    expect_equal(model.evaluate("npz:data.npz").samples, 20)


@case
def squeezed():
    model = koine.Model(onnx_file("squeeze.onnx", value(11, "x", sizes=("batch", 1, 3)), node("Squeeze", "x", "out"), output("out")))
    for batch in (2, 1, 4):
        x = random(batch, 1, 3)
        expect_equal(model.predict(x).shape, np.squeeze(x).shape)


@case
def trained():
    path = onnx_file("net.onnx", *SCALES, node("GlobalAveragePool", "sum", "mean"), node("Flatten", "mean", "flat"),
                     tensor("head.weight", np.float32([[1, -1]])), node("MatMul", "flat head.weight", "logits"), output("logits"))
    model = koine.Model(path)
    x = random(40, 1, 8, 8)
    model.predict(x[:, :, :4])  # its graph exists when the weights change
    y = (x.mean((1, 2, 3)) > 0.5).astype(np.int32)
    history = model.fit(x, y, epochs=3, batch_size=16, progress=False)
    expect(len(history.losses) == 9, "three batches of each epoch, the last of which is smaller")
    expect(model.evaluate(x, y).samples == 40, "evaluate")
    weight = model.states["head.weight"]
    expect(not np.array_equal(weight, [[1, -1]]), "the weight was not trained")
    np.testing.assert_allclose(model.predict(x[:, :, :4]), scales(x[:, :, :4]).mean((2, 3)) @ weight, rtol=1e-4, atol=1e-5)
    for size in (8, 16, 4):
        x = random(3, 1, size, size)
        np.testing.assert_allclose(model.predict(x), scales(x).mean((2, 3)) @ weight, rtol=1e-4, atol=1e-5)
    model.save("trained.onnx")
    again = koine.Model("trained.onnx")
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5, atol=1e-6)
    expect_equal(again.open_sizes, ["height", "width"])


@case
def strings():
    STRING = 8
    def split(name):
        return node("StringSplit", name, "parts counts", delimiter="-")
    model = koine.Model(onnx_file("strings.onnx", value(11, "a", STRING, ("n",)), value(11, "b", STRING, (1,)), node("StringConcat", "a b", "ab"),
                                  split("ab"), output("parts"), output("counts")))
    for words, end in ((["x-y", "", "ä"], "-z"), (["x-y", "", "ä"], "z"), (["a-b-c"], "")):
        found = model.predict({"a": np.array(words), "b": np.array([end], object)})
        expected = [(word + end).split("-") for word in words]
        width = max(map(len, expected))
        np.testing.assert_array_equal(found["parts"], [parts + [""] * (width - len(parts)) for parts in expected])
        np.testing.assert_array_equal(found["counts"], list(map(len, expected)))
    with raises(koine.DtypeError, "'b'"):
        model.predict({"a": np.array(["x"]), "b": np.float32([1])})
    numbers = koine.Model(onnx_file("numbers.onnx", value(11, "a", STRING, ("n",)), node("Neg", "a", "out"), output("out")))
    with raises(koine.UnsupportedError, "contains strings"):
        numbers.predict(np.array(["1", "2"]))
    # Labels of computed positions.
    labels = field(5, field(1, 3) + field(2, STRING) + field(8, "names") + b"".join(field(6, name) for name in ("cat", "", "dog")))
    classes = koine.Model(onnx_file("labels.onnx", value(11, "x", sizes=("n", 3)), labels, node("ArgMax", "x", "best", axis=1, keepdims=0),
                                    node("Gather", "names best", "label"), field(12, field(1, "label") + field(2, field(1, field(1, STRING)))))
                          )
    x = random(7, 3)
    np.testing.assert_array_equal(classes.predict(x), np.array(["cat", "", "dog"])[x.argmax(1)])


run()
