"""safetensors files, which the peers exchange, with only the standard library."""

import array
import json
import math
import struct

KINDS = {"F32": "f", "F64": "d", "I32": "i", "I64": "q"}


def write(path, tensors):
    """tensors: {name: (kind, shape, bytes)}, little-endian and row-major"""
    header, offset = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def read(path):
    """{name: (kind, shape, bytes)}"""
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, about in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, end = about["data_offsets"]
            found[name] = (about["dtype"], about["shape"], data[begin + first : begin + end])
    return found


def numbers(tensor):
    """The elements of (kind, shape, bytes)."""
    kind, shape, data = tensor
    found = array.array(KINDS[kind])
    found.frombytes(data)
    assert len(found) == math.prod(shape)
    return found


def difference(found, expected):
    """(largest difference, root mean square of what was expected)"""
    a, b = numbers(found), numbers(expected)
    if len(a) != len(b):
        return math.inf, 0.0
    largest = max((abs(x - y) if x == x else math.inf) for x, y in zip(a, b))
    return largest, math.sqrt(sum(y * y for y in b) / len(b))
