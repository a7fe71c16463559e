"""Vocabularies in GGUF files have llama.cpp's ids; skipped where the package xllamacpp or the files are missing.

usage: vocabularies_gguf.py HOUSE_FOLDER SOURCE_ROOT MEGABYTES

KOINE_TEST_DATA has smollm2.gguf and gemma3.gguf, as tools/language/fetch makes them.
"""
import ctypes
import glob
import importlib.util
import os
import runpy
import sys

from package import Skipped, case, expect, run

import koine

FOLDER, MEGABYTES = os.environ.get("KOINE_TEST_DATA", ""), float(sys.argv[3])


class Params(ctypes.Structure):
    """llama.cpp's, which grow from version to version: more room than they need."""
    _fields_ = [("bytes", ctypes.c_uint8 * 1024)]


def llama_tokens(path, text, special):
    package = importlib.util.find_spec("xllamacpp")
    if not package:
        raise Skipped("the package xllamacpp is missing")
    lib = ctypes.CDLL(glob.glob(os.path.join(package.submodule_search_locations[0], "xllamacpp*.so"))[0])
    lib.llama_model_default_params.restype = Params
    lib.llama_model_load_from_file.argtypes, lib.llama_model_load_from_file.restype = [ctypes.c_char_p, Params], ctypes.c_void_p
    lib.llama_model_get_vocab.argtypes, lib.llama_model_get_vocab.restype = [ctypes.c_void_p], ctypes.c_void_p
    lib.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]
    log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    lib.llama_log_set(log, None)
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    expect(model, f"llama.cpp does not open {path}")
    tokens = (ctypes.c_int32 * (len(text) + 64))()
    count = lib.llama_tokenize(lib.llama_model_get_vocab(model), text, len(text), tokens, len(tokens), True, special)
    lib.llama_model_free(ctypes.c_void_p(model))
    lib.llama_log_set(None, None)
    return tokens[:count]


def same(name):
    path = os.path.join(FOLDER, name)
    if not FOLDER or not os.path.exists(path):
        raise Skipped(f"KOINE_TEST_DATA has no {name}")
    words = koine.Vocabulary(path)
    text = runpy.run_path(os.path.join(os.path.dirname(__file__), "mixed_text.py"))["mixed"](sys.argv[2], int(MEGABYTES * 1e6)).encode()
    for special in (True, False):
        found, wanted = words.encode(text, special=special).tolist(), llama_tokens(path, text, special)
        if found == wanted:
            continue
        at = next((i for i, (one, other) in enumerate(zip(found, wanted)) if one != other), min(len(found), len(wanted)))
        near = [[words.token(token) for token in ids[max(0, at - 4):at + 6]] for ids in (found, wanted)]
        expect(False, f"special={special}: token {at} differs: found {near[0]}, expected {near[1]}")
    return words, text


@case
def smollm2():
    same("smollm2.gguf")


@case
def gemma3():
    words, text = same("gemma3.gguf")
    text = text.replace("\u2581".encode(), b"").replace(b"<0x41>", b"")  # as tokens spell a space and a byte
    expect(words.decode_bytes(words.encode(text, ends=False, special=False)) == text, "the text does not come back")
    broken = bytes(range(256)) * 3 + text[1:1000]
    expect(words.decode_bytes(words.encode(broken, ends=False, special=False)) == broken, "bytes that are not UTF-8 do not come back")


run()
