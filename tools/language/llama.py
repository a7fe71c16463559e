"""llama.cpp, from the package xllamacpp, for comparisons. Needs numpy."""
import ctypes
import glob
import importlib.util
import os

import numpy as np


class Bytes(ctypes.Structure):
    """Parameters of llama.cpp, which grow from version to version: more room than they need."""
    _fields_ = [("bytes", ctypes.c_uint8 * 1024)]


class Batch(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32)] + [(name, ctypes.c_void_p) for name in ("token", "embedding", "place", "sequence_count", "sequence", "wanted")]


class Llama:
    """A model with room for `context` tokens. threads: None: as llama.cpp chooses."""

    def __init__(self, path, context, threads=None):
        spec = importlib.util.find_spec("xllamacpp")
        self.lib = lib = ctypes.CDLL(glob.glob(os.path.join(spec.submodule_search_locations[0], "xllamacpp*.so"))[0])
        for name, result, arguments in (("llama_model_default_params", Bytes, []), ("llama_context_default_params", Bytes, []),
                                        ("llama_model_load_from_file", ctypes.c_void_p, [ctypes.c_char_p, Bytes]),
                                        ("llama_init_from_model", ctypes.c_void_p, [ctypes.c_void_p, Bytes]),
                                        ("llama_model_get_vocab", ctypes.c_void_p, [ctypes.c_void_p]),
                                        ("llama_vocab_n_tokens", ctypes.c_int32, [ctypes.c_void_p]),
                                        ("llama_batch_init", Batch, [ctypes.c_int32] * 3), ("llama_get_memory", ctypes.c_void_p, [ctypes.c_void_p]),
                                        ("llama_memory_clear", None, [ctypes.c_void_p, ctypes.c_bool]),
                                        ("llama_decode", ctypes.c_int32, [ctypes.c_void_p, Batch]),
                                        ("llama_set_n_threads", None, [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]),
                                        ("llama_get_logits", ctypes.POINTER(ctypes.c_float), [ctypes.c_void_p])):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self.log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        lib.llama_log_set(self.log, None)
        lib.llama_backend_init()
        model = lib.llama_model_load_from_file(os.fsencode(path), lib.llama_model_default_params())
        params = lib.llama_context_default_params()
        numbers = ctypes.cast(ctypes.byref(params), ctypes.POINTER(ctypes.c_int32))
        numbers[0] = numbers[1] = numbers[2] = context  # n_ctx, n_batch, n_ubatch
        self.context = lib.llama_init_from_model(model, params)
        if threads:
            lib.llama_set_n_threads(self.context, threads, threads)
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        self.batch, self.used = lib.llama_batch_init(context, 0, 1), 0

    def clear(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        self.used = 0

    def read(self, tokens, every=False):
        """Appends tokens to the text. Returns the logits after the last, (1,vocabulary), or after each, (tokens,vocabulary)."""
        batch, count = self.batch, len(tokens)
        token, place, sequences, wanted = (ctypes.cast(getattr(batch, name), ctypes.POINTER(kind)) for name, kind in (
            ("token", ctypes.c_int32), ("place", ctypes.c_int32), ("sequence_count", ctypes.c_int32), ("wanted", ctypes.c_int8)))
        sequence = ctypes.cast(batch.sequence, ctypes.POINTER(ctypes.POINTER(ctypes.c_int32)))
        for i in range(count):
            token[i], place[i], sequences[i], wanted[i], sequence[i][0] = int(tokens[i]), self.used + i, 1, every or i + 1 == count, 0
        batch.count = count
        self.used += count
        if self.lib.llama_decode(self.context, batch):
            raise RuntimeError("llama.cpp cannot compute these tokens")
        return np.ctypeslib.as_array(self.lib.llama_get_logits(self.context), (count if every else 1, self.vocabulary)).copy()
