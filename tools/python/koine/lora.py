"""Low-rank adapters (LoRA) of linear layers.

>>> import koine
>>> model = koine.Model("gpt,layers=2,width=96", lora=koine.Lora(rank=4, targets="qkv,proj"))
>>> [weight.name for weight in model.weights if weight.trained][:2]
['layer1.qkv.lora_a', 'layer1.qkv.lora_b']
"""
from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Sequence, Union

from ._library import lib, make


@dataclasses.dataclass(frozen=True)
class Lora:
    """Adapters of linear layers: y becomes y + scale (x A^T) B^T, and only A and B are trained.

    Attributes:
        rank: The rows of A, (rank,inputs), and the columns of B, (units,rank).
        alpha: The product is scaled by alpha / rank.
        targets: Names of linear layers, or their last components, with * and ?: "attn_q,attn_v" or a list of them; "all": all
            except those that make outputs.
        rank_stabilized: Scale by alpha / sqrt(rank) instead.
        dropout: The probability with which elements of an adapter's input are dropped in training.
    """

    rank: int = 16
    alpha: float = 32
    targets: Union[str, Sequence[str]] = "all"
    rank_stabilized: bool = False
    dropout: float = 0

    def _add(self, made: Any) -> None:
        """Adds the adapters to an opened model."""
        keep: List[Any] = []
        targets = self.targets if isinstance(self.targets, str) else ",".join(self.targets)
        made._call(lib.kn_model_adapt, make("kn_adapter_params", keep, **{**dataclasses.asdict(self), "targets": targets}))


def adapter_of(made: Any) -> Optional[Lora]:
    """The adapter of an opened model, with the layers that have one; None if it has none."""
    params = make("kn_adapter_params", [])
    if not lib.kn_model_adapter(made._pointer, params):
        return None
    layers = [name[:-len(".lora_a")] for name in made.state_names if name.endswith(".lora_a")]
    return Lora(int(params.rank), float(params.alpha), layers, bool(params.rank_stabilized), float(params.dropout))
