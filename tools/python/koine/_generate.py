"""Text generation, token by token."""
from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from ._handle import Handle
from ._library import NULL, ffi, lib
from .errors import error_of
from .graph import Graph, Value
from .io import encode
from .session import Session
from .vocabulary import Vocabulary

_MAX_ROWS = 256  # of a prompt that are read at once
_BEFORE = "\x1e"  # precedes each token, if tokens may have several characters


class _StepGraph(Graph):
    """A graph that computes some positions of the window, and returns the logits of the last."""

    def __init__(self, model: Any, rows: int) -> None:
        output = ffi.new("kn_value *[1]")
        pointer = lib.kn_model_step_last(model._pointer, rows, output)
        self.usable = bool(pointer)
        if pointer:
            self._open(pointer, lib.kn_graph_destroy)
            self.value = Value(self, output[0])


def _tokens(vocabulary: str) -> List[str]:
    if vocabulary.startswith(_BEFORE) and _BEFORE in vocabulary[1:]:
        return vocabulary[1:].split(_BEFORE)
    return list(vocabulary)


def draw(logits: np.ndarray, temperature: float, top_k: Optional[int], top_p: Optional[float], random: np.random.Generator) -> int:
    """Samples a token, with top-k and top-p filtering."""
    if temperature <= 0:
        return int(np.argmax(logits))
    order = np.argsort(-logits, kind="stable")[:top_k or None]
    powers = np.exp((logits[order] - logits[order[0]]).astype(np.float64) / temperature)
    shares = powers / powers.sum()
    if top_p is not None:
        kept = max(1, int(np.searchsorted(np.cumsum(shares), top_p) + 1))
        order, shares = order[:kept], shares[:kept] / shares[:kept].sum()
    return int(order[min(int(np.searchsorted(np.cumsum(shares), random.random())), len(order) - 1)])


class _Writer:
    """Reads tokens and returns the logits of the next token; caches keys, values and states if the model allows it."""

    def __init__(self, model: Any) -> None:
        self.model, self.name = model, model.inputs[0].name
        self.window = int(model.inputs[0]._shape_words[1])
        self.kept, self.on = 0, bool(lib.kn_model_can_stream(model._pointer))
        self.steps: List[Session] = []
        self.rows = min(_MAX_ROWS, self.window)
        for rows in (self.rows, 1):
            graph = _StepGraph(model, rows)
            if graph.usable:
                self.steps.append(Session(graph.value, model.context, states=model.states, **model._arithmetic()))

    def _run(self, session: Session, tokens: List[int], start: int) -> np.ndarray:
        rows = self.rows if session is self.steps[0] else 1
        x = np.zeros((1, rows), np.int32)
        x[0, :len(tokens)] = tokens
        more = {"step.start": np.array([start], np.int32), "step.count": np.array([len(tokens)], np.int32)}
        return session.run({self.name: x, **{name: array for name, array in more.items() if name in session._inputs}})[0][0]

    def _read(self, tokens: List[int], start: int) -> np.ndarray:
        """In pieces, and one by one where a piece with its padding would not fit in the window."""
        logits = np.zeros(0, np.float32)
        while tokens:
            fits = len(tokens) > 1 and (self.on or start + self.rows <= self.window)
            count = min(len(tokens), self.rows) if fits else 1
            logits = self._run(self.steps[0 if fits else 1], tokens[:count], start)
            tokens, start = tokens[count:], start + count
        return logits

    def logits(self, tokens: List[int]) -> np.ndarray:
        used = len(tokens)
        kept, self.kept = self.kept, used
        seen = tokens[-self.window:]
        if len(self.steps) == 2 and kept and (self.on or used <= self.window):
            return self._read(tokens[kept:], kept)
        if len(self.steps) == 2:
            return self._read(seen, 0)
        x = np.zeros((1, self.window), np.int32)
        x[0, :len(seen)] = seen
        return self.model.predict(x)[0][len(seen) - 1]


def _of_language(model: Any, prompt: str, length: int, temperature: float, top_k: Optional[int], top_p: Optional[float], seed: int) -> str:
    """Continues a text with a language model."""
    words = Vocabulary(model._tokenizer())
    tokens = [int(number) for number in words.encode(prompt)]
    if not tokens:
        begin = words.role("begin")
        tokens = [int(words.role("end") or 0) if begin is None else begin]
    random, begun, writer = np.random.default_rng(seed), len(tokens), _Writer(model)
    with model._lock:
        while len(tokens) - begun < length:
            token = draw(writer.logits(tokens)[:len(words)], temperature, top_k, top_p, random)
            if words.ends(token):
                break
            tokens.append(token)
    before = words.decode(tokens[:begun], skip_special=True)
    return words.decode(tokens, skip_special=True)[len(before):]


def generate(model: Any, prompt: str, length: int, temperature: float, top_k: Optional[int], top_p: Optional[float], seed: int) -> str:
    vocabulary = model._about.get("data.vocabulary", model.metadata("data.vocabulary"))
    if vocabulary is None and model._tokenizer():
        return _of_language(model, prompt, length, temperature, top_k, top_p, seed)
    if vocabulary is None:
        raise error_of(2, "the model has no vocabulary: train it on text first, such as text:FILE")
    if vocabulary:
        texts: Any = _tokens(vocabulary)
        tokens = [int(number) for number in encode(vocabulary, prompt)]
    else:  # bytes
        texts, tokens = None, list(prompt.encode())
    random = np.random.default_rng(seed)
    begun = len(tokens)
    if not tokens:
        tokens = [int(random.integers(len(texts) if texts else 256))]
        begun = 0
    writer = _Writer(model)
    with model._lock:
        while len(tokens) - begun < length:
            count = len(texts) if texts else 256
            tokens.append(draw(writer.logits(tokens)[:count], temperature, top_k, top_p, random))
    made = tokens[begun:]
    return "".join(texts[number] for number in made) if texts else bytes(made).decode(errors="replace")
