"""What model and optimizer share with the states of a device: parameters, buffers, moments, by names."""
from __future__ import annotations

import re
from typing import Any, Callable, Dict, Tuple

import numpy as np
import torch

from .._arrays import as_array
from ..errors import error_of
from ..session import States
from .optimizers import RULES, keep_steps, steps_of
from .trace import TYPES, Build

_NUMPY_TYPES = {theirs: np.dtype(ours) for theirs, ours in TYPES.items()}


def array_of(tensor: Any, what: str = "a tensor") -> np.ndarray:
    """A tensor, of any device, in the type that Koine has it in. Integers must have 32 bits."""
    if tensor.dtype == torch.int64 and tensor.numel():
        low, high = map(int, torch.aminmax(tensor))
        if not -2**31 <= low <= high < 2**31:
            raise error_of(4, f"{what} (shape {tuple(tensor.shape)}) has the numbers {low} to {high}; Koine computes integers in 32 bits: "
                           "give smaller ones, or compute this part in PyTorch")
    array = as_array(tensor.float() if tensor.dtype == torch.bfloat16 else tensor)
    return array.astype(_NUMPY_TYPES[tensor.dtype], copy=False) if tensor.dtype in TYPES else array


class Exchange:
    """parameters and buffers: by their paths in the traced module, the name of the state, the tensor, and whether it is trained.

    Tensors that were written since the device got them are known by their version, a counter of PyTorch.
    """

    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any], optimizer: torch.optim.Optimizer, states: States) -> None:
        self.optimizer, self.states = optimizer, states
        self.parameters: Dict[str, Tuple[str, Any, bool]] = {}
        self.buffers: Dict[str, Tuple[str, Any]] = {}
        self.on_device: Dict[str, Any] = {}  # tensors of the states that graphs have
        self._versions: Dict[str, int] = {}
        self._counted: Dict[str, Tuple[Any, int, int]] = {}  # of counters: the tensor, its version, what is to be added
        self._names: Dict[int, str] = {}
        self._name_all("model.", model)
        if isinstance(loss, torch.nn.Module):
            self._name_all("loss.", loss)

    # ---- names -------------------------------------------------------------------------------------------------------

    def _name_all(self, prefix: str, module: torch.nn.Module) -> None:
        """Names are the module's; if there are several groups, that of a trained parameter begins with its group's."""
        group_of = {id(tensor): position for position, group in enumerate(self.optimizer.param_groups) for tensor in group["params"]}
        several = len(self.optimizer.param_groups) > 1
        short = "" if prefix == "model." else prefix
        for path, tensor in module.named_parameters(remove_duplicate=False):
            group = group_of.get(id(tensor))
            trained = group is not None and tensor.requires_grad
            front = f"group{group}/" if several and trained else ""
            self.parameters[prefix + path] = (self._name(front + short + path, tensor), tensor, trained)
        for path, tensor in module.named_buffers(remove_duplicate=False):
            self.buffers[prefix + path] = (self._name(short + path, tensor), tensor)

    def _name(self, path: str, tensor: Any) -> str:
        """One name for each tensor, in the letters that names of states have."""
        if id(tensor) not in self._names:
            name, used = re.sub(r"[^A-Za-z0-9_./-]", "_", path), set(self._names.values())
            while name in used:
                name += "_"
            self._names[id(tensor)] = name
        return self._names[id(tensor)]

    # ---- parameters and buffers --------------------------------------------------------------------------------------

    def add(self, build: Build) -> None:
        """The states of a graph."""
        self.on_device.update(build.parameters)
        self.on_device.update(build.buffers)

    def push(self) -> None:
        """To the device, what it has not."""
        for name, tensor in self.on_device.items():
            if self._versions.get(name) != tensor._version:
                self.states[name] = array_of(tensor, name)
                self._versions[name] = tensor._version

    def count(self, build: Build) -> None:
        """A step was made: what only counts steps is added up here. What was written in PyTorch counts from there."""
        for name, (tensor, by) in build.counters.items():
            _, version, waiting = self._counted.get(name, (tensor, tensor._version, 0))
            self._counted[name] = (tensor, tensor._version, by + (waiting if version == tensor._version else 0))

    def written(self) -> None:
        """The optimizer has written the trained parameters; fused ones do not count versions."""
        for name in self._trained():
            self._versions.pop(name, None)

    def pull(self, only_buffers: bool = False) -> None:
        """From the device."""
        self.push()  # what was written in PyTorch counts
        buffers = {name for name, _ in self.buffers.values()}
        with torch.no_grad():
            for tensor, version, waiting in self._counted.values():
                if tensor._version == version:
                    tensor.add_(waiting)
            self._counted.clear()
            for name, tensor in self.on_device.items():
                if name in self.states and (name in buffers or not only_buffers):
                    tensor.copy_(torch.from_numpy(self.states[name]))
                    self._versions[name] = tensor._version

    # ---- moments -----------------------------------------------------------------------------------------------------

    def _trained(self) -> Dict[str, Any]:
        return {name: tensor for name, tensor, trained in self.parameters.values() if trained and name in self.on_device}

    def push_moments(self) -> int:
        """Those of the optimizer; returns how many steps it has made."""
        rule, steps = RULES[type(self.optimizer)], steps_of(self.optimizer)
        for name, tensor in self._trained().items():
            kept = self.optimizer.state.get(tensor, {})
            for theirs, ours in rule.moments.items():
                if kept.get(theirs) is not None:
                    self.states[f"{name}.{ours}"] = array_of(kept[theirs])
                elif f"{name}.{ours}" in self.states:
                    self.states[f"{name}.{ours}"] = np.zeros(tensor.shape, np.float32)
        return steps

    def pull_moments(self, steps: int) -> None:
        rule = RULES[type(self.optimizer)]
        for name, tensor in self._trained().items():
            found = {theirs: self.states[f"{name}.{ours}"] for theirs, ours in rule.moments.items() if f"{name}.{ours}" in self.states}
            if found:
                kept = self.optimizer.state[tensor]
                kept.update({theirs: torch.from_numpy(array).to(tensor.device) for theirs, array in found.items()})
                keep_steps(kept, steps, rule)

    def pull_gradients(self, factor: float) -> None:
        """Of the states PARAMETER.gradient, times a factor, into tensor.grad."""
        for name, tensor in self._trained().items():
            array = self.states[f"{name}.gradient"] if f"{name}.gradient" in self.states else None
            tensor.grad = None if array is None else torch.from_numpy(array).mul_(factor).to(tensor.device)
