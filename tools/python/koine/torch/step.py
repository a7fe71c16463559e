"""A training step of PyTorch's model, loss and optimizer, computed by Koine."""
from __future__ import annotations

import functools
import logging
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .._library import unknown
from ..device import Context, default_context
from ..errors import KoineError, error_of
from ..session import States
from ..train import Trainer
from .exchange import Exchange, array_of
from .loss import Loss
from .optimizers import decays_of, rates_of, settings_of, why_not
from .table import REASONS, ROWS, operators_kept
from .trace import KEPT_LOSSES, LOSSES, SLOT, Build, StepModule, exported

logger = logging.getLogger("koine")
# Keywords of koine.Trainer that a step takes; the others are the optimizer's, or would change what it counts.
TAKEN = ("clip_norm", "clip_value", "skip_not_finite", "precision", "memory_bytes", "recompute", "fast_math", "switches", "progress")
# After so many changes of a momentum, a decay and the like, each of which compiles the step again, PyTorch updates.
_CHANGES = 3


@functools.lru_cache
def _spec_of(count: int) -> Any:
    """The structure of so many arguments that are no structures, and no keywords."""
    return pytree.tree_flatten(((0,) * count, {}))[1]


def flattened(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Tuple[List[Any], Any]:
    """The leaves of a step's arguments, and their structure."""
    if not keywords and all(isinstance(argument, torch.Tensor) for argument in arguments):  # the usual ones, in a tenth of the time
        return list(arguments), _spec_of(len(arguments))
    return pytree.tree_flatten((tuple(arguments), dict(keywords)))


class Hook:
    """Calls a method of a step before or after one of the model or optimizer. A copy of these has a hook that does nothing."""

    def __init__(self, step: Optional["TrainStep"], method: str) -> None:
        self._step: Callable[[], Optional["TrainStep"]] = (lambda: None) if step is None else weakref.ref(step)
        self._method = method

    def __call__(self, *_: Any, **__: Any) -> None:
        step = self._step()
        if step is not None:
            getattr(step, self._method)()

    def __reduce__(self) -> Any:
        return Hook, (None, self._method)


class Traced:
    """A step as a graph, for arguments of certain shapes, and what runs it."""

    def __init__(self, build: Build, leaves: Sequence[Any], spec: Any, training: bool) -> None:
        self.build, self.spec, self.training = build, spec, training
        self.trainer: Optional[Trainer] = None
        self.groups: List[int] = []  # positions of the optimizer's groups, for each of the trainer's
        self.settings: Any = None  # for which the trainer was made
        self._is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        self._fixed = [(position, leaf) for position, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)]
        self._versions = [tensor._version for tensor in build.constants]
        self._shapes = [(position, build.graph.find(name).shape) for position, name in build.inputs]

    def takes(self, leaves: Sequence[Any], spec: Any, training: bool) -> bool:
        """Whether it computes the step on these arguments."""
        if training != self.training or (spec is not self.spec and spec != self.spec):
            return False
        if any(tensor._version != version for tensor, version in zip(self.build.constants, self._versions)):
            return False
        if [isinstance(leaf, torch.Tensor) for leaf in leaves] != self._is_tensor or any(leaves[place] != leaf for place, leaf in self._fixed):
            return False
        sizes: Dict[str, int] = {}
        return all(len(leaves[position].shape) == len(shape) and
                   all(size == word if isinstance(word, int) else sizes.setdefault(word, size) == size
                       for size, word in zip(leaves[position].shape, shape)) for position, shape in self._shapes)


class TrainStep:
    """What train_step returns: step(x, y) trains on a batch and returns its loss."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any], optimizer: torch.optim.Optimizer, context: Optional[Context],
                 seed: int, more: Mapping[str, Any]) -> None:
        for name in more:
            if name not in TAKEN:
                raise TypeError(unknown("argument", name, TAKEN))
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.context, self._more = context or default_context(), {"fast_math": True, **more, "seed": seed}
        self.states = States(self.context, seed)
        self._exchange = Exchange(model, loss, optimizer, self.states)
        self._traced: List[Traced] = []
        self._why_not: Optional[str] = None  # Koine's trainer does not update the parameters
        self._changes = -1
        self._settings: Any = None
        self._steps = 0  # of the optimizer
        self._losses = 0
        self._pending: Any = weakref.WeakValueDictionary()  # losses that have not been read, by their number
        self._is_ahead = False  # the device has what model and optimizer have not
        self._has_moments = False  # the device has the optimizer's
        reason = why_not(optimizer)
        if reason:
            self._leave_updates(reason)
        self._hooks = [model.register_state_dict_pre_hook(Hook(self, "sync")), model.register_forward_pre_hook(Hook(self, "sync")),
                       optimizer.register_state_dict_pre_hook(Hook(self, "sync")),
                       optimizer.register_load_state_dict_post_hook(Hook(self, "_take_moments"))]

    def __call__(self, *arguments: Any, **keywords: Any) -> Loss:
        """Trains on a batch: the arguments of the model, and the target last; keywords are the model's."""
        traced, leaves = self._traced_for(arguments, keywords)
        self._exchange.push()
        if not self._has_moments and not self._why_not:
            self._steps, self._has_moments = self._exchange.push_moments(), True
        trainer = self._ready(traced)
        loss = self._next_loss()
        trainer.step(self._feeds(traced, leaves, loss.number), wait=False)
        self._exchange.count(traced.build)
        self._is_ahead = True
        self._steps += 1
        if self._why_not:
            self._update_in_pytorch()
        self.optimizer._opt_called = True  # type: ignore[attr-defined]  # what schedulers look at
        return loss

    # ---- building ----------------------------------------------------------------------------------------------------

    def _traced_for(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Tuple[Traced, List[Any]]:
        """The step for these arguments, and their leaves."""
        if len(arguments) < 2:
            raise TypeError(f"a step takes the model's arguments and the target, as step(x, y); {len(arguments)} were given")
        leaves, spec = flattened(arguments, keywords)
        self._follow_settings()
        traced = next((traced for traced in self._traced if traced.takes(leaves, spec, self.model.training)), None)
        return traced or self._trace(leaves, spec), leaves

    @staticmethod
    def _feeds(traced: Traced, leaves: Sequence[Any], number: int) -> Dict[str, np.ndarray]:
        feeds = {name: array_of(leaves[position], f"argument {position}") for position, name in traced.build.inputs}
        feeds[SLOT] = np.array([number % KEPT_LOSSES], np.int32)
        return feeds

    def _trace(self, leaves: Sequence[Any], spec: Any) -> Traced:
        self.sync()
        module, kept = StepModule(self.model, self.loss, lambda given: pytree.tree_unflatten(list(given), spec)), operators_kept()

        def build(dynamic: bool) -> Build:
            return Build(exported(module, leaves, dynamic, kept), ROWS, REASONS, self._exchange.parameters, self._exchange.buffers)
        try:
            made = build(True)
        except KoineError as error:
            made = build(False)  # some operators want numbers where the batch is open
            logger.info("each size of a batch is traced by itself: %s", error)
        self._exchange.add(made)
        self._traced.append(Traced(made, leaves, spec, self.model.training))
        return self._traced[-1]

    def _ready(self, traced: Traced) -> Trainer:
        """The trainer, with the optimizer's settings, rates and number of steps."""
        if traced.trainer is None or traced.settings != self._settings:
            if traced.trainer is not None:
                traced.trainer.close()
            self._make_trainer(traced)
        trainer = traced.trainer
        assert trainer is not None
        if self._why_not:
            trainer.steps = 0
            return trainer
        if trainer.steps != self._steps:
            trainer.steps = self._steps
        rates = rates_of(self.optimizer)
        for place, position in enumerate(traced.groups):
            trainer.set_rate(rates[position], place)
        if not traced.groups:
            trainer.set_rate(rates[0])
        return trainer

    def _make_trainer(self, traced: Traced) -> None:
        build, more = traced.build, dict(self._more)
        if self._why_not:
            # The first of two steps that make an update, again and again: half its gradients stay in the states.
            settings: Dict[str, Any] = {"optimizer": "sgd", "momentum": 0.0, "accumulate": 2}
            more = {name: value for name, value in more.items() if name not in ("clip_norm", "clip_value")}
        else:
            settings, decays = self._settings
            settings = dict(settings)
            if len(decays) == 1:
                settings["weight_decay"] = decays[0]
            else:
                traced.groups = [i for i in range(len(decays)) if any(name.startswith(f"group{i}/") for name in build.parameters)]
                settings["groups"] = [{"pattern": f"group{i}/*", "weight_decay": decays[i]} for i in traced.groups]
        traced.settings = self._settings
        traced.trainer = Trainer(build.loss, self.context, extra=build.extra, states=self.states, **settings, **more)

    # ---- the optimizer -----------------------------------------------------------------------------------------------

    def _follow_settings(self) -> None:
        """Reads the optimizer's options; its rates are read at each step, and may change without a cost."""
        if self._why_not:
            return
        reason = why_not(self.optimizer)
        settings = None if reason else (settings_of(self.optimizer), decays_of(self.optimizer))
        if not reason and settings == self._settings:
            return
        self._changes += 1
        if not reason and self._changes > _CHANGES:
            reason = "the optimizer's options, other than its rates, change again and again"
        if reason:
            self.sync()
            self._leave_updates(reason)
        else:
            self._settings = settings

    def _leave_updates(self, reason: str) -> None:
        if isinstance(self.optimizer, torch.optim.LBFGS):
            raise error_of(5, "LBFGS computes the loss several times in a step, which Koine does not: choose another optimizer")
        self._why_not, self._settings = reason, reason
        logger.warning("%s: Koine computes the gradients, and PyTorch's %s updates the parameters, which are copied in each step",
                       reason, type(self.optimizer).__name__)

    def _update_in_pytorch(self) -> None:
        self._exchange.pull_gradients(2)
        parameters = [tensor for group in self.optimizer.param_groups for tensor in group["params"]]
        if self._more.get("clip_value"):
            torch.nn.utils.clip_grad_value_(parameters, self._more["clip_value"])
        if self._more.get("clip_norm"):
            torch.nn.utils.clip_grad_norm_(parameters, self._more["clip_norm"])
        self.optimizer.step()
        self._exchange.written()

    # ---- between PyTorch and the device ------------------------------------------------------------------------------

    def sync(self) -> None:
        """Brings parameters, buffers and moments back into model and optimizer, and waits for the device. Their state_dict(), and a
        call of the model, do it by themselves. What was written in PyTorch since the last step is kept."""
        if not self._is_ahead:
            return
        self._is_ahead = False
        self._exchange.pull(only_buffers=bool(self._why_not))
        if not self._why_not and self._has_moments:
            self._exchange.pull_moments(self._steps)

    def _take_moments(self) -> None:
        """After optimizer.load_state_dict."""
        self._has_moments = False

    # ---- losses ------------------------------------------------------------------------------------------------------

    def _next_loss(self) -> Loss:
        """The place of a loss in the state that keeps the last ones: a loss that may still be asked for is read before."""
        if self._losses - KEPT_LOSSES in self._pending:
            self._read_losses()
        loss = Loss(self._read_losses, self._losses)
        self._pending[self._losses] = loss
        self._losses += 1
        return loss

    def _read_losses(self) -> None:
        kept = self.states[LOSSES].reshape(-1)
        for number, loss in list(self._pending.items()):
            loss.value = float(kept[number % KEPT_LOSSES])
        self._pending.clear()

    def plan(self, *arguments: Any, **keywords: Any) -> Any:
        """What a step on these arguments does on the device; it is compiled, but not run. Without arguments: what the last traced step
        does."""
        if arguments or keywords:
            traced, leaves = self._traced_for(arguments, keywords)
            trainer = self._ready(traced)
            trainer.compile(feeds=self._feeds(traced, leaves, 0))
            return trainer.plan()
        if not self._traced or self._traced[-1].trainer is None:
            raise error_of(2, "nothing is planned before the first step")
        return self._traced[-1].trainer.plan()

    def close(self) -> None:
        """Brings all back and frees the device's memory; model and optimizer are PyTorch's alone again."""
        if not self.states.closed:
            self.sync()
            if self._pending:
                self._read_losses()
            for hook in self._hooks:
                hook.remove()
            for traced in self._traced:
                if traced.trainer is not None:
                    traced.trainer.close()
            self.states.close()

    def __enter__(self) -> "TrainStep":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<koine.torch.TrainStep of {type(self.model).__name__}>"
