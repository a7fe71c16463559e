"""ONNX files at the command line: sizes that they leave open, and those that they fix.

usage: onnx.py KOINE HOUSE_TESTS
"""
import functools
import os
import struct

from koine import add, case, expect, koine, numbers_of, read_npy, run_cases, write, write_bytes, write_npy, write_safetensors

ROWS = "koine 1\nmodel rows\ninput x lengthx6\nlogits = linear 3\n"
PICTURES = "koine 1\nmodel pictures\ntask regression\ninput x height,width\nfactor = parameter 1\nout = mul @x @factor\n"
TURNED = ("koine 1\nmodel turned\ntask regression\ninput x rows,rows\nfactor = parameter 1\nscaled = mul @x @factor\n"
          "turned = transpose @scaled permutation=0,2,1\nout = add @x @turned\n")
FOUR = "koine 1\nmodel four\ninput x 4x6 batch=no\nlogits = linear 3\n"
WEIGHT, BIAS = numbers_of(18, 5), numbers_of(3, 6)


def exported(folder, name, text):
    """name.onnx of a text with the weights above."""
    write(folder, name + ".koine", text)
    write_safetensors(os.path.join(folder, "w.safetensors"), {
        "logits.weight": ("F32", (3, 6), WEIGHT), "logits.bias": ("F32", (3,), BIAS), "factor": ("F32", (1,), [2.0])})
    koine("convert", name + ".koine", name + ".onnx", "--weights", "w.safetensors", folder=folder).needs(0)


def field(number, value):
    """A field of a message: an integer, or a text, bytes or messages."""
    def varint(rest):
        return bytes([rest & 127 | 128]) + varint(rest >> 7) if rest > 127 else bytes([rest])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def value(number, name, sizes=(), metadata=()):
    """A field of a graph: a float32 value, with pairs of metadata."""
    shape = b"".join(field(1, field(1 if isinstance(size, int) else 2, size)) for size in sizes)
    pairs = b"".join(field(4, field(1, key) + field(2, text)) for key, text in metadata)
    return field(number, field(1, name) + field(2, field(1, field(1, 1) + field(2, shape))) + pairs)


def tensor(name, sizes, numbers, kind="f"):
    """The field of a graph for an initializer of float32, or with "q" of int64."""
    return field(5, b"".join(field(1, size) for size in sizes) + field(2, 1 if kind == "f" else 7) + field(8, name) +
                 field(9, struct.pack(f"<{len(numbers)}{kind}", *numbers)))


def node(kind, inputs, output, **attributes):
    """A node with integer attributes."""
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind) + b"".join(
        field(5, field(1, key) + field(3, number) + field(20, 2)) for key, number in attributes.items()))


def onnx_file(folder, name, *fields):
    write_bytes(folder, name, field(1, 10) + field(2, "pytorch") + field(8, field(1, "") + field(2, 20)) +
                field(7, b"".join(fields) + field(2, "net")))


@case
def buffers_stay_as_they_are(folder):
    """What the file marks as a buffer is not trained; without the mark, nodes and names decide."""
    kind = "pkg.torch.export.graph_signature.InputSpec.kind"
    steps, table, weight = numbers_of(3, 7), numbers_of(6, 8), numbers_of(6, 9)
    for told in (True, False):
        onnx_file(folder, "net.onnx", value(11, "x", ("batch", 2, 3)), tensor("steps", (3,), steps),
                  tensor("rope.cos", (2, 3), table), tensor("w", (3, 2), weight),
                  node("Mul", ("x", "rope.cos"), "turned"), node("Add", ("turned", "steps"), "moved"),
                  node("MatMul", ("moved", "w"), "y"), value(12, "y", ("batch", 2, 2)),
                  *([value(13, "steps", (3,), [(kind, "BUFFER")]), value(13, "rope.cos", (2, 3), [(kind, "BUFFER")]),
                     value(13, "w", (3, 2), [(kind, "PARAMETER")])] if told else []))
        write_npy(os.path.join(folder, "x.npy"), "<f4", (8, 2, 3), numbers_of(48))
        write_npy(os.path.join(folder, "t.npy"), "<f4", (8, 2, 2), numbers_of(32, 2))
        koine("train", "net.onnx", "--data", "npy:x.npy,t.npy", "--steps", "3", "--batch", "4", "--loss", "mse", "--save",
              f"{told}.onnx", folder=folder).needs(0)
        with open(os.path.join(folder, f"{told}.onnx"), "rb") as file:
            saved = file.read()
        for name, numbers, stays in (("steps", steps, told), ("rope.cos", table, True), ("w", weight, False)):
            found = struct.pack(f"<{len(numbers)}f", *numbers) in saved
            expect(found == stays, f"{name} {'stays' if found else 'moves'} where told is {told}")


@case
def masks_by_their_numbers(folder):
    """Zeros and one other number are a mask where they are added or multiplied, and not the weight of a product."""
    half, one, far = [0.5, 0, 0, 0.5, 0.5, 0, 0.5, 0.5, 0.5], [1, 0, 0, 0, 1, 0, 0, 0, 1], [-1e9] * 3
    onnx_file(folder, "net.onnx", value(11, "x", ("n", 3, 3)), tensor("lower", (3, 3), half),
              tensor("left", (3, 3), half), tensor("mix.weight", (3, 3), half), tensor("onnx::MatMul_4", (3, 3), one),
              tensor("beyond", (3,), far), tensor("bias", (3,), [0, 1, 0]), node("Add", ("x", "lower"), "a"),
              node("MatMul", ("left", "a"), "b"), node("Mul", ("b", "mix.weight"), "c"),
              node("MatMul", ("c", "onnx::MatMul_4"), "d"), node("Add", ("d", "beyond"), "e"),
              node("Add", ("e", "bias"), "y"), value(12, "y", ("n", 3, 3)))
    rows = koine("plan", "net.onnx", "--parameters", "--json", folder=folder).needs(0).objects()
    found = {row["name"]: row["trained"] for row in rows}
    wanted = {"mix.weight": True, "onnx__MatMul_4": True, "bias": True, "lower": False, "left": False, "beyond": False}
    expect(found == wanted, f"found {rows}")


@case
def sizes_made_of_an_open_batch(folder):
    """A row for each sample is appended to its own, and one of these is selected by the index of the sample."""
    token = numbers_of(3, 4)
    for place in (-1, -2):
        onnx_file(folder, "net.onnx", value(11, "x", ("s97", 2, 3)), tensor("token", (1, 1, 3), token),
                  tensor("zero", (1,), [0], "q"), tensor("none", (), [0], "q"), tensor("step", (), [1], "q"),
                  tensor("one", (2,), [1, 1], "q"), tensor("column", (1,), [1], "q"), tensor("place", (1, 1), [place], "q"),
                  node("Shape", ("x",), "shape"), node("Gather", ("shape", "zero"), "batch"),
                  node("Gather", ("shape", "none"), "end"), node("Concat", ("batch", "one"), "times", axis=0),
                  node("Tile", ("token", "times"), "tokens"), node("Concat", ("x", "tokens"), "rows", axis=1),
                  node("Range", ("none", "end", "step"), "samples"), node("Unsqueeze", ("samples", "column"), "first"),
                  node("Concat", ("batch", "column"), "long", axis=0), node("Expand", ("place", "long"), "second"),
                  node("Concat", ("first", "second"), "pairs", axis=1), node("GatherND", ("rows", "pairs"), "y"),
                  value(12, "y", ("s97", 3)))
        x = numbers_of(18)
        write_npy(os.path.join(folder, "x.npy"), "<f4", (3, 2, 3), x)
        koine("infer", "net.onnx", "--input", "x.npy", "--output", "y.npy", "--overwrite", folder=folder).needs(0)
        shape, found = read_npy(os.path.join(folder, "y.npy"))
        wanted = [token[i % 3] if place == -1 else x[i // 3 * 6 + 3 + i % 3] for i in range(9)]
        expect(shape == (3, 3) and all(abs(a - b) < 1e-6 for a, b in zip(found, wanted)), f"found {found}, not {wanted}")


@case
def shapes_that_decide(folder):
    """Sizes that are equal for some heights only, names with slashes, and a size of 1 that Squeeze removes."""
    onnx_file(folder, "net.onnx", value(11, "in/image", ("n", "rows", 2)), tensor("zero", (1,), [0], "q"), tensor("one", (1,), [1], "q"),
              tensor("two", (1,), [2], "q"), node("Shape", ("in/image",), "shape"), node("Slice", ("shape", "one", "two"), "rows"),
              node("Div", ("rows", "two"), "half"), node("Mul", ("half", "two"), "even"), node("Concat", ("even", "two"), "size", axis=0),
              tensor("wide", (1, 1), [1.0]), node("Expand", ("wide", "size"), "ones"), node("Add", ("in/image", "ones"), "sum"),
              node("Squeeze", ("sum",), "out/sum"), value(12, "out/sum", ("n", "rows", 2)))
    for shape, wanted in (((1, 4, 2), (4, 2)), ((2, 6, 2), (2, 6, 2)), ((3, 2, 2), (3, 2, 2))):
        x = numbers_of(shape[0] * shape[1] * 2)
        write_npy(os.path.join(folder, "x.npy"), "<f4", shape, x)
        koine("infer", "net.onnx", "--input", "in/image=x.npy", "--output", "out/sum=y.npy", "--overwrite", folder=folder).needs(0)
        found_shape, found = read_npy(os.path.join(folder, "y.npy"))
        expect(found_shape == wanted and all(abs(a - b - 1) < 1e-6 for a, b in zip(found, x)), f"found {found_shape} {found}")
    shown = koine("infer", "net.onnx", "x.npy", "--json", folder=folder).needs(0).objects()  # as samples, a line each
    expect(len(shown) == 3, f"found {shown}")
    write_npy(os.path.join(folder, "x.npy"), "<f4", (1, 3, 2), numbers_of(6))
    koine("infer", "net.onnx", "--input", "in/image=x.npy", "--output", "out/sum=y.npy", "--overwrite", folder=folder).needs(1, err="(Add)")


@case
def a_loop_that_ends_on_a_computed_condition(folder):
    """While the sum of v, which is x at first, is below 20: v += x * x."""
    def number(name, kind):
        return field(11, field(1, name) + field(2, field(1, field(1, kind) + field(2, b""))))
    body = b"".join((number("number", 7), number("going", 9), value(11, "v", ("n",)), node("Add", ("v", "step"), "next"),
                     node("ReduceSum", ("next",), "sum", keepdims=0), node("Less", ("sum", "limit"), "goes_on"),
                     field(12, field(1, "goes_on")), field(12, field(1, "next")))) + field(2, "body")
    loop = field(1, b"".join(field(1, name) for name in ("", "", "x")) + field(2, "y") + field(4, "Loop") +
                 field(5, field(1, "body") + field(6, body) + field(20, 5)))
    onnx_file(folder, "net.onnx", value(11, "x", ("n",)), tensor("limit", (), [20.0]), node("Mul", ("x", "x"), "step"), loop,
              value(12, "y", ("n",)))
    for x in ([1.0, 2.0], [0.5, 1.5, 1.0], [4.0]):
        wanted = x
        while wanted == x or sum(wanted) < 20:
            wanted = [a + b * b for a, b in zip(wanted, x)]
        write_npy(os.path.join(folder, "x.npy"), "<f4", (len(x),), x)
        koine("infer", "net.onnx", "--input", "x.npy", "--output", "y.npy", "--overwrite", folder=folder).needs(0)
        shape, found = read_npy(os.path.join(folder, "y.npy"))
        expect(shape == (len(x),) and all(abs(a - b) < 1e-4 for a, b in zip(found, wanted)), f"found {found}, not {wanted}")
    koine("infer", "net.onnx", "x.npy", folder=folder).needs(1, err="--input X.npy")


@case
def rows_of_any_length(folder):
    exported(folder, "rows", ROWS)
    for shape in ((2, 4, 6), (3, 5, 6)):
        x = numbers_of(shape[0] * shape[1] * 6)
        write_npy(os.path.join(folder, "x.npy"), "<f4", shape, x)
        koine("infer", "rows.onnx", "--input", "x.npy", "--output", "y.npy", "--batch", "2", "--overwrite", folder=folder).needs(0)
        found_shape, found = read_npy(os.path.join(folder, "y.npy"))
        expect(found_shape == shape[:2] + (3,), f"found {found_shape} for {shape}")
        for i, number in enumerate(found):
            row, unit = x[i // 3 * 6:i // 3 * 6 + 6], i % 3
            wanted = BIAS[unit] + sum(a * b for a, b in zip(row, WEIGHT[unit * 6:unit * 6 + 6]))
            expect(abs(number - wanted) < 1e-5, f"{shape}: number {i} is {number}, expected {wanted}")


@case
def a_length_for_what_reads_no_data(folder):
    exported(folder, "rows", ROWS)
    koine("plan", "rows.onnx", "--set", "length=5", "--batch", "2", folder=folder).needs(0, out="(2,5,3)")
    write_safetensors(os.path.join(folder, "in.safetensors"), {"x": ("F32", (2, 5, 6), numbers_of(60, 3))})
    koine("plan", "rows.onnx", "--input", "in.safetensors", "--batch", "2", folder=folder).needs(0, out="(2,5,3)")
    koine("plan", "rows.onnx", "--input", "missing.safetensors", folder=folder).needs(1, err="missing.safetensors")
    koine("plan", "rows.koine", "--input", "in.safetensors", folder=folder).needs(2, err="--input is for ONNX files")
    rates = koine("bench", "rows.onnx", "--mode", "infer", "--input", "in.safetensors", "--seconds", "0", "--json", folder=folder).objects()
    expect(rates[0]["batch"] == 2, f"found {rates}")
    koine("bench", "rows.onnx", "--mode", "infer", "--input", "in.safetensors", "--set", "length=4", folder=folder).needs(1)
    found = koine("bench", "rows.onnx", "--mode", "infer", "--set", "length=5", "--batch", "2", "--seconds", "0", "--json",
                  folder=folder).needs(0)
    expect(found.objects()[0]["batch"] == 2, f"{found}")


@case
def open_sizes_come_from_the_data(folder):
    exported(folder, "pictures", PICTURES)
    x = numbers_of(4 * 2 * 3)
    write_npy(os.path.join(folder, "x.npy"), "<f4", (4, 2, 3), x)
    koine("train", "pictures.onnx", "--data", "npy:x.npy,x.npy", "--steps", "1", "--batch", "4", "--loss", "mse",
          "--save", "new.onnx", folder=folder).needs(0)
    write_npy(os.path.join(folder, "x.npy"), "<f4", (2, 3, 4), x)
    koine("infer", "new.onnx", "--input", "x.npy", "--output", "y.npy", "--overwrite", folder=folder).needs(0)
    shape, found = read_npy(os.path.join(folder, "y.npy"))
    factor = found[0] / x[0]
    expect(shape == (2, 3, 4) and 1 < factor < 2, f"found {shape} with a factor of {factor}")
    expect(all(abs(a - factor * b) < 1e-5 for a, b in zip(found, x)), f"found {found} for {x}")


@case
def sizes_that_fit_only_once_known(folder):
    """x plus its transpose needs as many rows as columns, which only the data shows."""
    exported(folder, "turned", TURNED)
    path = os.path.join(folder, "turned.onnx")
    with open(path, "rb") as file:
        parts = file.read().split(b"rows")
    write_bytes(folder, "turned.onnx", b"rows".join(parts[:2]) + b"cols" + b"rows".join(parts[2:]))
    write_npy(os.path.join(folder, "x.npy"), "<f4", (2, 3, 3), numbers_of(18))
    train = ("train", "turned.onnx", "--data", "npy:x.npy,x.npy", "--steps", "1", "--batch", "2", "--loss", "mse")
    koine(*train, "--save", "new.onnx", folder=folder).needs(0)
    write_npy(os.path.join(folder, "x.npy"), "<f4", (1, 4, 4), numbers_of(16))
    koine("infer", "new.onnx", "--input", "x.npy", "--output", "y.npy", "--overwrite", folder=folder).needs(0)
    koine("eval", "new.onnx", "--data", "npy:x.npy,x.npy", "--loss", "mse", folder=folder).needs(0)
    koine("plan", "new.onnx", folder=folder).needs(1, err="--set rows=N,cols=N")
    write_npy(os.path.join(folder, "x.npy"), "<f4", (1, 2, 4), numbers_of(8))
    koine(*train, folder=folder).needs(1, err="does not broadcast")


@case
def files_that_their_names_tell(folder):
    """A file too short to show its format: the name decides."""
    write_bytes(folder, "net.onnx", b"\x08")
    write_bytes(folder, "net.safetensors", b"\1\0")
    koine("plan", "net.onnx", folder=folder).needs(1, err="net.onnx: byte 0: ")
    koine("plan", "net.safetensors", folder=folder).needs(1, err="too short for a safetensors file")


@case
def the_batch_of_the_file(folder):
    exported(folder, "four", FOUR)
    found = koine("plan", "four.onnx", "--json", folder=folder).needs(0).objects()[0]
    expect(found["batch"] == 4, f"found {found}")


@case
def a_batch_behind_another_size(folder):
    """States come first, (2,s97,3), and the batch of the samples is the second size of these."""
    onnx_file(folder, "net.onnx", value(11, "h", (2, "s97", 3)), value(11, "x", ("s97", 3)),
              tensor("axis", (1,), [0], "q"), node("ReduceSum", ("h", "axis"), "sum", keepdims=0),
              node("Add", ("x", "sum"), "y"), value(12, "y", ("s97", 3)))
    koine("plan", "net.onnx", "--mode", "infer", "--batch", "5", folder=folder).needs(0, out="(5,3)")


@case
def all_outputs_count(folder):
    """Of inputs that begin with the batch, have it elsewhere or not at all, and of two products, one for each output."""
    onnx_file(folder, "net.onnx", value(11, "h", (2, "n", 3)), value(11, "x", ("n", 3)), value(11, "fixed", (3, 4)),
              tensor("axis", (1,), [0], "q"), tensor("v", (4, 7), numbers_of(28)), tensor("w", (4, 50), numbers_of(200)),
              node("ReduceSum", ("h", "axis"), "sum", keepdims=0), node("Add", ("x", "sum"), "both"),
              node("MatMul", ("both", "fixed"), "moved"), node("MatMul", ("moved", "v"), "y"),
              node("MatMul", ("moved", "w"), "z"), value(12, "y", ("n", 7)), value(12, "z", ("n", 50)))
    koine("plan", "net.onnx", "--mode", "infer", "--batch", "5", folder=folder).needs(0, out=("(5,7)", "(5,50)"))
    found = koine("bench", "net.onnx", "--mode", "infer", "--batch", "5", "--seconds", "0", "--json", folder=folder).needs(0)
    row = found.objects()[0]
    expect(row["gflops"] * row["median_ms"] * 1e6 > 2 * 5 * 4 * 50, f"{found}")
    koine("bench", "net.onnx", "--batch", "5", "--seconds", "0", folder=folder).needs(0)


@case
def sizes_that_have_to_be_told(folder):
    """All names at once, with the words that set them; the weights are listed without them."""
    onnx_file(folder, "net.onnx", value(11, "a", ("n", "left", 3)), value(11, "b", ("m", "right", 3)),
              tensor("w", (3, 2), numbers_of(6)), node("Add", ("a", "b"), "sum"), node("MatMul", ("sum", "w"), "y"),
              value(12, "y", ("n", "left", 2)))
    koine("plan", "net.onnx", "--batch", "3", folder=folder).needs(1, out="", err="--set left=N,right=N")
    koine("plan", "net.onnx", "--batch", "3", "--set", "left=5,right=5", folder=folder).needs(0, out="(3,5,2)")
    found = koine("plan", "net.onnx", "--parameters", "--json", folder=folder).needs(0).objects()
    expect(found == [{"name": "w", "type": "float32", "shape": "3,2", "elements": 6, "trained": True, "why": "",
                      "rule": "read by MatMul"}], f"found {found}")
    onnx_file(folder, "net.onnx", value(11, "x", ("n", "height", "width", 3)), tensor("w", (3, 2), numbers_of(6)),
              node("MatMul", ("x", "w"), "y"), value(12, "y", ("n", "height", "width", 2)))
    koine("plan", "net.onnx", folder=folder).needs(
        1, out="", err=("leaves 'height' of its input 'x' (batch,height,width,3), 'width' of", "--set height=N,width=N give"))


MISTAKES = [
    ("rows", "plan rows.onnx", "leaves 'length' of its input 'x' (batch,length,6) open", "--set length=N"),
    ("rows", "bench rows.onnx --mode infer", "'length'", "--set length=N"),
    ("rows", "plan rows.koine", "'length'", "a line `set length N`"),
    ("rows", "plan rows.onnx --set lenght=5", "has no dynamic size 'lenght'; dynamic sizes: batch, length",
     "did you mean 'length'?"),
    ("four", "plan four.onnx --set length=5", "has no dynamic size 'length'", "none"),
    ("four", "plan four.onnx --batch 8", "has a fixed batch of 4, not 8", "--batch 4"),
    ("four", "train four.onnx --data npy:x.npy,x.npy", "has a fixed batch of 4, not 64", "dynamic_axes"),
]


def mistake(name, line, first, second, folder):
    exported(folder, name, {"rows": ROWS, "four": FOUR}[name])
    koine(*line.split(), folder=folder).needs(1, out="", err=(first, second))


for row in MISTAKES:
    add(f"mistake: {row[1]}", functools.partial(mistake, *row))

run_cases()
