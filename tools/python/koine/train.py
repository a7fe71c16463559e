"""Trainers: an optimizer, a schedule, and the step that applies them to a loss; and the training loop.

>>> import koine, numpy as np
>>> graph = koine.Graph()
>>> x, y = graph.input("x", "batch,2"), graph.input("y", "batch,1")
>>> trainer = koine.Trainer(x.linear(1).mse(y), optimizer="sgd", learning_rate=0.1)
>>> points = np.random.default_rng(1).random((64, 2), np.float32)
>>> losses = [trainer.step(x=points, y=points.sum(1, keepdims=True)) for _ in range(50)]
>>> losses[-1] < losses[0] / 10
True
"""
from __future__ import annotations

from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._arrays import fetches_of
from ._handle import busy, close_late
from ._library import NULL, encoded, ffi, fields_of, lib, make, number_of, pointer_of, put, read, Record, text, unknown, with_fields
from ._samples import check_numbers
from .communicator import Communicator
from .dataset import Dataset, loader_params
from .device import Context, default_context, progress_into
from .errors import error_of
from .graph import Value
from .session import Runs, Session, States, inputs_of

FIT_ENDS = ("done", "patience", "stopped", "failed")


def optimizers() -> List[str]:
    """The optimizers' names."""
    return [text(lib.kn_optimizer_name(i)) or "" for i in range(lib.kn_optimizer_count())]


def _groups(groups: Sequence[Mapping[str, Any]], keep: List[Any]) -> Any:
    rows = ffi.new("kn_parameter_group[]", max(1, len(groups)))
    for position, group in enumerate(groups):
        row = ffi.addressof(rows, position)
        row.size, row.rate_factor, row.weight_decay = ffi.sizeof("kn_parameter_group"), 1, -1
        for name, value in group.items():
            if name not in fields_of("kn_parameter_group"):
                raise TypeError(unknown("setting of a group", name, ["pattern", "rate_factor", "weight_decay", "frozen"]))
            put(row, name, value, keep)
    keep.append(rows)
    return rows


def trainer_params(keep: List[Any], optimizer: str = "adam", groups: Sequence[Mapping[str, Any]] = (), milestones: Sequence[int] = (),
                   **given: Any) -> Any:
    """kn_trainer_params with the usual values of an optimizer, and those that are given."""
    params = make("kn_trainer_params")
    number = number_of("kn_optimizer", optimizer)
    lib.kn_trainer_params_choose(params, number)
    for name, value in given.items():
        if name not in RULE:
            raise TypeError(unknown("argument", name, RULE))
        if value is None:
            continue
        if name in _OF_OPTIMIZERS and not lib.kn_optimizer_reads(number, encoded(name)):
            owners = [word for i, word in enumerate(optimizers()) if lib.kn_optimizer_reads(i, encoded(name))]
            raise error_of(2, f"{name} applies to {', '.join(owners)}, but the optimizer is {optimizer}")
        put(params, name, value, keep)
    if groups:
        params.groups, params.group_count = _groups(groups, keep), len(groups)
    if milestones:
        put(params, "milestones", list(milestones), keep)
        params.milestone_count = len(milestones)
    return params


# The keywords of trainers.
RULE = [name for name in fields_of("kn_trainer_params") if name not in (
    "size", "session", "extra", "extra_count", "group_count", "milestone_count", "communicator", "shard_counts")]
_OF_OPTIMIZERS = ("momentum", "dampening", "nesterov", "amsgrad", "centered", "beta1", "beta2", "epsilon", "rate_decay", "accumulator")


class Trainer(Runs):
    """Trains all unfrozen parameters that a loss, a scalar, depends on. It belongs to one thread at a time.

    optimizer: a name of optimizers(), whose usual values other keywords override. extra: values to compute in each step
    besides the loss. groups: settings for some parameters, [{"pattern": "*.bias", "weight_decay": 0}, …]. communicator: of
    this worker among several; shards and deal: how batches are cut, and how many each worker computes;
    sync_batch_norm: batch norms over all workers, with a shard for each. sync_every: so many steps that each worker makes
    alone, a multiple of accumulate, before all go on from the same parameters, by outer_rate and outer_momentum.
    offload_optimizer: what the optimizer keeps waits in host memory between updates.
    """

    _error, _kind = "kn_trainer_error", "kn_trainer"

    def __init__(self, loss: Value, context: Optional[Context] = None, *, optimizer: str = "adam", extra: Sequence[Value] = (),
                 states: Optional[States] = None, groups: Sequence[Mapping[str, Any]] = (), milestones: Sequence[int] = (),
                 communicator: Optional[Communicator] = None, deal: Sequence[int] = (), progress: Any = None, **more: Any) -> None:
        context = context or default_context()
        keep: List[Any] = []
        of_session = {name: more.pop(name) for name in list(more) if name in fields_of("kn_session_params")}
        session = make("kn_session_params", keep, states=states, **of_session)
        progress_into(session.progress, progress, keep)
        self.states = states if states is not None else States(context, session.seed)
        session.states = pointer_of(self.states, "States")
        params = trainer_params(keep, optimizer, groups, milestones, **more)
        params.session = session
        if communicator is not None:
            params.communicator = pointer_of(communicator, "Communicator")
        if deal:
            put(params, "shard_counts", list(deal), keep)
        values = ffi.new("kn_value *[]", [pointer_of(value, "Value") for value in extra] or 1)
        params.extra, params.extra_count = values, len(extra)
        pointer_of(loss, "Value")
        self.context, self._inputs = context, inputs_of(loss.graph)
        with loss.graph._lock:
            made = lib.kn_trainer_create(pointer_of(context, "Context"), loss._pointer, params)
            self._open_checked(made, lib.kn_trainer_destroy, lib.kn_trainer_status, context, self.states,
                               *([communicator] if communicator is not None else []), lock=self.states._core.lock)
        self._core.keep += keep

    def _batch(self, feeds: Optional[Mapping[str, Any]], more: Mapping[str, Any], count: Optional[int], keep: List[Any]) -> Tuple[int, Any, int]:
        made, number, symbols = self._feeds({**(feeds or {}), **more}, keep)
        if count is None:
            first = next((array for array in keep if isinstance(array, np.ndarray) and array.ndim), None)
            count = symbols.get("batch", len(first) if first is not None else 1)
        return count, made, number

    def step(self, feeds: Optional[Mapping[str, Any]] = None, *, count: Optional[int] = None, wait: bool = True,
             out: Optional[Mapping[str, np.ndarray]] = None, **more: Any) -> Optional[float]:
        """One step on arrays by name, or as keywords; returns the loss before the update. wait=False returns None once the
        work is enqueued. out: arrays for extra values, by name."""
        keep: List[Any] = []
        loss = ffi.new("double *") if wait else NULL
        with self._lock:
            number, made, feed_count = self._batch(feeds, more, count, keep)
            if out:
                fetches = fetches_of(list(out), list(out.values()), keep)
                self._call(lib.kn_trainer_step_fetch, number, made, feed_count, loss, fetches, len(out))
            else:
                self._call(lib.kn_trainer_step, number, made, feed_count, loss)
        return float(loss[0]) if wait else None

    def evaluate(self, values: Mapping[str, Tuple[Value, np.ndarray]], feeds: Optional[Mapping[str, Any]] = None, *,
                 count: Optional[int] = None, **more: Any) -> None:
        """Computes values in inference mode into arrays: {name: (value, array)}."""
        keep: List[Any] = []
        if not isinstance(values, Mapping):
            raise TypeError(f"expected values and arrays by name, {{name: (value, array)}}, found {type(values).__name__}")
        pointers = ffi.new("kn_value *[]", [pointer_of(value, "Value") for value, _ in values.values()])
        with self._lock:
            number, made, feed_count = self._batch(feeds, more, count, keep)
            fetches = fetches_of([value.name for value, _ in values.values()], [array for _, array in values.values()], keep)
            self._call(lib.kn_trainer_evaluate, number, made, feed_count, pointers, fetches, len(values))

    def part(self, count: int) -> slice:
        """The samples of a batch of `count` that this worker computes, and feeds to step()."""
        first, own = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        self._call(lib.kn_trainer_local_samples, count, first, own)
        return slice(int(first[0]), int(first[0] + own[0]))

    def compile(self, count: Optional[int] = None, feeds: Optional[Mapping[str, Any]] = None) -> None:
        """Compiles the step for batches of `count`; feeds give other open sizes, and the count where it is left out."""
        if feeds is None:
            self._call(lib.kn_trainer_compile, 1 if count is None else count)
        else:
            keep: List[Any] = []
            count, made, number = self._batch(feeds, {}, count, keep)
            self._call(lib.kn_trainer_compile_for, count, made, number)

    @property
    def steps(self) -> int:
        """Steps done; set it after the states of another run were loaded."""
        return int(lib.kn_trainer_steps(self._pointer))

    @steps.setter
    def steps(self, steps: int) -> None:
        lib.kn_trainer_set_steps(self._pointer, steps)

    @property
    def learning_rate(self) -> float:
        """Of the next step."""
        return float(lib.kn_trainer_learning_rate(self._pointer))

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.set_rate(rate)

    def set_rate(self, rate: float, group: int = -1) -> None:
        """Changes the learning rate that the schedule starts from, or the rate_factor of a group, without compiling again."""
        self._call(lib.kn_trainer_set_learning_rate, group, rate)

    def judged(self, loss: float) -> None:
        """Reports a validation loss to the schedule "plateau"."""
        self._call(lib.kn_trainer_report_validation, loss)

    def set_memory(self, memory_bytes: int) -> None:
        """Changes how much memory of the device steps that are compiled from now on may need; 0: all of it."""
        with self._lock:
            lib.kn_trainer_set_memory_bytes(self._pointer, memory_bytes)

    def collect(self) -> None:
        """All workers call it before states are saved or evaluated; Trainer.fit does so for its callbacks. With
        shard_optimizer the first gets the states of which each has a part as a whole, until its next step. With sync_every
        it ends the round."""
        self._call(lib.kn_trainer_collect)

    @property
    def steps_alone(self) -> int:
        """With sync_every: the steps made alone since the last round; 0: all workers have the same parameters."""
        return int(lib.kn_trainer_local_steps(self._pointer))

    def use_averages(self, use: bool) -> None:
        """Exchanges the weights for their moving averages, or back."""
        self._call(lib.kn_trainer_use_averages, use)

    def find_not_finite(self, feeds: Optional[Mapping[str, Any]] = None, count: Optional[int] = None, **more: Any) -> Optional[str]:
        """A sentence that names the first operator of a step with a non-finite result; None if all are finite."""
        keep: List[Any] = []
        room = ffi.new("char[]", 1024)
        with self._lock:
            number, made, feed_count = self._batch(feeds, more, count, keep)
            code = lib.kn_trainer_find_not_finite(self._pointer, number, made, feed_count, room, 1024)
            if code not in (0, 12):
                raise error_of(code, self._message())
        return text(room) if code == 0 else None

    def fit(self, dataset: Dataset, *, batch: int = 64, augment: Any = None, loader: Optional[Mapping[str, Any]] = None,
            validation: Optional[Dataset] = None, judge: Optional[Session] = None, loss: Optional[str] = None,
            accuracy: Optional[str] = None, on_step: Optional[Callable[[Record], Any]] = None,
            on_epoch: Optional[Callable[[Record], Any]] = None,
            on_validation: Optional[Callable[[int, int], Any]] = None, wait_for: Optional[Callable[[int], bool]] = None,
            to_best: Optional[Callable[[], bool]] = None, **more: Any) -> Record:
        """The training loop on a dataset, with at least one limit: epochs, steps or seconds. Callbacks get Records; one that returns False, or raises, stops it after the step,
        with the states kept; what was raised is raised again. So does Ctrl-C. on_validation is called with the number of validated
        samples and that of all."""
        keep: List[Any] = []
        trouble: List[BaseException] = []
        limits = {name: more.get(name) for name in ("epochs", "steps", "seconds")}
        check_numbers(whole=("epochs", "steps", "batch"), batch=batch, **limits)
        if not (any(limits.values()) or more.get("patience") or on_step or on_epoch):
            raise ValueError("nothing would end the training: give epochs, steps or seconds")
        params = make("kn_fit_params", keep, validation=validation, eval_session=judge, loss=loss, accuracy=accuracy, **more)
        batches = loader_params(keep, augment, **{"batch": batch, **(loader or {})})
        params.loader = batches

        def callback(kind: str, function: Callable[..., Any], error: Optional[bool] = False) -> Any:
            made = ffi.callback(kind, function, error=error, onerror=lambda _kind, value, _trace: trouble.append(value))
            keep.append(made)
            return made

        def goes_on(report: Optional[Callable[[Record], Any]], pointer: Any) -> bool:
            return not trouble and (report is None or report(read(pointer)) is not False)
        params.on_step = callback("bool(void *, kn_fit_step *)", lambda _user, step: goes_on(on_step, step))
        params.on_epoch = callback("bool(void *, kn_fit_epoch *)", lambda _user, epoch: goes_on(on_epoch, epoch))
        if on_validation is not None:
            params.on_validation = callback("void(void *, uint64_t, uint64_t)", lambda _user, done, all: on_validation(done, all) and None, None)
        if wait_for is not None:
            params.needs_states = callback("bool(void *, uint64_t)", lambda _user, step: bool(wait_for(step)))
        if to_best is not None:
            params.restore_best = callback("bool(void *)", lambda _user: bool(to_best()))
        result = make("kn_fit_result")
        result.validation.size = ffi.sizeof("kn_score")
        with self._lock, busy(self._core.lock):
            code = lib.kn_fit(self._pointer, dataset._pointer, params, result)
        close_late()
        if trouble:
            raise trouble[0]
        if code:
            raise error_of(code, text(result.message))
        return read(result)

    def __repr__(self) -> str:
        return "<koine.Trainer, closed>" if self.closed else f"<koine.Trainer after {self.steps} steps>"


Trainer.__init__.__doc__ = with_fields("kn_trainer_params", "optimizer", "groups", "milestones", "session", "extra", "communicator", "shard_counts")(Trainer.__init__).__doc__
Trainer.fit.__doc__ = with_fields("kn_fit_params", "loader", "validation", "eval_session", "loss", "accuracy", "on_step", "on_epoch",
                                  "on_validation", "needs_states", "restore_best")(Trainer.fit).__doc__


def evaluate(session: Session, dataset: Dataset, loss: str, accuracy: Optional[str] = None, batch: int = 64) -> Record:
    """Mean loss and accuracy of a session, which computes values of these names, over all samples."""
    score = make("kn_score")
    with session._lock:
        code = lib.kn_evaluate(pointer_of(session, "Session"), pointer_of(dataset, "Dataset"), batch, encoded(loss), encoded(accuracy) if accuracy else NULL, score)
        if code:
            raise error_of(code, session._message() or text(lib.kn_dataset_error(dataset._pointer)))
    return read(score)
