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

_BEFORE = "\x1e"  # precedes each token, if tokens may have several characters


class _StepGraph(Graph):
    """A graph that computes some positions of the window."""

    def __init__(self, model: Any, rows: int) -> None:
        output = ffi.new("kn_value *[1]")
        pointer = lib.kn_model_step(model._pointer, rows, output)
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
        for rows in (self.window, 1):
            graph = _StepGraph(model, rows)
            if graph.usable:
                self.steps.append(Session(graph.value, model.context, states=model.states, **model._arithmetic()))

    def _run(self, session: Session, tokens: List[int], start: int) -> np.ndarray:
        rows = self.window if session is self.steps[0] else 1
        x = np.zeros((1, rows), np.int32)
        x[0, :len(tokens)] = tokens
        more = {"step.start": np.array([start], np.int32), "step.count": np.array([len(tokens)], np.int32)}
        return session.run({self.name: x, **{name: array for name, array in more.items() if name in session._inputs}})[0]

    def logits(self, tokens: List[int]) -> np.ndarray:
        used = len(tokens)
        if len(self.steps) == 2 and (self.on or used <= self.window) and 0 < self.kept == used - 1:
            self.kept = used
            return self._run(self.steps[1], tokens[-1:], used - 1)[0]
        seen = tokens[-self.window:]
        self.kept = used
        if self.steps:
            return self._run(self.steps[0], seen, 0)[len(seen) - 1]
        x = np.zeros((1, self.window), np.int32)
        x[0, :len(seen)] = seen
        return self.model.predict(x)[0][len(seen) - 1]


def generate(model: Any, prompt: str, length: int, temperature: float, top_k: Optional[int], top_p: Optional[float], seed: int) -> str:
    vocabulary = model._about.get("data.vocabulary", model.metadata("data.vocabulary"))
    if vocabulary is None:
        raise error_of(2, "the model has no vocabulary: train it on text first, such as text:FILE")
    if vocabulary:
        signs: Any = _tokens(vocabulary)
        tokens = [int(number) for number in encode(vocabulary, prompt)]
    else:  # bytes
        signs, tokens = None, list(prompt.encode())
    random = np.random.default_rng(seed)
    begun = len(tokens)
    if not tokens:
        tokens = [int(random.integers(len(signs) if signs else 256))]
        begun = 0
    writer = _Writer(model)
    with model._lock:
        while len(tokens) - begun < length:
            count = len(signs) if signs else 256
            tokens.append(draw(writer.logits(tokens)[:count], temperature, top_k, top_p, random))
    made = tokens[begun:]
    return "".join(signs[number] for number in made) if signs else bytes(made).decode(errors="replace")
