"""Vectors of texts."""
from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from .errors import error_of
from .session import Session
from .vocabulary import Vocabulary

_LEAST = 16  # positions, and powers of two from there on, so that few lengths are compiled


def _session(model: Any, window: int) -> Session:
    name = f"embed {window}"
    if name not in model._sessions:
        states = model.states
        model._sessions[name] = Session(model._with_window(window).outputs[0], model.context, states=states, **model._arithmetic())
    return model._sessions[name]


def _rounded(number: int, least: int, most: int) -> int:
    """The next power of two times `least`, at most `most`."""
    while least < number:
        least *= 2
    return min(least, most)


def embed(model: Any, texts: Sequence[str], batch_size: int) -> np.ndarray:
    output = model.outputs[0]
    if [value.name for value in model.inputs] != ["x", "length"] or len(output.shape) != 2:
        raise error_of(2, f"the model {model.name} does not compute vectors of texts; expected an encoder in a folder with modules.json, as "
                       "sentence-transformers saves it")
    words = Vocabulary(model.source)
    window = int(model.inputs[0]._shape_words[1])
    rows: List[np.ndarray] = [words.encode(text, most=window) for text in texts]
    found = np.empty((len(rows), int(output.shape[1])), np.float32)
    for i, row in enumerate(rows):
        if not len(row):
            raise error_of(2, f"text {i} has no tokens")
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for begin in range(0, len(order), batch_size):
        part = order[begin:begin + batch_size]
        length = _rounded(len(rows[part[-1]]), _LEAST, window)
        count = _rounded(len(part), 1, batch_size)
        x, lengths = np.zeros((count, length), np.int32), np.ones(count, np.int32)  # unused rows are texts of one token
        for place, i in enumerate(part):
            x[place, :len(rows[i])] = rows[i]
            lengths[place] = len(rows[i])
        found[part] = _session(model, length).run({"x": x, "length": lengths})[:len(part)]
    return found
