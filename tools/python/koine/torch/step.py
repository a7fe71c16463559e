"""A training step of a PyTorch model, loss and optimizer, run by Koine."""
from __future__ import annotations

import functools
import inspect
import logging
import re
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .._library import unknown
from ..device import Context, default_context
from ..errors import KoineError, error_of
from ..train import Trainer
from .exchange import array_of
from .guards import Guards
from .loss import Loss
from .moments import Kept, Moments
from .optimizers import counts_matter, decays_may_vary, decays_of, decays_vary, momenta_of, rates_of, settings_of, why_not
from .ranges import range_of, within
from .resident import Added, Baked, Pool, Slot, none, note_origin, pool_for, release
from .table import REASONS, ROWS, operators_kept
from .trace import KEPT_LOSSES, SLOT, Build, Captured, Names, StepModule, exported

logger = logging.getLogger("koine")
# Keywords of koine.Trainer that a step accepts; the others belong to the optimizer, or would change the step count.
TAKEN = ("accumulate", "clip_norm", "clip_value", "skip_not_finite", "precision", "memory_bytes", "recompute", "fast_math", "switches", "progress")
# Each change of a momentum, a decay etc. recompiles the step; after this many changes, PyTorch does the update.
_CHANGES = 3
# The number of cached traces, and the number of changes of one value before a warning.
_MOST_TRACES, _MANY = 16, 8


@functools.lru_cache
def _spec_of(count: int) -> Any:
    """The pytree spec of `count` leaf arguments without keywords."""
    return pytree.tree_flatten(((0,) * count, {}))[1]


def flattened(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Tuple[List[Any], Any]:
    """The leaves of a step's arguments, and their structure."""
    if not keywords and all(isinstance(argument, torch.Tensor) for argument in arguments):  # the common case, 10x faster
        return list(arguments), _spec_of(len(arguments))
    return pytree.tree_flatten((tuple(arguments), dict(keywords)))


def takes_target(loss: Any) -> bool:
    """Whether a loss is a function of output and target, not only of the output."""
    try:
        parameters = inspect.signature(loss.forward if isinstance(loss, torch.nn.Module) else loss).parameters.values()
    except (TypeError, ValueError):
        return True
    kinds = [parameter.kind for parameter in parameters]
    return inspect.Parameter.VAR_POSITIONAL in kinds or \
        sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds) > 1


def loss_in(output: Any) -> Any:
    """The loss that a model returns: the output, its attribute or key "loss", or of several outputs the only one without dimensions,
    as in `return logits, loss`, otherwise the first."""
    if isinstance(output, Mapping) and "loss" in output:
        return output["loss"]
    if getattr(output, "loss", None) is not None:
        return output.loss
    if not isinstance(output, (tuple, list)) or not output:
        return output
    numbers = [item for item in output if isinstance(item, torch.Tensor) and not item.dim()]
    return numbers[0] if len(numbers) == 1 else output[0]


class Hook:
    """An optimizer hook that calls a method of a step. In a copy of the optimizer the hook does nothing."""

    def __init__(self, step: Optional["TrainStep"], method: str) -> None:
        self._step: Callable[[], Optional["TrainStep"]] = (lambda: None) if step is None else weakref.ref(step)
        self._method = method

    def __call__(self, *_: Any, **__: Any) -> None:
        step = self._step()
        if step is not None:
            getattr(step, self._method)()

    def __reduce__(self) -> Any:
        return Hook, (None, self._method)


class Tensors(Names):
    """The tensors of a step's module, and their slots in a pool."""

    def __init__(self, module: StepModule, optimizer: Any, pool: Pool) -> None:
        self.parameters = dict(module.named_parameters(remove_duplicate=False))
        self.buffers = dict(module.named_buffers(remove_duplicate=False))
        self._group_of = {id(tensor): position for position, group in enumerate(optimizer.param_groups) for tensor in group["params"]}
        self._several, self._pool = len(optimizer.param_groups) > 1, pool

    @staticmethod
    def _name(path: str) -> str:
        """Replaces characters that state names cannot contain."""
        path = path[len("model."):] if path.startswith("model.") else path
        return re.sub(r"[^A-Za-z0-9_./-]", "_", path)

    def parameter(self, path: str) -> Tuple[Slot, bool]:
        """If there are several groups, the group's name is a prefix of a trained parameter's name."""
        tensor = self.parameters[path]
        group = self._group_of.get(id(tensor))
        trained = group is not None and tensor.requires_grad
        return self._pool.slot(tensor, self._name(path), f"group{group}/" if self._several and trained else ""), trained

    def buffer(self, path: str, changed: bool) -> Tuple[Optional[Slot], Any]:
        tensor = self.buffers[path]
        if changed or tensor in self._pool.changing or tensor in self._pool.slots:
            return self._pool.slot(tensor, self._name(path)), tensor
        return None, tensor


class Traced:
    """A traced step for arguments of certain shapes: its graph and trainers."""

    def __init__(self, build: Build, leaves: Sequence[Any], spec: Any, guards: Guards, tensors: Tensors, optimizer: Any, pool: Pool) -> None:
        self.build, self.spec, self.guards = build, spec, guards
        self.lifted: List[Tuple[Any, Any]] = []  # locations of numbers that are inputs
        self.effects: List[Tuple[Any, Any, Any]] = []  # values that the model changes: location, name, value after a step
        self.trainers: Dict[Any, Trainer] = {}  # by who does the update
        self.settings: Any = None  # the settings of the trainers
        self.groups: List[int] = []  # the optimizer's group index for each trainer group
        self.slots: List[Slot] = list(build.slots.values())
        self.trained = list(build.trained_slots.values())
        self.changed = set(build.changed_slots.values())
        self.tensors = [slot.tensor for slot in self.slots]
        self.counters: List[Tuple[Added, int]] = []
        for tensor, by in build.counters:
            added = pool.counters.get(tensor)
            if added is None:
                added = pool.counters[tensor] = Added(pool, "", tensor)
            self.counters.append((added, by))
            self.tensors.append(tensor)
        self.baked = [Baked(pool, path, tensor, array) for path, tensor, array in build.constants]
        self.tensors += [tensor for _, tensor, _ in build.constants]
        self.moments: Optional[Moments] = None
        self.seen: Any = None  # the pool's release count after the last run
        self.is_exposed = False
        self._is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        self._fixed = [(position, leaf) for position, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)]
        self.inputs = [(position, name) for position, name in build.inputs if position < len(leaves)]
        self.numbers = [(position - len(leaves), name) for position, name in build.inputs if position >= len(leaves)]
        self._shapes = [(position, build.graph.find(name).shape) for position, name in self.inputs]
        self._dtypes = [(position, leaves[position].dtype) for position, _ in self.inputs]
        self._parameters = list(tensors.parameters.values())
        self._required = [tensor.requires_grad for tensor in self._parameters]
        self._groups = groups_of(optimizer)

    def takes(self, leaves: Sequence[Any], spec: Any, optimizer: Any) -> bool:
        """Whether the trace is valid for these arguments."""
        if spec is not self.spec and spec != self.spec:
            return False
        if [isinstance(leaf, torch.Tensor) for leaf in leaves] != self._is_tensor or any(not equal(leaves[place], leaf) for place, leaf in self._fixed):
            return False
        sizes: Dict[str, int] = {}
        return all(leaves[position].dtype == dtype for position, dtype in self._dtypes) and \
            all(len(leaves[position].shape) == len(shape) and
                all(size == word if isinstance(word, int) else sizes.setdefault(word, size) == size
                    for size, word in zip(leaves[position].shape, shape)) for position, shape in self._shapes) and \
            all(within(range_of(leaves[position]), limits) for position, limits in self.build.limits.items()) and \
            self.holds(optimizer)

    def holds(self, optimizer: Any) -> bool:
        """Whether all values that the trace has read are unchanged."""
        with torch._C.DisableTorchFunctionSubclass():
            if [tensor.requires_grad for tensor in self._parameters] != self._required:
                return False
        return groups_of(optimizer) == self._groups and self.guards.holds() and all(baked.same() for baked in self.baked)

    def close(self) -> None:
        for trainer in self.trainers.values():
            trainer.close()
        self.trainers.clear()


def equal(one: Any, other: Any) -> bool:
    """Compares two arguments that are not tensors."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except (TypeError, ValueError, RuntimeError):
        return False


def groups_of(optimizer: Any) -> List[List[int]]:
    return [list(map(id, group["params"])) for group in optimizer.param_groups]


class TrainStep:
    """The result of train_step: step(x, y) trains on a batch and returns its loss."""

    def __init__(self, model: torch.nn.Module, loss: Optional[Callable[..., Any]], optimizer: torch.optim.Optimizer, context: Optional[Context],
                 seed: int, more: Mapping[str, Any]) -> None:
        for name in more:
            if name not in TAKEN:
                raise TypeError(unknown("argument", name, TAKEN))
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"the model is a {type(model).__name__}; expected a torch.nn.Module")
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"the optimizer is a {type(optimizer).__name__}; expected a torch.optim.Optimizer: train_step(model, loss, optimizer)")
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.context, self._seed = context or default_context(), seed
        self._more = {"fast_math": True, **more, "seed": seed}
        self._accumulate = int(self._more.pop("accumulate", 1) or 1)
        if self._accumulate < 1:
            raise ValueError(f"accumulate is {self._accumulate}; expected at least 1")
        self._place = 0  # the index of the next step in its update
        self._has_target = loss is not None and takes_target(loss)
        self.pool: Pool = None  # type: ignore[assignment]
        pool_for(self.context, seed, self._tensors(), self, self._enter)
        self._traced: List[Traced] = []
        self._warned: set = set()
        self._lifted: Dict[Tuple[int, Any], Any] = {}  # locations of numbers that have changed and are now inputs
        self._not_lifted: set = set()  # locations for which this failed
        self._retraced: Dict[str, int] = {}
        self._changes = -1
        self._settings: Any = None
        self._momenta: Any = None
        self._vary = False  # the momentum and betas are set before each step
        self._is_closed = False
        self._why_not = self._follow_settings()
        self._hooks = [optimizer.register_state_dict_pre_hook(Hook(self, "_release_moments"))]

    def _tensors(self) -> List[Any]:
        modules = [self.model] + ([self.loss] if isinstance(self.loss, torch.nn.Module) else [])
        return [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())] + \
            [tensor for group in self.optimizer.param_groups for tensor in group["params"]]

    def _enter(self, pool: Pool) -> None:
        """Switches the step to the states of this pool."""
        if self.pool is not None and self.pool is not pool:
            for traced in self._traced:
                traced.close()
            self._traced = []
        self.pool = pool

    def __call__(self, *arguments: Any, **keywords: Any) -> Loss:
        """Trains on a batch. The last argument is the target; all others, and the keywords, go to the model. If the model returns its
        loss, or the loss is a function of only the output, all arguments go to the model."""
        self._check()
        traced, leaves = self._traced_for(arguments, keywords)
        return self._run(traced, leaves)

    def _check(self) -> None:
        if self._is_closed:
            raise error_of(2, "the step is closed")
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                raise error_of(5, f"the step is called under torch.autocast({kind!r}), which has no effect on Koine: call it outside, "
                               "and use train_step(precision=\"bfloat16\") or \"float16\"")

    # ---- building ----------------------------------------------------------------------------------------------------

    def _traced_for(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Tuple[Traced, List[Any]]:
        """The trace for these arguments, and their leaves."""
        if self._has_target and len(arguments) < 2 and not (arguments and keywords):
            raise TypeError(f"a step takes the model's arguments and the target, as step(x, y); {len(arguments)} were given. If the model "
                            "returns its loss, pass loss=None to train_step")
        leaves, spec = flattened(arguments, keywords)
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                raise error_of(5, f"argument {place} requires a gradient, which a step does not compute: give it detach()ed, or make it a parameter "
                               "of the model")
        traced = next((traced for traced in self._traced if traced.takes(leaves, spec, self.optimizer)), None)
        return traced or self._trace(leaves, spec), leaves

    @staticmethod
    def _feeds(traced: Traced, leaves: Sequence[Any], number: int) -> Dict[str, np.ndarray]:
        feeds = {name: array_of(leaves[position], f"argument {position}") for position, name in traced.inputs}
        for position, name in traced.numbers:
            bag, key = traced.lifted[position]
            feeds[name] = np.array(bag.get(key), np.float32)
        feeds[SLOT] = np.array([number % KEPT_LOSSES], np.int32)
        return feeds

    def _compute(self, model: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        if self._has_target:
            return self.loss(model(*arguments[:-1], **keywords), arguments[-1])  # type: ignore[misc]
        output = model(*arguments, **keywords)
        return loss_in(output) if self.loss is None else self.loss(output)

    def _trace(self, leaves: Sequence[Any], spec: Any) -> Traced:
        self._note_changes()
        self._refuse_hooks()
        for tensor in self._tensors():
            release(tensor)
        guards = Guards({"model": self.model, **({} if self.loss is None else {"loss": self.loss})})
        lifted = [(bag, key) for bag in guards.bags if bag.can_set for key, value in zip(bag.kept_keys, bag.kept)
                  if type(value) is float and (id(bag.holder), key) in self._lifted]
        if lifted:
            try:
                return self._trace_with(leaves, spec, guards, lifted)
            except KoineError as error:
                logger.info("changing numbers stay constants of the graph: %s", error)
            self._not_lifted.update((id(bag.holder), key) for bag, key in lifted)
            self._lifted.clear()
        return self._trace_with(leaves, spec, guards, [])

    def _trace_with(self, leaves: Sequence[Any], spec: Any, guards: Guards, lifted: Sequence[Tuple[Any, Any]]) -> Traced:
        """Traces the step; numbers at the locations `lifted` are inputs."""
        captured = Captured(guards.tensors)
        effects: List[Any] = []
        module = StepModule(self.model, self._compute, self.loss, lambda given: pytree.tree_unflatten(list(given), spec), guards.modules,
                            captured, lifted, lambda: effects.__setitem__(slice(None), undone(guards)))
        everything = [*self._tensors(), *module.parameters(), *module.buffers()]
        for tensor in everything:
            release(tensor)
            note_origin(tensor)
        pool_for(self.context, self._seed, everything, self, self._enter)
        tensors = Tensors(module, self.optimizer, self.pool)

        def build(dynamic: bool) -> Build:
            numbers = [torch.tensor(bag.get(key), dtype=torch.float32) for bag, key in lifted]
            return Build(exported(module, [*leaves, *numbers], dynamic, operators_kept()), ROWS, REASONS, tensors,
                         leaves)
        made: Optional[Build] = None
        try:
            made = build(True)
        except KoineError as error:  # some operators need a static batch size
            logger.info("each batch size is traced separately: %s", error)
        made = made or build(False)
        undone(guards)  # torch.export replaces lists in modules, such as those of nn.LSTM, by copies
        refuse_overlaps(made)
        traced = Traced(made, leaves, spec, guards, tensors, self.optimizer, self.pool)
        traced.effects, traced.lifted = list(effects), list(lifted)
        for bag, key in lifted:
            bag.free.add(key)
        traced.moments = Moments(self.pool, self.optimizer, [Kept(slot, slot.tensor) for slot in traced.trained]) if not why_not(self.optimizer) else None
        self._traced.append(traced)
        while len(self._traced) > _MOST_TRACES:
            self._traced.pop(0).close()
        return traced

    def _note_changes(self) -> None:
        """Before a new trace: records the changes since the last one. A constant tensor that was written becomes a state."""
        for traced in self._traced:
            for baked in traced.baked:
                if baked.tensor is not None and not baked.same():
                    self.pool.changing[baked.tensor] = None
        if not self._traced:
            return
        for bag, key, before, now in self._traced[-1].guards.changed():
            name = bag.name_of(key)
            if type(before) is type(now) is float and (id(bag.holder), key) not in self._not_lifted:
                self._lifted[(id(bag.holder), key)] = bag.holder
            self._retraced[name] = self._retraced.get(name, 0) + 1
            if self._retraced[name] == _MANY:
                logger.warning("%s keeps changing, and each change retraces the step, which is slow: pass it to the step as an "
                               "argument, or make it a buffer of the model", name)

    def _refuse_hooks(self) -> None:
        for name, module in self.model.named_modules():
            if module._backward_hooks or module._backward_pre_hooks:
                raise error_of(5, f"module '{name}' has backward hooks, which Koine does not call: remove them, or train with PyTorch")

    def _trainer_for(self, traced: Traced, reason: Optional[str]) -> Trainer:
        """The trainer that updates, or, if there is a reason, the trainer that only computes gradients; with the optimizer's rates."""
        key = reason is not None
        if not key and traced.settings != self._settings and key in traced.trainers:
            traced.trainers.pop(key).close()
        if key not in traced.trainers:
            traced.trainers[key] = self._make_trainer(traced, key)
        trainer = traced.trainers[key]
        if not key:
            rates = rates_of(self.optimizer)
            for place, position in enumerate(traced.groups):
                trainer.set_rate(rates[position], place)
            if not traced.groups:
                trainer.set_rate(rates[0])
            if self._vary:
                for place, position in enumerate(traced.groups or [0]):
                    trainer.set_momentum(*self._momenta[position], place if traced.groups else -1)
        return trainer

    def _make_trainer(self, traced: Traced, only_gradients: bool) -> Trainer:
        build, more = traced.build, dict(self._more)
        if only_gradients:
            # Accumulate without ever updating: one step more than needed, so that the gradient sum stays in the states.
            settings: Dict[str, Any] = {"optimizer": "sgd", "momentum": 0.0, "accumulate": self._accumulate + 1}
            more = {name: value for name, value in more.items() if name not in ("clip_norm", "clip_value")}
        else:
            settings, decays = self._settings
            settings = {**settings, "accumulate": self._accumulate}
            if len(decays) == 1:
                settings["weight_decay"] = decays[0]
            else:
                traced.groups = [i for i in range(len(decays)) if any(name.startswith(f"group{i}/") for name in build.trained_slots)]
                settings["groups"] = [{"pattern": f"group{i}/*", "weight_decay": decays[i]} for i in traced.groups]
            traced.settings = self._settings
        return Trainer(build.loss, self.context, extra=build.extra, states=self.pool.states, **settings, **more)

    # ---- running -----------------------------------------------------------------------------------------------------

    def _run(self, traced: Traced, leaves: Sequence[Any]) -> Loss:
        pool, is_last = self.pool, self._place == self._accumulate - 1
        self._check_accumulation(traced)
        is_held = pool.last() is traced and traced.seen == pool.releases and not traced.is_exposed
        if not is_held:
            self._send(traced)
        reason = self._reason_for(traced)
        if reason and self._place == 0:
            self._warn(reason)
        if not reason:
            assert traced.moments is not None
            traced.moments.send()
        trainer = self._trainer_for(traced, reason)
        trainer.steps = self._place if reason else self._steps * self._accumulate + self._place
        loss = pool.losses.next()
        trainer.step(self._feeds(traced, leaves, loss.number), wait=False)
        for bag, key, value in traced.effects:
            bag.set(key, value)
        self._place = (self._place + 1) % self._accumulate
        pool.accumulating = None if is_last else (weakref.ref(self), set(traced.build.trained_slots))
        updates = is_last and not reason
        if not is_held or not updates:
            self._hold(traced, updates)
        for added, by in traced.counters:
            added.waiting += by
            added.hold(True)
        if updates:
            assert traced.moments is not None
            traced.moments.hold()
        pool.last, traced.seen = weakref.ref(traced) if updates else none, pool.releases
        if is_last:
            self._finish(traced, reason)
        return loss

    def _check_accumulation(self, traced: Traced) -> None:
        if self.pool.accumulating is None:
            return
        of, names = self.pool.accumulating
        step = of()
        if step is not None and step is not self and self._accumulate > 1:
            raise error_of(2, "another step that shares tensors with this one is between two updates: end its update first")
        if step is self and names != set(traced.build.trained_slots):
            raise error_of(5, "the steps of one update train different parameters, so their gradients cannot be accumulated")

    def _send(self, traced: Traced) -> None:
        for slot in traced.slots:
            slot.send()
        for added, _ in traced.counters:
            added.send()
        if self._place == 0:
            for group in self.optimizer.param_groups:
                for tensor in group["params"]:
                    if tensor.grad is not None:
                        tensor.grad = None

    def _hold(self, traced: Traced, updates: bool) -> None:
        trained = set(traced.trained) if updates else set()
        for slot in traced.slots:
            slot.hold(slot in trained or slot in traced.changed)
        for baked in traced.baked:
            baked.hold(False)
        traced.is_exposed = not all(slot.resident for slot in traced.slots)

    def _finish(self, traced: Traced, reason: Optional[str]) -> None:
        if reason:
            self._update_in_pytorch(traced)
            return
        self.optimizer._opt_called = True  # type: ignore[attr-defined]  # checked by schedulers
        for hook in list(self.optimizer._optimizer_step_post_hooks.values()):
            hook(self.optimizer, (), {})

    # ---- the optimizer -----------------------------------------------------------------------------------------------

    def _reason_for(self, traced: Traced) -> Optional[str]:
        """Why Koine does not update the parameters in this step; None if it does."""
        reason = self._why_not = self._follow_settings()
        if reason:
            return reason
        if traced.moments is None:
            traced.moments = Moments(self.pool, self.optimizer, [Kept(slot, slot.tensor) for slot in traced.trained])
        if self.optimizer._optimizer_step_pre_hooks:
            return "the optimizer has hooks before its steps"
        with torch._C.DisableTorchFunctionSubclass():
            for slot in traced.trained:
                tensor = slot.tensor
                if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
                    return f"the parameter {slot.name} has hooks for its gradient"
        traced.moments.look()
        if self._place == 0:
            steps = traced.moments.steps()
            if len(steps) > 1 and counts_matter(self.optimizer):
                return f"the optimizer has made {', '.join(map(str, sorted(steps)))} steps with different parameters"
            self._steps = max(steps, default=0)
        return None

    def _follow_settings(self) -> Optional[str]:
        """Reads the optimizer's options. Learning rates are read at each step, and changing them is free; so are the momentum and betas once
        they have changed. Returns why Koine does not update, or None."""
        if isinstance(self.optimizer, torch.optim.LBFGS):
            raise error_of(5, "LBFGS evaluates the loss several times per step, which Koine does not support: choose another optimizer")
        if self._changes > _CHANGES:
            return "the optimizer's options, other than its rates, change again and again"
        reason = why_not(self.optimizer)
        if reason:
            return reason
        momenta = momenta_of(self.optimizer)
        self._vary = decays_may_vary(self.optimizer) and (self._vary or decays_vary(self.optimizer) or self._momenta not in (None, momenta))
        self._momenta = momenta
        settings = (settings_of(self.optimizer, self._vary), decays_of(self.optimizer))
        if settings != self._settings:
            self._changes += 1
            if self._changes > _CHANGES:
                return self._follow_settings()
            self._settings = settings
        return None

    def _warn(self, reason: str) -> None:
        kind = re.sub(r"\d+", "", reason)
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning("%s: Koine computes the gradients, and PyTorch's %s updates the parameters, which are copied in each step",
                           reason, type(self.optimizer).__name__)

    def _update_in_pytorch(self, traced: Traced) -> None:
        factor = (self._accumulate + 1) / self._accumulate
        for tensor in (tensor for group in self.optimizer.param_groups for tensor in group["params"]):
            release(tensor)
            tensor.grad = None
        for slot in traced.trained:
            name, tensor = f"{slot.name}.gradient", slot.tensor
            if name in self.pool.states:
                tensor.grad = torch.from_numpy(self.pool.states[name]).mul_(factor).to(tensor.device)
        self._call_hooks(traced)
        parameters = [tensor for group in self.optimizer.param_groups for tensor in group["params"]]
        if self._more.get("clip_value"):
            torch.nn.utils.clip_grad_value_(parameters, self._more["clip_value"])
        if self._more.get("clip_norm"):
            torch.nn.utils.clip_grad_norm_(parameters, self._more["clip_norm"])
        self.optimizer.step()

    @staticmethod
    def _call_hooks(traced: Traced) -> None:
        """Calls the tensor hooks that PyTorch calls in the backward pass."""
        for slot in traced.trained:
            tensor = slot.tensor
            for hook in list((tensor._backward_hooks or {}).values()):
                found = hook(tensor.grad)
                if found is not None:
                    tensor.grad = found
            for hook in list((getattr(tensor, "_post_accumulate_grad_hooks", None) or {}).values()):
                hook(tensor)

    # ---- between PyTorch and the device ------------------------------------------------------------------------------

    def sync(self) -> None:
        """Copies parameters, buffers and moments back to the model and optimizer, and waits for the device. This happens automatically
        for each tensor that PyTorch reads or writes."""
        for traced in self._traced:
            for tensor in traced.tensors:
                release(tensor)
        for tensor in self._tensors():
            release(tensor)
        self._release_moments()

    def _release_moments(self) -> None:
        for kept in self.optimizer.state.values():
            for tensor in kept.values() if isinstance(kept, dict) else ():
                if isinstance(tensor, torch.Tensor):
                    release(tensor)

    def plan(self, *arguments: Any, **keywords: Any) -> Any:
        """The execution plan of a step on these arguments, which is compiled but not run. Without arguments: the plan of the last traced
        step."""
        if arguments or keywords:
            traced, leaves = self._traced_for(arguments, keywords)
            trainer = self._trainer_for(traced, self._reason_for(traced))
            trainer.compile(feeds=self._feeds(traced, leaves, 0))
            return trainer.plan()
        if not self._traced or not self._traced[-1].trainers:
            raise error_of(2, "there is no plan before the first step")
        return list(self._traced[-1].trainers.values())[-1].plan()

    def close(self) -> None:
        """Copies all tensors back and frees the device memory, unless other steps share it. PyTorch then owns model and optimizer again."""
        if self._is_closed:
            return
        self._is_closed = True
        self.sync()
        self.pool.losses.read()
        for hook in self._hooks:
            hook.remove()
        for traced in self._traced:
            traced.close()
        self.pool.steps.discard(self)
        if not self.pool.steps:
            self.pool.release()
            self.pool.states.close()

    def __enter__(self) -> "TrainStep":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<koine.torch.TrainStep of {type(self.model).__name__}>"


def undone(guards: Guards) -> List[Tuple[Any, Any, Any]]:
    """Reverts the model's changes during tracing, and returns the changes of plain values, which each step repeats."""
    effects = []
    for bag, key, before, after in list(guards.changed()):
        if not bag.can_set or bag.is_registered:
            continue
        bag.set(key, before)
        if isinstance(after, (bool, int, float, str)) or after is None and not isinstance(before, torch.Tensor):
            effects.append((bag, key, after))
    return effects


def refuse_overlaps(build: Build) -> None:
    """Refuses tensors that share memory: they would be two separate states."""
    owners: Dict[int, Any] = {}
    written = {*build.trained_slots, *build.changed_slots}
    for name, tensor in [(slot.name, slot.tensor) for slot in build.slots.values()] + [(path, tensor) for path, tensor, _ in build.constants]:
        if not tensor.numel():
            continue
        place = tensor.untyped_storage().data_ptr()
        other, other_tensor = owners.setdefault(place, (name, tensor))
        if other_tensor is not tensor and (name in written or other in written):
            raise error_of(5, f"{other} and {name} are two tensors in the same memory, of which a step writes one: use one parameter for both")
