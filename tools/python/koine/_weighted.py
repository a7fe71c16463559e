"""Losses with sample weights."""
from __future__ import annotations

import re
from typing import Any, Optional

import numpy as np

from . import ops
from .errors import error_of
from .graph import Graph, Value

NAME = "y.weight"  # the input of the weights, (batch), with mean 1


def _rows_of_classes(graph: Graph, output: Value, target: Value, weights: Optional[np.ndarray], shares: bool) -> Value:
    """The cross-entropy of each row. shares: the output is probabilities, not logits."""
    logarithms = output.clip(1e-30, 2).log() if shares else output.log_softmax()
    wanted = ops.one_hot(target, output.shape[-1], -1, 1, 0)
    rows = -(logarithms * wanted).sum(-1)
    return rows if weights is None else rows * (wanted * graph.constant(weights)).sum(-1)


def weighted_loss(model: Any, parts: Any, name: str, weights: Optional[np.ndarray], shares: bool) -> Value:
    """The mean over the batch of each sample's loss times its weight, which is fed by NAME."""
    graph, output, target = model.graph, model.outputs[0], parts.target
    if target.dtype == "int32":
        plain = name == "cross-entropy" and parts.ignored is None and output.rank == 2 and not re.search(r"^loss .*=", model.text, re.M)
        rows = _rows_of_classes(graph, output, target, weights, shares) if plain else None
    else:
        each = {"mse": lambda: (output - target) ** 2, "l1": lambda: abs(output - target),
                "binary-cross-entropy": lambda: output.softplus() - output * target}.get(name)
        rows = each() if each else None
        if rows is not None and output.rank > 1:
            rows = rows.mean(list(range(1, output.rank)))
    if rows is None:
        raise error_of(5, f"the loss {name} of the model '{model.name}' does not support sample weights; expected cross-entropy of one class for each "
                       "sample, without settings, or mse, l1 or binary-cross-entropy")
    return (rows * graph.input(NAME, ("batch",))).mean().rename("loss.weighted")
