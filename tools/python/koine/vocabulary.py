"""Vocabularies of language models: text to token ids and back.

>>> words = koine.Vocabulary("minilm")                                     # doctest: +SKIP
>>> words.encode("Hello, world")                                           # doctest: +SKIP
array([ 101, 7592, 1010, 2088,  102], dtype=int32)
"""
from __future__ import annotations

import json
import os
from typing import Any, Iterable, Iterator, Optional, Union

import numpy as np

from ._handle import Handle
from ._library import NULL, ffi, lib, text
from .errors import error_of

Path = Union[str, "os.PathLike[str]"]
__all__ = ["Vocabulary", "draw_token"]
_ADD_ENDS, _READ_SPECIAL, _SKIP_SPECIAL, _CUT = 1, 2, 4, 8
_ROLES = ("begin", "end", "unknown", "padding")


class Vocabulary(Handle):
    """The vocabulary of a language model.

    Args:
        path: A folder with a tokenizer.json, that file, or a GGUF file.
    """

    _error = "kn_vocabulary_error"

    def __init__(self, path: Path) -> None:
        self._open_checked(lib.kn_vocabulary_open(os.fsencode(path), NULL), lib.kn_vocabulary_destroy, lib.kn_vocabulary_status)

    def __len__(self) -> int:
        return lib.kn_vocabulary_size(self._pointer)

    def __repr__(self) -> str:
        return f"<koine.Vocabulary: {text(lib.kn_vocabulary_summary(self._pointer))}>"

    def encode(self, words: Union[str, bytes], ends: bool = True, special: bool = True, most: Optional[int] = None) -> np.ndarray:
        """Returns the tokens of a text as an array of int32.

        Args:
            words: The text; bytes may be invalid UTF-8.
            ends: Add the tokens that the vocabulary puts before and after a text.
            special: Read special tokens that are spelled out in the text. Use False for text of untrusted origin.
            most: The largest number of tokens; the last ones are dropped, except those that the vocabulary puts after a text.
        """
        source = words.encode("utf-8", "surrogateescape") if isinstance(words, str) else bytes(words)
        flags = _ADD_ENDS * ends | _READ_SPECIAL * special | _CUT * (most is not None)
        count = ffi.new("size_t *", len(source) + 64 if most is None else most)
        while True:
            room = count[0]
            tokens = np.empty(room, np.int32)
            code = lib.kn_vocabulary_encode(self._pointer, source, len(source), flags, ffi.cast("int32_t *", tokens.ctypes.data), room, count)
            if code:
                raise error_of(code, "the text has a character that the vocabulary has no token for" if code == 12 else
                               f"most is {most}; expected room for the tokens before and after a text" if code == 2 and most is not None else "")
            if count[0] <= room:
                return tokens[:count[0]].copy()

    def decode_bytes(self, tokens: Any, skip_special: bool = False, _state: Any = NULL) -> bytes:
        """Returns the text of tokens as bytes, which may be invalid UTF-8."""
        given = np.ascontiguousarray(tokens, np.int32).reshape(-1)
        count = ffi.new("size_t *", 16 * given.size + 64)
        while True:
            room = count[0]
            out = ffi.new("char[]", room)
            code = lib.kn_vocabulary_decode(self._pointer, ffi.cast("const int32_t *", given.ctypes.data), given.size,
                                            _SKIP_SPECIAL * skip_special, _state, out, room, count)
            if code:
                raise error_of(code, "an id is not in the vocabulary")
            if count[0] <= room:
                return bytes(ffi.buffer(out, count[0]))

    def decode(self, tokens: Any, skip_special: bool = False) -> str:
        """Returns the text of tokens; invalid UTF-8 becomes U+FFFD."""
        return self.decode_bytes(tokens, skip_special).decode("utf-8", "replace")

    def stream(self, tokens: Iterable[int], skip_special: bool = True) -> Iterator[str]:
        """Yields the text of each token, whole characters only."""
        state = ffi.new("kn_decoding *", {"size": ffi.sizeof("kn_decoding")})
        for token in tokens:
            yield self.decode_bytes([token], skip_special, state).decode("utf-8", "replace")

    def chat(self, messages: Any, add_generation_prompt: bool = True, **variables: Any) -> str:
        """Returns a conversation as the model's text, by its chat template.

        Args:
            messages: Dicts with role and content.
            add_generation_prompt: End with the beginning of an answer.
            **variables: More variables of the template, such as tools.
        """
        given = json.dumps({"messages": messages, "add_generation_prompt": add_generation_prompt, **variables}).encode()
        count, message = ffi.new("size_t *", 4096), ffi.new("char[]", 1024)
        while True:
            room = count[0]
            out = ffi.new("char[]", room)
            code = lib.kn_vocabulary_chat(self._pointer, given, out, room, count, message, 1024)
            if code:
                raise error_of(code, text(message) or "")
            if count[0] <= room:
                return bytes(ffi.buffer(out, count[0])).decode("utf-8", "replace")

    def token(self, number: int) -> Optional[str]:
        """Returns the spelling of a token, or None."""
        length = ffi.new("size_t *")
        found = lib.kn_vocabulary_token(self._pointer, number, length)
        return bytes(ffi.buffer(found, length[0])).decode("utf-8", "replace") if found else None

    def find(self, spelling: str) -> Optional[int]:
        """Returns the token with a spelling, or None."""
        found = lib.kn_vocabulary_find(self._pointer, spelling.encode())
        return None if found < 0 else found

    def role(self, name: str) -> Optional[int]:
        """Returns the token with a role, "begin", "end", "unknown" or "padding", or None."""
        found = lib.kn_vocabulary_role(self._pointer, _ROLES.index(name))
        return None if found < 0 else found

    def is_special(self, token: int) -> bool:
        """Whether a token is special, which is not text."""
        return bool(lib.kn_vocabulary_is_special(self._pointer, token))

    def ends(self, token: int) -> bool:
        """Whether generation ends with a token."""
        return bool(lib.kn_vocabulary_ends(self._pointer, token))


def draw_token(logits: Any, seen: Iterable[int] = (), step: int = 0, **settings: Any) -> int:
    """Draws a token from logits.

    Args:
        logits: One number for each token.
        seen: Tokens that the repetition penalty applies to.
        step: The same seed and step give the same token.
        **settings: temperature, top_k, top_p, min_p, repetition and seed.
    """
    given = np.ascontiguousarray(logits, np.float32).reshape(-1)
    before = np.ascontiguousarray(list(seen), np.int32)
    params, token = ffi.new("kn_draw_params *"), ffi.new("int32_t *")
    lib.kn_draw_params_init(params)
    for name, value in settings.items():
        if name not in ("temperature", "top_k", "top_p", "min_p", "repetition", "seed"):
            raise TypeError(f"draw_token() has no setting {name!r}")
        setattr(params, name, value)
    code = lib.kn_draw_token(params, ffi.cast("const float *", given.ctypes.data), given.size,
                             ffi.cast("const int32_t *", before.ctypes.data), before.size, step, token)
    if code:
        raise error_of(code, "no token can be drawn" if code == 13 else "a setting is out of its range")
    return token[0]
