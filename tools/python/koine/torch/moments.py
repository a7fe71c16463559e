"""The state of a PyTorch optimizer (moments and step counts) on the device."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

import numpy as np
import torch

from .optimizers import RULES, kinds_of, start_of
from .resident import Count, Pool, Slot, release


class Kept(NamedTuple):
    """A trained parameter and its optimizer state."""

    slot: Slot
    tensor: Any


class Moments:
    """The optimizer state of the parameters that a traced step trains."""

    def __init__(self, pool: Pool, optimizer: Any, kept: Sequence[Kept]) -> None:
        self._pool, self._optimizer, self._kept = pool, optimizer, kept
        self._rule = RULES[type(optimizer)]
        self._shared: Optional[List[int]] = None  # the step count, if all parameters share it and no others do
        self._held: List[Any] = []  # per parameter after a step: PyTorch's optimizer state and the slots
        self._is_held = self._is_common = False
        self._kinds: List[Any] = []  # of the last step

    def look(self) -> None:
        """Before a step: checks whether anything changed since the last step."""
        state, moments, kinds = self._optimizer.state, self._pool.moments, kinds_of(self._optimizer)
        self._is_held = bool(self._held) and kinds == self._kinds and all(
            state.get(parameter) is kept and all(kept.get(theirs) is tensor and slot.resident and (not slot.name or moments.get(slot.name) is slot)
                                                 for theirs, tensor, slot in parts) for parameter, kept, parts in self._held)
        self._kinds = kinds
        # All parameters have the same step count.
        self._is_common = self._is_held and self._rule.counts and self._shared is not None and \
            all(parts[-1][2].shared is self._shared for _, _, parts in self._held)

    def steps(self) -> Set[int]:
        """The step counts of these parameters."""
        if self._is_common:
            return {self._shared[0]}  # type: ignore[index]
        found = set()
        for _, tensor in self._kept:
            kept = self._optimizer.state.get(tensor) or {}
            if not self._rule.counts:
                found.add(0 if kept.get("momentum_buffer") is None else 1)
            elif kept.get("step") is None:
                found.add(0)
            else:
                found.add(self._count_of(kept["step"]).shared[0])
        return found

    def _count_of(self, step: Any) -> Count:
        if not isinstance(step, torch.Tensor):
            return Count(self._pool, torch.zeros(()), [int(step)])
        count = self._pool.slots.get(step)
        if not isinstance(count, Count):
            release(step)
            count = self._pool.slots[step] = Count(self._pool, step, [int(step)])
        if not count.resident:
            count.send()
        return count

    def send(self) -> None:
        """Uploads the tensors that PyTorch may have written."""
        if self._is_held:
            return
        states, kinds = self._pool.states, self._kinds
        for slot, parameter in self._kept:
            kept = self._optimizer.state.get(parameter) or {}
            for theirs, ours in kinds:
                name, tensor = f"{slot.name}.{ours}", kept.get(theirs)
                there = self._pool.moments.get(name)
                own = None if tensor is None else self._pool.slots.get(tensor)
                if there is not None and there is own and own.resident:
                    continue
                if there is not None and there is not own:
                    there.release()  # belongs to another optimizer
                if tensor is None:
                    if name in states:
                        states[name] = np.full(tuple(parameter.shape), start_of(self._optimizer, ours), np.float32)
                    self._pool.moments[name] = None
                    continue
                if own is None or own.name != name:
                    release(tensor)
                    own = self._pool.slots[tensor] = Slot(self._pool, name, tensor)
                own.send()
                self._pool.moments[name] = own

    def hold(self) -> None:
        """Records the state after a step."""
        if self._is_common:
            self._shared[0] += 1  # type: ignore[index]
            return
        if self._is_held and not self._rule.counts:
            return
        self._held = []
        states, kinds = self._pool.states, self._kinds
        for slot, parameter in self._kept:
            names = [(theirs, f"{slot.name}.{ours}") for theirs, ours in kinds]
            if not all(name in states for _, name in names) or not names and not self._rule.counts:
                continue
            kept = self._optimizer.state[parameter]
            for theirs, name in names:
                own = self._pool.moments.get(name)
                if own is None:
                    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
                        kept[theirs] = torch.empty_like(parameter, memory_format=torch.preserve_format, requires_grad=False)
                    own = self._pool.slots[kept[theirs]] = Slot(self._pool, name, kept[theirs])
                    self._pool.moments[name] = own
                own.hold(True)
            parts = [(theirs, kept[theirs], self._pool.moments[name]) for theirs, name in names]
            if self._rule.counts:
                if kept.get("step") is None:
                    kept["step"] = torch.zeros((), dtype=torch.float32)
                parts.append(("step", kept["step"], self._count_of(kept["step"])))
            self._held.append((parameter, kept, parts))
        if self._rule.counts:
            self._count([parts[-1][2] for _, _, parts in self._held])

    def _count(self, counts: Sequence[Count]) -> None:
        """Adds a step to each parameter's count."""
        fresh: Dict[int, List[int]] = {}
        for count in counts:
            count.shared = fresh.setdefault(count.shared[0], [count.shared[0] + 1])
        self._shared = counts[0].shared if len(fresh) == 1 else None
        for count in counts:
            count.hold(True)
