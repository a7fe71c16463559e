"""koine-onnx-test says what is true: models and tensors made by hand, right and altered ones.

usage: tool.py KOINE_ONNX_TEST HOUSE_TESTS
"""
import os
import struct
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
sys.path.insert(0, sys.argv[2])
from report import run  # noqa: E402

FLOAT, INT32 = 1, 6
INFINITY, NAN = float("inf"), float("nan")


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def number(field, value):
    return varint(field << 3) + varint(value)


def part(field, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(values, shape=None, kind=FLOAT):
    packed = struct.pack(f"<{len(values)}{'f' if kind == FLOAT else 'i'}", *values)
    return b"".join(number(1, length) for length in (shape or [len(values)])) + number(2, kind) + part(9, packed)


def value(name, length):
    return part(1, name) + part(2, part(1, number(1, FLOAT) + part(2, part(1, number(1, length)))))


def model(operator, length=4):
    node = part(1, "x") + part(2, "y") + part(4, operator)
    graph = part(1, node) + part(2, "graph") + part(11, value("x", length)) + part(12, value("y", length))
    return number(1, 10) + part(8, number(2, 21)) + part(7, graph)


GIVEN = [1.0, -2.0, INFINITY, NAN]
EXPECTED = [-1.0, 2.0, -INFINITY, NAN]


def write(folder, name, files):
    for path, data in files.items():
        whole = os.path.join(folder, name, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "wb") as file:
            file.write(data)


def case(operator="Neg", expected=None, given=None, **others):
    """The files of a case, without those that are None in `others`."""
    files = {"model.onnx": model(operator), "test_data_set_0/input_0.pb": given or tensor(GIVEN),
             "test_data_set_0/output_0.pb": expected or tensor(EXPECTED)}
    files.update(others.get("files", {}))
    return {name: data for name, data in files.items() if data is not None}


def evaluated(cases, *options):
    """({name: (verdict, reason)}, last line, exit status, {path: bytes} of what it wrote) of a run over cases."""
    with tempfile.TemporaryDirectory() as folder:
        for name, files in cases.items():
            write(os.path.join(folder, "tree"), name, files)
        outputs, table = os.path.join(folder, "out"), os.path.join(folder, "table.tsv")
        result = subprocess.run([PROGRAM, "--table", table, "--outputs", outputs, *options, os.path.join(folder, "tree")],
                                capture_output=True, text=True)
        with open(table, encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("\t") for line in file]
        written = {}
        for root, _, names in os.walk(outputs):
            for name in names:
                with open(os.path.join(root, name), "rb") as file:
                    written[os.path.relpath(os.path.join(root, name), outputs)] = file.read()
        last = (result.stdout.splitlines() or [result.stderr])[-1]
        return {name: (verdict, reason) for name, verdict, reason in lines}, last, result.returncode, written


def differing(found, expected):
    return [] if found == expected else [f"found {found}, expected {expected}"]


def verdict(files, word, reason=""):
    found, last, status, _ = evaluated({"test_it": files})
    right = found.get("test_it", ("", ""))[0] == word and reason in found["test_it"][1]
    return ([] if right else [f"found {found}, expected {word} for '{reason}'"]) + \
        differing(status, 1 if word in ("FAIL", "ERROR") else 0)


def with_value(index, number_there):
    return case(expected=tensor(EXPECTED[:index] + [number_there] + EXPECTED[index + 1:]))


def counted():
    cases = {"test_a": case(), "test_b": case("Neg", tensor([0.0] * 4)), "deep/test_c": case("NoSuchOperator")}
    found, last, status, _ = evaluated(cases)
    return differing({name: verdict for name, (verdict, _) in found.items()},
                     {"test_a": "PASS", "test_b": "FAIL", "test_c": "UNSUPPORTED"}) + \
        differing(last, "3 tests: 1 passed, 1 failed, 0 errors, 1 unsupported, 0 skipped") + differing(status, 1)


def filtered():
    found, last, status, _ = evaluated({"test_a": case(), "test_b": case()}, "--filter", "_b$")
    return differing(list(found), ["test_b"]) + differing(status, 0)


def outputs_are_written():
    """Also if the expected file is not a tensor: it is opened afterwards."""
    wrong = case(expected=b"\xff")
    found, _, _, written = evaluated({"test_a": case(), "test_b": wrong})
    values = [struct.unpack("<4f", data[-16:])[:3] for _, data in sorted(written.items())]
    return differing(sorted(written), ["test_a/test_data_set_0/output_0.pb", "test_b/test_data_set_0/output_0.pb"]) + \
        differing(values, [tuple(EXPECTED[:3])] * 2) + differing(found["test_b"][0], "ERROR")


def nothing_found():
    _, last, status, _ = evaluated({"empty": {"readme": b""}})
    return differing((last, status), ("0 tests: 0 passed, 0 failed, 0 errors, 0 unsupported, 0 skipped", 1))


SECOND = {"test_data_set_1/input_0.pb": tensor(GIVEN), "test_data_set_1/output_0.pb": tensor([9.0] * 4)}
run([
    ("right", lambda: verdict(case(), "PASS")),
    ("within a thousandth", lambda: verdict(with_value(1, 2.0015), "PASS")),
    ("altered", lambda: verdict(with_value(1, 2.01), "FAIL", "1 of 4 elements differ; element 1 is 2, expected 2.01")),
    ("a number for NaN", lambda: verdict(with_value(3, 0.0), "FAIL")),
    ("NaN for a number", lambda: verdict(with_value(0, NAN), "FAIL")),
    ("the other infinity", lambda: verdict(with_value(2, INFINITY), "FAIL")),
    ("another shape", lambda: verdict(case(expected=tensor(EXPECTED, [4, 1])), "FAIL", "expected float32(4,1)")),
    ("another type", lambda: verdict(case(expected=tensor([-1, 2, 0, 0], kind=INT32)), "FAIL", "expected int32(4)")),
    ("altered in the second set", lambda: verdict(case(files=SECOND), "FAIL")),
    ("unknown operator", lambda: verdict(case("NoSuchOperator"), "UNSUPPORTED", "NoSuchOperator")),
    ("cut model", lambda: verdict(case(files={"model.onnx": model("Neg")[:-3]}), "ERROR", "truncated")),
    ("no input", lambda: verdict(case(files={"test_data_set_0/input_0.pb": None}), "ERROR", "input_0.pb")),
    ("no expectation", lambda: verdict(case(files={"test_data_set_0/output_0.pb": None}), "ERROR", "output_0.pb")),
    ("no data", lambda: verdict({"model.onnx": model("Neg")}, "SKIP", "test_data_set_0")),
    ("one name twice", lambda: differing(
        evaluated({"a/test_a": case(), "b/test_a": case()})[1],
        "2 tests: 1 passed, 0 failed, 1 errors, 0 unsupported, 0 skipped")),
    ("counted", counted), ("filtered", filtered), ("outputs are written", outputs_are_written),
    ("nothing found", nothing_found)])
