"""Koine as an execution provider of ONNX Runtime: the same results as with ONNX Runtime's CPU provider.

usage: provider.py HOUSE_FOLDER LIBRARY DOCUMENT

It needs the Python packages onnx and onnxruntime (a version that reports which provider has a node); without them it is skipped.
DOCUMENT is docs/onnxruntime.md, whose lines of Python are run.
"""
import concurrent.futures
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
from report import run  # noqa: E402

try:
    import numpy as np
    import onnxruntime as ort
    from onnx import NodeProto, helper, numpy_helper
    from onnx import TensorProto as T
    ort.register_execution_provider_library, ort.InferenceSession.get_provider_graph_assignment_info
except (ImportError, AttributeError) as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIBRARY, NAME, OPSET = str(pathlib.Path(sys.argv[2]).resolve()), "KoineExecutionProvider", 17
ort.set_default_logger_severity(3)
drawn = np.random.default_rng(5)
ort.register_execution_provider_library("koine", LIBRARY)
DEVICES = [device for device in ort.get_ep_devices() if device.ep_name == NAME]


def model(nodes, inputs, outputs, constants=None, opset=OPSET, defaults=None):
    """nodes: (type, inputs, outputs, attributes), where _ is left out; inputs, outputs: name -> (type, shape); constants, defaults: name -> array."""
    made = [node if isinstance(node, NodeProto) else
            helper.make_node(node[0], *(names.replace("_", "").split(" ") for names in node[1:3]), **dict(*node[3:])) for node in nodes]
    sides = [[helper.make_tensor_value_info(name, *what) for name, what in side.items()] for side in (inputs, outputs)]
    arrays = {**(constants or {}), **(defaults or {})}
    graph = helper.make_graph(made, "test", *sides, [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


def normal(*shape, dtype=np.float32):
    return drawn.standard_normal(shape).astype(dtype)


def with_koine(file, options=None, level=None):
    settings = ort.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if level is not None:
        settings.graph_optimization_level = level
    settings.add_provider_for_devices(DEVICES, options or {})
    return ort.InferenceSession(file, settings)


def groups(session):
    """The operators that Koine computes, by group, and the other operators; sorted."""
    assigned = [(part.ep_name, sorted(node.op_type for node in part.get_nodes())) for part in session.get_provider_graph_assignment_info()]
    return sorted(kinds for name, kinds in assigned if name == NAME), sorted(kind for name, kinds in assigned if name != NAME for kind in kinds)


def differences(file, runs, group_count, elsewhere=(), tolerance=1e-5, level=None, exact=False):
    """Complaints unless Koine computes the same as the CPU provider for all feeds, in group_count groups, except the operators in elsewhere."""
    koine, other = with_koine(file, level=level), ort.InferenceSession(file, providers=["CPUExecutionProvider"])
    own, rest = groups(koine)
    bad = []
    if len(own) != group_count or rest != sorted(elsewhere):
        bad.append(f"Koine computes {own}, others {rest}; expected {group_count} groups, and {sorted(elsewhere)} elsewhere")
    for feeds in runs:
        for name, one, two in zip([output.name for output in other.get_outputs()], koine.run(None, feeds), other.run(None, feeds)):
            about = f"{name} for {[list(array.shape) for array in feeds.values()]}"
            if one.shape != two.shape or one.dtype != two.dtype:
                bad.append(f"{about}: {one.dtype}{one.shape}, expected {two.dtype}{two.shape}")
            elif exact and not np.array_equal(one, two):
                bad.append(f"{about}: {one.ravel()[:9]}, expected {two.ravel()[:9]}")
            elif not np.allclose(one.astype(np.float64), two.astype(np.float64), rtol=tolerance, atol=tolerance, equal_nan=True):
                bad.append(f"{about}: differs by {np.abs(one.astype(np.float64) - two).max()}")
    return bad


def layers():
    """A multilayer perceptron with any batch size, also 0."""
    file = model([("MatMul", "x w0", "a"), ("Add", "a b0", "b"), ("Relu", "b", "c"), ("Gemm", "c w1 b1", "y", {"transB": 1, "alpha": 0.5})],
                 {"x": (T.FLOAT, ["batch", 16])}, {"y": (T.FLOAT, ["batch", 4])},
                 {"w0": normal(16, 32), "b0": normal(32), "w1": normal(4, 32), "b1": normal(4)})
    return differences(file, [{"x": normal(n, 16)} for n in (1, 3, 0, 8, 3)], 1)


def images():
    """Convolutions, with attributes that are numbers, lists, and texts."""
    file = model([("Conv", "x w0 b0", "a", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}), ("LeakyRelu", "a", "b", {"alpha": 0.2}),
                  ("MaxPool", "b", "c", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Conv", "c w1", "d", {"group": 2}),
                  ("BatchNormalization", "d s t m v", "e", {"epsilon": 0.01}), ("GlobalAveragePool", "e", "f"), ("Flatten", "f", "g"),
                  ("Gemm", "g w2", "h"), ("Softmax", "h", "y", {"axis": 1})],
                 {"x": (T.FLOAT, ["n", 3, 17, 19])}, {"y": (T.FLOAT, ["n", 5])},
                 {"w0": normal(8, 3, 3, 3), "b0": normal(8), "w1": normal(6, 4, 2, 2), "s": normal(6), "t": normal(6), "m": normal(6),
                  "v": np.abs(normal(6)) + 0.1, "w2": normal(6, 5)})
    return differences(file, [{"x": normal(n, 3, 17, 19)} for n in (2, 1)], 1)


def recurrent():
    """An attribute that is a list of texts; inputs and an output that are left out."""
    file = model([("LSTM", "x w r _ _ h", "_ last", {"hidden_size": 4, "activations": ["Sigmoid", "Tanh", "Tanh"]})],
                 {"x": (T.FLOAT, [5, "n", 3]), "h": (T.FLOAT, [1, "n", 4])}, {"last": (T.FLOAT, [1, "n", 4])},
                 {"w": normal(1, 16, 3), "r": normal(1, 16, 4)})
    return differences(file, [{"x": normal(5, n, 3), "h": normal(1, n, 4)} for n in (2, 3)], 1)


def numbers():
    """An attribute that is a list of fractions, in an old operator set."""
    file = model([("Upsample", "x", "u", {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 3.0]}), ("Neg", "u", "y")], {"x": (T.FLOAT, [1, 1, 2, "w"])},
                 {"y": (T.FLOAT, [1, 1, 4, None])}, opset=7)
    return differences(file, [{"x": normal(1, 1, 2, 3)}], 1, exact=True)


def choice(name, condition, taken, other, reads):
    """A node If, both branches of which read values from outside."""
    branches = [helper.make_graph([helper.make_node(kind, reads.split(), [f"{name}.{kind}"])], kind, [],
                                  [helper.make_tensor_value_info(f"{name}.{kind}", T.FLOAT, None)]) for kind in (taken, other)]
    return helper.make_node("If", [condition], [name], then_branch=branches[0], else_branch=branches[1])


def parted():
    """A branch in the middle stays with ONNX Runtime; what it and the second part read leaves the first."""
    file = model([("MatMul", "x w", "a"), ("Tanh", "a", "b"), choice("c", "high", "Neg", "Abs", "b"), ("Add", "c b", "d"), ("MatMul", "d w", "y")],
                 {"x": (T.FLOAT, ["n", 6]), "high": (T.BOOL, [])}, {"y": (T.FLOAT, ["n", 6]), "a": (T.FLOAT, ["n", 6])}, {"w": normal(6, 6)})
    return differences(file, [{"x": normal(n, 6), "high": np.array(high)} for n, high in ((2, True), (2, False), (3, True))], 2, ["Abs", "If", "Neg"])


def cycles():
    """Nodes on both sides of one that stays with ONNX Runtime are not one group, but nodes that it does not separate are."""
    file = model([("Exp", "x", "a"), ("Mul", "z z", "p"), choice("c", "high", "Neg", "Abs", "a"), ("Add", "c a", "d"), ("Add", "d p", "y"),
                  ("Sqrt", "p", "q")],
                 {"x": (T.FLOAT, ["n"]), "z": (T.FLOAT, ["n"]), "high": (T.BOOL, [])}, {"y": (T.FLOAT, ["n"]), "q": (T.FLOAT, ["n"])})
    return differences(file, [{"x": normal(5), "z": normal(5), "high": np.array(True)}], 2, ["Abs", "If", "Neg"])


def data_dependent():
    """NonZero, whose result's size depends on its input's values, stays with ONNX Runtime, and so do nodes that need its result's values."""
    file = model([("Relu", "x", "a"), ("Sub", "a half", "b"), ("NonZero", "a", "where"), ("Mul", "b b", "y")],
                 {"x": (T.FLOAT, ["n", 3])}, {"y": (T.FLOAT, ["n", 3]), "where": (T.INT64, [2, None])}, {"half": np.array(0.5, np.float32)})
    return differences(file, [{"x": normal(n, 3)} for n in (4, 2)], 1, ["NonZero"])


def shapes():
    """A shape that is computed from another stays within the group, with an attribute that is a tensor."""
    file = model([("Shape", "x", "s"), ("Gather", "s one", "n", {"axis": 0}), ("Unsqueeze", "n axes", "m"), ("Concat", "minus m", "t", {"axis": 0}),
                  ("Exp", "x", "e"), ("Reshape", "e t", "r"),
                  ("ConstantOfShape", "m", "fill", {"value": numpy_helper.from_array(np.array([2.5], np.float32))}), ("Mul", "r fill", "y")],
                 {"x": (T.FLOAT, [4, "k", 2])}, {"y": (T.FLOAT, ["a", "b"])},
                 {"one": np.array(1), "axes": np.array([0]), "minus": np.array([-1])})
    return differences(file, [{"x": normal(4, k, 2)} for k in (3, 5)], 1)


def sizes():
    """Whether open sizes agree is known only in a run: the nodes are still one group."""
    file = model([("MaxPool", "x", "a", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Resize", "a _ twice", "b"), ("Add", "b x", "c"), ("Exp", "c", "y")],
                 {"x": (T.FLOAT, ["n", 2, "h", "w"])}, {"y": (T.FLOAT, ["n", 2, "h", "w"])}, {"twice": np.array([1, 1, 2, 2], np.float32)})
    return differences(file, [{"x": normal(n, 2, h, w)} for n, h, w in ((1, 8, 6), (2, 4, 10), (1, 8, 6))], 1)


def ranks():
    """A rank that ONNX Runtime does not know, but the group does; and one that no group can know."""
    x = {"x": (T.FLOAT, [1, "k", 1])}
    file = model([("Exp", "x", "a"), ("Squeeze", "a", "b"), ("Mul", "b b", "c"), ("Neg", "c", "y")], x, {"y": (T.FLOAT, ["k"])})
    bad = differences(file, [{"x": normal(1, k, 1)} for k in (3, 5)], 1)
    file = model([choice("b", "high", "Squeeze", "Neg", "x"), ("Tanh", "b", "c"), ("Exp", "c", "y"), ("Exp", "x", "z")],
                 {**x, "high": (T.BOOL, [])}, {"y": (T.FLOAT, None), "z": (T.FLOAT, [1, "k", 1])})
    return bad + differences(file, [{"x": normal(1, 4, 1), "high": np.array(True)}], 1, ["Exp", "If", "Neg", "Squeeze", "Tanh"])


def shared():
    """A constant that Koine's nodes and others read."""
    file = model([("Mul", "x k", "a"), ("Tanh", "a", "b"), choice("c", "high", "Add", "Sub", "b k"), ("Mul", "c k", "y")],
                 {"x": (T.FLOAT, ["n", 6]), "high": (T.BOOL, [])}, {"y": (T.FLOAT, ["n", 6])}, {"k": normal(6)})
    return differences(file, [{"x": normal(n, 6), "high": np.array(high)} for n, high in ((2, True), (3, False))], 2, ["Add", "If", "Sub"])


def given_shapes():
    """A shape that is an input is not known: Reshape stays with ONNX Runtime."""
    file = model([("Exp", "x", "e"), ("Reshape", "e s", "r"), ("Neg", "r", "y")], {"x": (T.FLOAT, [2, 6]), "s": (T.INT64, [2])},
                 {"y": (T.FLOAT, ["a", "b"])})
    return differences(file, [{"x": normal(2, 6), "s": np.array(shape)} for shape in ([3, 4], [6, 2])], 2, ["Reshape"])


def several():
    """Several inputs and outputs, one of which is also read inside, and one computed twice."""
    file = model([("Add", "a b", "s"), ("Mul", "s c", "p"), ("ReduceSum", "p", "t", {"keepdims": 0}), ("Sub", "s c", "d"), ("Identity", "s", "again")],
                 {name: (T.FLOAT, ["n", 3]) for name in "abc"}, {**{name: (T.FLOAT, ["n", 3]) for name in ("p", "s", "d", "again")}, "t": (T.FLOAT, [])})
    return differences(file, [{name: normal(n, 3) for name in "cab"} for n in (2, 5)], 1, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL)


def defaults():
    """An input with a default is not a constant."""
    file = model([("Mul", "x k", "a"), ("Exp", "a", "y")], {"x": (T.FLOAT, ["n"]), "k": (T.FLOAT, [1])}, {"y": (T.FLOAT, ["n"])},
                 defaults={"k": np.array([0.5], np.float32)})
    x = normal(4)
    return differences(file, [{"x": x}, {"x": x, "k": np.array([-2], np.float32)}, {"x": x}], 1)


def empty():
    """Sizes of zero, and a scalar."""
    file = model([("Concat", "x y", "c", {"axis": 1}), ("Mul", "c k", "d"), ("ReduceSum", "d axis", "z", {"keepdims": 0})],
                 {"x": (T.FLOAT, ["n", "a"]), "y": (T.FLOAT, ["n", "b"]), "k": (T.FLOAT, [])}, {"z": (T.FLOAT, ["n"]), "d": (T.FLOAT, ["n", "c"])},
                 {"axis": np.array([1])})
    runs = [{"x": normal(n, a), "y": normal(n, b), "k": normal()} for n, a, b in ((2, 0, 3), (0, 2, 1), (2, 0, 0), (3, 2, 1))]
    return differences(file, runs, 1)


def types():
    """Integers, booleans, 16-bit and 64-bit floats: the same type, and the same numbers."""
    bad = []
    for kind, dtype in ((T.INT64, np.int64), (T.INT32, np.int32), (T.UINT8, np.uint8), (T.INT8, np.int8)):
        low, high = (0, 200) if dtype == np.uint8 else (-100, 100)
        x = drawn.integers(low, high, (4, 5)).astype(dtype)
        file = model([("Add", "x k", "a"), ("Equal", "x k", "e"), ("Where", "e a x", "y")], {"x": (kind, ["n", 5])},
                     {"y": (kind, ["n", 5]), "a": (kind, ["n", 5]), "e": (T.BOOL, ["n", 5])}, {"k": x[:1]})
        bad += [f"{np.dtype(dtype)}: {one}" for one in differences(file, [{"x": x}, {"x": x[:2]}], 1, exact=True)]
    for kind, dtype, tolerance in ((T.FLOAT16, np.float16, 4e-3), (T.DOUBLE, np.float64, 1e-12)):
        file = model([("MatMul", "x w", "a"), ("Add", "a b", "c"), ("Sigmoid", "c", "y")], {"x": (kind, ["n", 8])}, {"y": (kind, ["n", 3])},
                     {"w": normal(8, 3, dtype=dtype), "b": normal(3, dtype=dtype)})
        bad += [f"{np.dtype(dtype)}: {one}" for one in differences(file, [{"x": normal(4, 8, dtype=dtype)}], 1, tolerance=tolerance)]
    file = model([("Cast", "x", "i", {"to": T.INT64}), ("Mul", "i i", "j"), ("Cast", "j", "y", {"to": T.FLOAT})], {"x": (T.FLOAT, ["n"])},
                 {"j": (T.INT64, ["n"]), "y": (T.FLOAT, ["n"])})
    return bad + differences(file, [{"x": np.array([1.9, -2.9, 3e5], np.float32)}], 1, exact=True)


def unworthy():
    """Operators that only move elements, and random ones, stay with ONNX Runtime."""
    file = model([("Transpose", "x", "t"), ("Reshape", "t s", "r"), ("Cast", "r", "y", {"to": T.INT32})], {"x": (T.FLOAT, [2, 3])}, {"y": (T.INT32, [6])},
                 {"s": np.array([6])})
    bad = differences(file, [{"x": normal(2, 3)}], 0, ["Cast", "Reshape", "Transpose"], exact=True)
    file = model([("RandomNormalLike", "x", "r", {"seed": 1.0}), ("Sub", "r r", "d"), ("Add", "x d", "y")], {"x": (T.FLOAT, [3])}, {"y": (T.FLOAT, [3])})
    return bad + differences(file, [{"x": normal(3)}], 1, ["RandomNormalLike"])


SMALL = model([("Exp", "x", "a"), ("Add", "a x", "y")], {"x": (T.FLOAT, ["n"])}, {"y": (T.FLOAT, ["n"])})


def options():
    """Options are Koine's, wrong ones are refused, and the provider's name serves too."""
    bad, x = [], normal(4)
    with_koine(SMALL, {"precision": "float32", "math": "exact"}).run(None, {"x": x})
    for wrong, word in (({"digits": "float16"}, "digits"), ({"precision": "float17"}, "float17"), ({"device": "no such device"}, "no such device")):
        try:
            with_koine(SMALL, wrong)
            bad.append(f"{wrong} is accepted")
        except Exception as error:
            if word not in str(error):
                bad.append(f"{wrong}: {error}")
    if NAME in ort.get_available_providers():
        session = ort.InferenceSession(SMALL, providers=[(NAME, {"math": "exact"}), "CPUExecutionProvider"])
        bad += [] if NAME in session.get_providers() else [f"{session.get_providers()} lack {NAME}"]
        bad += [] if np.allclose(session.run(None, {"x": x})[0], np.exp(x) + x) else ["by name, the result is wrong"]
    return bad


def documented():
    """The lines of the document, with a model in the current folder."""
    text, x = pathlib.Path(sys.argv[3]).read_text(encoding="utf-8"), normal(4)
    lines = re.search(r"(?m)^    import onnxruntime\n(?:    .*\n)+", text).group(0).replace("\n    ", "\n")[4:]
    path = re.search(r'folder = "(/[^"]*)"', lines).group(1)
    ort.unregister_execution_provider_library("koine")
    before, found = os.getcwd(), {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            pathlib.Path("net.onnx").write_bytes(SMALL)
            exec(lines.replace(path, str(pathlib.Path(LIBRARY).parent)), found)
        finally:
            os.chdir(before)
    session = found["session"]
    bad = [] if NAME in session.get_providers() else [f"{session.get_providers()} lack {NAME}"]
    return bad + ([] if np.allclose(session.run(None, {"x": x})[0], np.exp(x) + x) else ["the result is wrong"])


def threads():
    """Runs of one session from several threads."""
    session = with_koine(SMALL)
    arrays = [normal(n % 5 + 1) for n in range(24)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: session.run(None, {"x": x})[0], arrays))
    return [f"run {i} is wrong" for i, (x, y) in enumerate(zip(arrays, results)) if not np.allclose(y, np.exp(x) + x, rtol=1e-5)]


if len(DEVICES) != 1:
    sys.exit(f"{len(DEVICES)} devices of Koine, expected 1")
run([(case.__name__, case) for case in (layers, images, recurrent, numbers, parted, cycles, data_dependent, shapes, sizes, ranks, shared, given_shapes, several, defaults, empty,
                                        types, unworthy, options, threads, documented)])
