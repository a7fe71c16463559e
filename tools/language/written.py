"""Compares GGUF files that koine convert writes with ggml's quantizers and the gguf package.

usage: written.py MODEL.gguf [KOINE]

Needs gguf and xllamacpp, whose library has ggml_quantize_chunk. The file is converted to each type; each tensor must have the bytes that ggml
makes of the original's dequantized weights, and the metadata must be the same. Exits with 1 if something differs.
"""
import ctypes
import glob
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import xllamacpp

TYPES = ("F32", "F16", "BF16", "Q8_0", "Q5_0", "Q4_0", "Q4_K", "Q6_K")
library = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(xllamacpp.__file__), "*.so"))[0])
quantize = library.ggml_quantize_chunk
quantize.restype = ctypes.c_size_t
quantize.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]


def expected(tensor, original):
    """The bytes of a tensor of another type."""
    if tensor.tensor_type == original.tensor_type:
        return original.data.reshape(-1).view(np.uint8)
    numbers = np.ascontiguousarray(gguf.quants.dequantize(original.data, original.tensor_type), np.float32)
    if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
        return numbers.reshape(-1).view(np.uint8)
    made = np.zeros(tensor.data.nbytes, np.uint8)
    quantize(int(tensor.tensor_type), numbers.ctypes.data, made.ctypes.data, 0, numbers.shape[0], numbers.shape[1], None)
    return made


def compare(path, original):
    written, wrong, kinds = gguf.GGUFReader(path), [], {}
    tensors = {tensor.name: tensor for tensor in original.tensors}
    if set(tensors) != {tensor.name for tensor in written.tensors}:
        wrong.append("names of tensors")
    for tensor in written.tensors:
        kinds[tensor.tensor_type.name] = kinds.get(tensor.tensor_type.name, 0) + 1
        if not np.array_equal(tensor.data.reshape(-1).view(np.uint8), expected(tensor, tensors[tensor.name])):
            wrong.append(tensor.name)
    for key, field in original.fields.items():
        if key.startswith(("GGUF.", "general.file_type", "general.quantization_version", "general.alignment", "split.")):
            continue
        if key not in written.fields or not all(np.array_equal(a, b) for a, b in zip(field.parts, written.fields[key].parts)):
            wrong.append(key)
    return kinds, wrong


def main(path, koine="koine"):
    failed, original = False, gguf.GGUFReader(path)
    with tempfile.TemporaryDirectory(prefix="koine-") as folder:
        for kind in (None, *TYPES):
            to = os.path.join(folder, "written.gguf")
            subprocess.run([koine, "convert", path, to, "--overwrite", "--quiet", *(("--type", kind) if kind else ())], check=True)
            kinds, wrong = compare(to, original)
            failed = failed or bool(wrong)
            print(f"{kind or 'as it is':8} {kinds}", f"DIFFER: {wrong[:4]}" if wrong else "", flush=True)
    return failed


sys.exit(main(*sys.argv[1:]))
