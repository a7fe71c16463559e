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

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ._arrays import feeds_of, fetches_of, ready
from ._handle import busy, close_late
from ._library import NULL, encoded, ffi, lib, make, number_of, pointer_of, put, read, text, unknown
from ._samples import check_numbers
from ._settings import names_in, only, with_settings
from .callbacks import StopTraining
from .communicator import Communicator
from .dataset import Dataset, loader_params
from .device import Context, default_context, progress_into
from .errors import error_of
from .graph import Value
from .optim import Optimizer
from .session import Runs, Session, States, inputs_of
from .types import (PYTHON_NAMES, FitEpoch, FitResult, FitSettings, FitStep, LoaderSettings, OptimizerName, ParameterGroup, ScheduleName,
                    MemoryFit, Score, SessionSettings, TrainerSetting, TrainerSettings)

if TYPE_CHECKING:
    from typing_extensions import Unpack


def optimizers() -> List[str]:
    """Returns the names of the optimizers, such as "adamw"; koine.optim has a class for each."""
    return [text(lib.kn_optimizer_name(i)) or "" for i in range(lib.kn_optimizer_count())]


def _groups(groups: Sequence[ParameterGroup], keep: List[Any]) -> Any:
    rows = ffi.new("kn_parameter_group[]", max(1, len(groups)))
    for position, group in enumerate(groups):
        row = ffi.addressof(rows, position)
        row.size, row.rate_factor, row.weight_decay = ffi.sizeof("kn_parameter_group"), 1, -1
        for name, value in group.items():
            if name not in names_in(ParameterGroup):
                raise TypeError(unknown("setting of a group", name, names_in(ParameterGroup)))
            put(row, name, value, keep)
    keep.append(rows)
    return rows


def trainer_params(keep: List[Any], optimizer: Union[str, Optimizer] = "adam", groups: Sequence[ParameterGroup] = (),
                   milestones: Sequence[int] = (), **given: Any) -> Any:
    """kn_trainer_params with the default settings of an optimizer, and those that are given."""
    if isinstance(optimizer, Optimizer):
        twice = [name for name in optimizer.settings if given.get(name) is not None]
        if twice:
            raise TypeError(f"{twice[0]} is given twice: by optimizer={optimizer!r} and as {twice[0]}={given[twice[0]]!r}")
        given, optimizer = {**given, **optimizer.settings}, optimizer.name
    elif not isinstance(optimizer, (str, int)):
        raise TypeError(f"optimizer is {optimizer!r}; expected a name such as 'adam', or an optimizer of koine.optim such as koine.optim.Adam()")
    known = ["learning_rate", "schedule", *names_in(TrainerSettings)]
    number = number_of("kn_optimizer", optimizer)
    made = make("kn_trainer_params")
    lib.kn_trainer_params_choose(made, number)
    in_c = {python: field for field, python in PYTHON_NAMES["kn_trainer_params"].items()}
    only(known, given)
    for name, value in given.items():
        if value is None:
            continue
        if name in OF_OPTIMIZERS and not lib.kn_optimizer_reads(number, encoded(name)):
            owners = [word for i, word in enumerate(optimizers()) if lib.kn_optimizer_reads(i, encoded(name))]
            raise error_of(2, f"{name} applies to {', '.join(owners)}, but the optimizer is {optimizer}")
        put(made, in_c.get(name, name), value, keep)
    if groups:
        made.groups, made.group_count = _groups(groups, keep), len(groups)
    if milestones:
        put(made, "milestones", list(milestones), keep)
        made.milestone_count = len(milestones)
    return made


def trainer_settings() -> List[TrainerSetting]:
    """Returns the settings of a trainer that are flags, numbers or words, with their help and the option of koine train."""
    found: List[TrainerSetting] = []
    row = make("kn_trainer_setting")
    while lib.kn_trainer_setting_at(len(found), row):
        found.append(read(row))
    return found


# Settings that only some optimizers read.
OF_OPTIMIZERS = tuple(setting.name for setting in trainer_settings() if setting.owner == "optimizer")
# Settings whose defaults depend on the optimizer.
CHOSEN = (*OF_OPTIMIZERS, "weight_decay")


def _params(keep: List[Any], loss: Value, settings: Any) -> Any:
    """kn_trainer_params with their session, from keywords of Trainer."""
    pointer_of(loss, "Value")
    of_session = {name: settings.pop(name) for name in list(settings) if name in names_in(SessionSettings)}
    params = trainer_params(keep, **settings)
    session = make("kn_session_params", keep, **of_session)
    keep.append(session)
    params.session = session
    return params


class TrainingSettings(TrainerSettings, SessionSettings, total=False):
    """Keywords of koine.Trainer: those of training, and those of the session that computes its steps."""


@with_settings(TrainerSettings, SessionSettings, chosen=CHOSEN)
class Trainer(Runs):
    """Trains all unfrozen parameters that a loss depends on. It belongs to one thread at a time.

    Args:
        loss: The value to minimize, a scalar.
        context: The device; without it, default_context().
        optimizer: A name of optimizers(), or an optimizer of koine.optim with its settings.
        learning_rate: The rate that the schedule starts from; None: the optimizer's default.
        schedule: The learning rate over the updates. "cosine", "one-cycle" and "polynomial" need total_steps.
        extra: Values to compute in each step besides the loss, such as an accuracy.
        states: The parameters, shared with sessions; without it, new ones.
        groups: Settings for some parameters, by patterns of their names: [{"pattern": "*.bias", "weight_decay": 0}, …].
        milestones: Of the schedule "multi-step": the updates after which the rate falls.
        communicator: This worker's end of a group of workers that train one model.
        shard_counts: How many shards of a batch each worker computes; without it, equally many if possible.
        progress: A function of (label, done, total), which is called while kernels are compiled.

    Example:
        >>> import koine
        >>> x = koine.Graph().input("x", "batch,2")
        >>> trainer = koine.Trainer((x.linear(1) ** 2).mean(), optimizer=koine.optim.SGD(learning_rate=0.1), clip_norm=1.0)
        >>> trainer.learning_rate
        0.1
    """

    _error, _kind = "kn_trainer_error", "kn_trainer"

    def __init__(self, loss: Value, context: Optional[Context] = None, *, optimizer: Union[OptimizerName, Optimizer] = "adam",
                 learning_rate: Optional[float] = None, schedule: ScheduleName = "constant", extra: Sequence[Value] = (),
                 states: Optional[States] = None, groups: Sequence[ParameterGroup] = (), milestones: Sequence[int] = (),
                 communicator: Optional[Communicator] = None, shard_counts: Sequence[int] = (),
                 progress: Optional[Callable[[str, int, int], None]] = None, **settings: Unpack[TrainingSettings]) -> None:
        context = context or default_context()
        keep: List[Any] = []
        given: Any = dict(settings)
        of_session = {name: given.pop(name) for name in settings if name in names_in(SessionSettings)}
        session = make("kn_session_params", keep, states=states, **of_session)
        progress_into(session.progress, progress, keep)
        self.states = states if states is not None else States(context, session.seed)
        session.states = pointer_of(self.states, "States")
        params = trainer_params(keep, optimizer, groups, milestones, learning_rate=learning_rate, schedule=schedule, **given)
        params.session = session
        if communicator is not None:
            params.communicator = pointer_of(communicator, "Communicator")
        if shard_counts:
            put(params, "shard_counts", list(shard_counts), keep)
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
             late: bool = False, out: Optional[Mapping[str, np.ndarray]] = None, **more: Any) -> Optional[float]:
        """Trains for one step.

        Args:
            feeds: Arrays by the names of the inputs.
            count: The number of samples; None: the first dimension of the arrays.
            wait: Wait for the loss; False: return when the work is queued.
            late: Return the loss of the previous step with `late` instead, NaN in the first, so that the device is never idle.
            out: Arrays for the trainer's extra values, by name; not with `late`.
            **more: More arrays, whose names are keywords.

        Returns:
            The loss before the update; None without wait.
        """
        keep: List[Any] = []
        if late and (out or not wait):
            raise ValueError("late excludes out and wait=False")
        loss = ffi.new("double *") if wait else NULL
        with self._lock:
            number, made, feed_count = self._batch(feeds, more, count, keep)
            if out:
                fetches = fetches_of(list(out), list(out.values()), keep)
                self._call(lib.kn_trainer_step_fetch, number, made, feed_count, loss, fetches, len(out))
            else:
                self._call(lib.kn_trainer_step_late if late else lib.kn_trainer_step, number, made, feed_count, loss)
        return float(loss[0]) if wait else None

    def evaluate(self, values: Mapping[str, Tuple[Value, np.ndarray]], feeds: Optional[Mapping[str, Any]] = None, *,
                 count: Optional[int] = None, **more: Any) -> None:
        """Computes values in inference mode.

        Args:
            values: Values and the arrays for their results: {name: (value, array)}.
            feeds: Arrays by the names of the inputs.
            count: The number of samples; None: the first dimension of the arrays.
            **more: More arrays, whose names are keywords.
        """
        keep: List[Any] = []
        if not isinstance(values, Mapping):
            raise TypeError(f"expected values and arrays by name, {{name: (value, array)}}, found {type(values).__name__}")
        pointers = ffi.new("kn_value *[]", [pointer_of(value, "Value") for value, _ in values.values()])
        with self._lock:
            number, made, feed_count = self._batch(feeds, more, count, keep)
            fetches = fetches_of([value.name for value, _ in values.values()], [array for _, array in values.values()], keep)
            self._call(lib.kn_trainer_evaluate, number, made, feed_count, pointers, fetches, len(values))

    def part(self, count: int) -> slice:
        """Returns the samples of a batch of `count` that this worker computes, and feeds to step()."""
        first, own = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        self._call(lib.kn_trainer_local_samples, count, first, own)
        return slice(int(first[0]), int(first[0] + own[0]))

    def compile(self, count: Optional[int] = None, feeds: Optional[Mapping[str, Any]] = None) -> None:
        """Compiles the step without running it.

        Args:
            count: The number of samples.
            feeds: Arrays whose shapes give other open sizes, and the count if that is None.
        """
        if feeds is None:
            self._call(lib.kn_trainer_compile, 1 if count is None else count)
        else:
            keep: List[Any] = []
            count, made, number = self._batch(feeds, {}, count, keep)
            self._call(lib.kn_trainer_compile_for, count, made, number)

    @property
    def steps(self) -> int:
        """The number of steps done. Set it after loading the states of an earlier run."""
        return int(lib.kn_trainer_steps(self._pointer))

    @steps.setter
    def steps(self, steps: int) -> None:
        lib.kn_trainer_set_steps(self._pointer, steps)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step. Setting it changes the rate that the schedule starts from."""
        return float(lib.kn_trainer_learning_rate(self._pointer))

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.set_rate(rate)

    def set_rate(self, rate: float, group: int = -1) -> None:
        """Changes the learning rate that the schedule starts from, without compiling again.

        Args:
            rate: The new rate.
            group: The position of a group, whose rate_factor is changed instead; -1: none.
        """
        self._call(lib.kn_trainer_set_learning_rate, group, rate)

    def set_momentum(self, momentum: float, beta2: float = 0.0, group: int = -1) -> None:
        """Changes the momentum and betas, without compiling again; needs variable_momentum.

        Args:
            momentum: The new momentum, or beta1 for optimizers without a momentum.
            beta2: The new beta2, for optimizers that have one.
            group: The position of a group that has its own values from now on; -1: the parameters without a group.
        """
        self._call(lib.kn_trainer_set_momentum, group, momentum, beta2)

    def report_validation(self, loss: float) -> None:
        """Reports a validation loss to the schedule "plateau"."""
        self._call(lib.kn_trainer_report_validation, loss)

    def set_memory(self, memory_bytes: int) -> None:
        """Changes how much device memory steps may need that are compiled from now on; 0: all of it."""
        with self._lock:
            lib.kn_trainer_set_memory_bytes(self._pointer, memory_bytes)

    def collect(self) -> None:
        """Collects the states from all workers, before they are saved or evaluated. All workers call it; Trainer.fit does for callbacks.

        With shard_optimizer the first worker gets the whole states, until its next step. With sync_every the round ends.
        """
        self._call(lib.kn_trainer_collect)

    @property
    def steps_alone(self) -> int:
        """With sync_every: the steps of this worker since the last exchange; 0: all workers have the same parameters."""
        return int(lib.kn_trainer_local_steps(self._pointer))

    def use_averages(self, use: bool) -> None:
        """Exchanges the weights for their moving averages (True), or back (False)."""
        self._call(lib.kn_trainer_use_averages, use)

    def find_not_finite(self, feeds: Optional[Mapping[str, Any]] = None, count: Optional[int] = None, **more: Any) -> Optional[str]:
        """Finds the first operator of a step whose result is not finite.

        Args:
            feeds: Arrays by the names of the inputs.
            count: The number of samples; None: the first dimension of the arrays.
            **more: More arrays, whose names are keywords.

        Returns:
            A sentence that names the operator; None if all results are finite.
        """
        keep: List[Any] = []
        room = ffi.new("char[]", 1024)
        with self._lock:
            number, made, feed_count = self._batch(feeds, more, count, keep)
            code = lib.kn_trainer_find_not_finite(self._pointer, number, made, feed_count, room, 1024)
            if code not in (0, 12):
                raise error_of(code, self._message())
        return text(room) if code == 0 else None

    @with_settings(FitSettings)
    def fit(self, dataset: Dataset, *, batch_size: int = 64, augment: Any = None, loader: Optional[LoaderSettings] = None,
            validation_data: Optional[Dataset] = None, eval_session: Optional[Session] = None, loss: Optional[str] = None,
            accuracy: Optional[str] = None, on_step: Optional[Callable[[FitStep], Any]] = None,
            on_epoch: Optional[Callable[[FitEpoch], Any]] = None,
            on_validation: Optional[Callable[[int, int], Any]] = None, needs_states: Optional[Callable[[int], bool]] = None,
            restore_best: Optional[Callable[[], bool]] = None, **settings: Unpack[FitSettings]) -> FitResult:
        """Runs the training loop on a dataset, with at least one limit: epochs, steps or seconds.

        A callback that returns False or raises koine.StopTraining stops training after the step and keeps the states; other
        exceptions are raised again. Ctrl-C does the same.

        Args:
            dataset: The samples, whose fields are fed by name.
            batch_size: Samples per step.
            augment: Random changes of the samples, such as "flip,crop=4".
            loader: More settings of the loader.
            validation_data: Samples to evaluate after each epoch.
            eval_session: An inference session on the trainer's states, which evaluates them.
            loss: The name of the loss in that session.
            accuracy: The name of the accuracy in that session.
            on_step: A function of a FitStep, called after each step.
            on_epoch: A function of a FitEpoch, called after each epoch.
            on_validation: A function of the number of samples that were validated, and of the number of all.
            needs_states: A function of a step's number: whether on_step needs the states of exactly that step.
            restore_best: A function that restores the best states, which an earlier run saved.

        Returns:
            Why training ended, and the last numbers.
        """
        keep: List[Any] = []
        trouble: List[BaseException] = []
        limits: Any = {name: settings.get(name) for name in ("epochs", "steps", "seconds")}
        check_numbers(whole=("epochs", "steps", "batch_size"), batch_size=batch_size, **limits)
        if not (any(limits.values()) or settings.get("patience") or on_step or on_epoch):
            raise ValueError("nothing would end the training: give epochs, steps or seconds")
        params = make("kn_fit_params", keep, validation=validation_data, eval_session=eval_session, loss=loss, accuracy=accuracy, **settings)
        batches = loader_params(keep, augment, **{"batch_size": batch_size, **(loader or {})})
        params.loader = batches

        def callback(kind: str, function: Callable[..., Any], error: Optional[bool] = False) -> Any:
            made = ffi.callback(kind, function, error=error, onerror=lambda _kind, value, _trace: trouble.append(value))
            keep.append(made)
            return made

        def goes_on(report: Optional[Callable[[Any], Any]], pointer: Any) -> bool:
            try:
                return not trouble and (report is None or report(read(pointer)) is not False)
            except StopTraining:
                return False
        params.on_step = callback("bool(void *, kn_fit_step *)", lambda _user, step: goes_on(on_step, step))
        params.on_epoch = callback("bool(void *, kn_fit_epoch *)", lambda _user, epoch: goes_on(on_epoch, epoch))
        if on_validation is not None:
            params.on_validation = callback("void(void *, uint64_t, uint64_t)", lambda _user, done, all: on_validation(done, all) and None, None)
        if needs_states is not None:
            params.needs_states = callback("bool(void *, uint64_t)", lambda _user, step: bool(needs_states(step)))
        if restore_best is not None:
            params.restore_best = callback("bool(void *)", lambda _user: bool(restore_best()))
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

    @staticmethod
    def fit_memory(loss: Value, batch_size: int, sample: Mapping[str, Any], *, eval_values: Sequence[Value] = (),
                   context: Optional[Context] = None, whole: bool = False, **settings: Any) -> Tuple[MemoryFit, Dict[str, Any]]:
        """Finds out how training fits into the device's memory, without running it.

        Args:
            loss: The value to minimize.
            batch_size: Samples of a batch.
            sample: One sample for each input by name, with a first dimension of 1.
            eval_values: What is evaluated with the same states, such as a loss and an accuracy.
            context: The device; without it, default_context().
            whole: The batch is made smaller instead of being computed in parts.
            **settings: Keywords of koine.Trainer, such as optimizer and memory_bytes.

        Returns:
            What fits, and the keywords of koine.Trainer for it: micro_batch and offload_optimizer.

        Example:
            >>> import koine, numpy as np
            >>> x = koine.Graph().input("x", "batch,2")
            >>> fit, keywords = koine.Trainer.fit_memory((x.linear(1) ** 2).mean(), 64, {"x": np.zeros((1, 2), np.float32)})
            >>> fit.batch, keywords
            (64, {'micro_batch': 0, 'offload_optimizer': False})
        """
        keep: List[Any] = []
        check_numbers(whole=("batch_size",), batch_size=batch_size)
        params = _params(keep, loss, settings)
        inputs, names = inputs_of(loss.graph), list(sample)
        for name in names:
            if name not in inputs:
                raise TypeError(unknown("input", name, list(inputs)))
        feeds = feeds_of(names, [ready(sample[name], inputs[name][0], name) for name in names], keep)
        values = ffi.new("kn_value *[]", [pointer_of(value, "Value") for value in eval_values] or 1)
        request = make("kn_memory_request", keep, batch=batch_size, whole=whole)
        request.feeds, request.eval_feeds, request.feed_count = feeds, feeds, len(names)
        request.eval_values, request.eval_value_count = values, len(eval_values)
        made, session, fit = ffi.new("kn_trainer **"), ffi.new("kn_session **"), make("kn_memory_fit")
        with loss.graph._lock:
            code = lib.kn_fit_prepare(pointer_of(context or default_context(), "Context"), loss._pointer, params, request, made, session, fit)
            lib.kn_session_destroy(session)
            lib.kn_trainer_destroy(made)
        if code:
            raise error_of(code, text(fit.message))
        return read(fit), {"micro_batch": int(params.micro_batch), "offload_optimizer": bool(params.offload_optimizer)}

    @staticmethod
    def deal_shards(loss: Value, dataset: Dataset, contexts: Sequence[Context], shards: int, batch_size: int = 64, **settings: Any) -> List[int]:
        """Measures a training step on each device and distributes the shards of a batch, so that a step takes the least time.

        Args:
            loss: The value to minimize.
            dataset: The samples.
            contexts: The devices. The first gets at least one shard.
            shards: The number of shards of a batch, a power of two.
            batch_size: Samples of a batch.
            **settings: Keywords of koine.Trainer, such as optimizer.

        Returns:
            The number of shards of each device, for shard_counts of koine.Trainer; a device with 0 is not worth using.
        """
        keep: List[Any] = []
        check_numbers(whole=("batch_size", "shards"), batch_size=batch_size, shards=shards)
        params = _params(keep, loss, {**settings, "shards": shards})
        batches = loader_params(keep, None, batch_size=batch_size)
        room, seconds = ffi.new("char[]", 600), ffi.new("double[]", len(contexts))
        with loss.graph._lock:
            for i, context in enumerate(contexts):
                code = lib.kn_shard_seconds(pointer_of(context, "Context"), loss._pointer, params, dataset._pointer, batches, seconds + i,
                                            room, 600)
                if code:
                    raise error_of(code, f"{context.name}: {text(room)}")
        counts = ffi.new("int[]", len(contexts))
        code = lib.kn_deal_shards(seconds, len(contexts), shards, counts)
        if code:
            raise error_of(code, f"{shards} shards for {len(contexts)} devices; expected at least one of each")
        return list(counts)

    def __repr__(self) -> str:
        return "<koine.Trainer, closed>" if self.closed else f"<koine.Trainer after {self.steps} steps>"


def evaluate(session: Session, dataset: Dataset, loss: str, accuracy: Optional[str] = None, batch_size: int = 64) -> Score:
    """Mean loss and accuracy of a session, which computes values of these names, over all samples."""
    score = make("kn_score")
    with session._lock:
        code = lib.kn_evaluate(pointer_of(session, "Session"), pointer_of(dataset, "Dataset"), batch_size, encoded(loss), encoded(accuracy) if accuracy else NULL, score)
        if code:
            raise error_of(code, session._message() or text(lib.kn_dataset_error(dataset._pointer)))
    return read(score)
