"""One call of Model.fit(): its data, its trainer, and the loop over batches from an iterable."""
from __future__ import annotations

import contextlib
import math
import os
import time
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, Optional, Sequence, Tuple, Union

import numpy as np

from ._library import lib
from ._log import logger
from ._samples import batches_of, by_name, check_labels, fed, has_several_texts, is_samples
from .dataset import Dataset, augmentation
from .callbacks import Callback, StopTraining
from .errors import NotFiniteError, error_of
from .io import Checkpoints
from .history import History
from .session import Session, States
from .train import Trainer
from .types import FitEpoch, FitStep, Score

if TYPE_CHECKING:
    from .model import Model

Path = Union[str, "os.PathLike[str]"]


class Run:
    """One call of fit()."""

    def __init__(self, model: Model, given: Any, batch_size: int, validation: Any) -> None:
        self.model, self.given, self.batch_size, self.validation = model, given, batch_size, validation
        self.words: Dict[str, Any] = {}
        self.loader: Dict[str, Any] = {}
        self.options: Dict[str, Any] = {}
        self.callbacks: Sequence[Any] = ()
        self.sample_weight: Any = None
        self.validate_samples: Optional[int] = None
        self.bar: Any = None
        self.train: Optional[Dataset] = None  # None: data is an iterable of batches
        self.validation_data: Any = None
        self.checkpoints: Optional[Checkpoints] = None
        self.history = History()

    # ---- opening ----

    def open(self, loss: Optional[str], augment: Optional[str], class_weights: Any) -> None:
        model = self.model
        self.augment = augmentation(None if augment == "none" else augment or model.augmentation)
        mixed = self.augment.mix_up != 0 or self.augment.cut_mix != 0
        weights = None if class_weights is None or isinstance(class_weights, str) else np.ascontiguousarray(class_weights, np.float32)
        if isinstance(class_weights, str) and class_weights != "balanced":
            raise ValueError(f"class_weights is {class_weights!r}; expected 'balanced' or an array")
        model._take_shapes(self.given, self.batch_size)
        model._need_loss(loss, weights, mixed, exactly=True)
        if is_samples(self.given):
            self._open_samples()
            if isinstance(class_weights, str) and self.train is not None:
                model._need_loss(loss, self._balanced(), mixed, exactly=True)
        elif self.sample_weight is not None:
            raise ValueError("sample_weight needs all samples at once: give arrays")
        elif isinstance(class_weights, str):
            raise ValueError("class_weights='balanced' needs all samples at once: give an array of weights")
        elif isinstance(self.validation, float) and self.validation:
            raise ValueError("validation_split needs all samples at once: give validation_data, as (x, y) or batches")
        if self.validation_data is None and self.validation is not None and not isinstance(self.validation, float):
            self.validation_data = model._dataset(self.validation, training=False) if is_samples(self.validation) else self.validation
            if isinstance(self.validation_data, Dataset) and isinstance(self.validation, (str, Dataset)) and self.validation_data.spec is not None:
                self.validation_data = self.validation_data.test or self.validation_data
            if self.train is not None and not isinstance(self.validation_data, Dataset):
                self.validation_data = model._dataset(self._collected(self.validation_data), training=False)
        limit = self.validate_samples
        if limit is not None and self.validation_data is None:
            raise ValueError("validate_samples needs validation data: give validation_split=0.1 or validation_data")
        if limit is not None and not isinstance(self.validation_data, Dataset):
            raise ValueError("validate_samples needs all validation samples: give arrays, or fewer batches")
        if limit is not None and limit < len(self.validation_data):
            self.validation_data = self.validation_data.split(limit / len(self.validation_data), self.loader["seed"])[1]
        if self.words["patience"] and self.validation_data is None:
            raise ValueError("patience needs validation data: give validation_split=0.1 or validation_data")

    def _open_samples(self) -> None:
        model = self.model
        whole = model._dataset(self.given, training=True, sample_weight=self.sample_weight, **{name: value for name, value in self.options.items() if value})
        if not len(whole):
            raise error_of(2, "the data has no samples")
        model._keep_about(whole)
        self.train = whole
        if isinstance(self.validation, float):
            if self.validation > 0:
                self.train, self.validation_data = whole.split(float(self.validation), self.loader["seed"])
        elif self.validation is None:
            self.validation_data = whole.test
        if self.batch_size > max(len(self.train), 64):
            logger.warning("the batch of %d samples is larger than the data, which has %d: each step takes all samples", self.batch_size, len(self.train))

    def _collected(self, batches: Any) -> Dict[str, np.ndarray]:
        """Collects all samples of an iterable of batches."""
        loss = self.model._made.loss
        parts = [by_name(given, self.model.inputs, loss.target) for given in batches_of(batches)]
        if not parts:
            raise ValueError("the validation data gave no batches")
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _balanced(self) -> np.ndarray:
        """Class weights of the data; the model may have more classes than the data."""
        weights = self._samples.class_weights()
        more = max(0, (self.model._answers or 0) - len(weights))
        return np.concatenate([weights, np.ones(more, np.float32)])

    @property
    def _samples(self) -> Dataset:
        assert self.train is not None
        return self.train

    def _batches(self) -> int:
        """The number of batches per epoch; 0: unknown."""
        if self.train is None:
            return len(self.given) if hasattr(self.given, "__len__") else 0
        count = len(self.train)
        return count // self.batch_size if self.loader["drop_last"] else -(-count // self.batch_size)

    def end(self) -> int:
        """The last step, unless training stops earlier; 0: unknown."""
        steps, of_epochs = self.words["steps"], self.words["epochs"] * self._batches()
        return min(filter(None, (steps, of_epochs)), default=0)

    def start(self, rule: Dict[str, Any], init: Optional[Path], checkpoints: Optional[Path], resume: bool) -> None:
        model, loss = self.model, self.model._made.loss
        self.averages = bool(rule.get("ema"))
        # Mixed samples have two classes, so there is no accuracy.
        self.accuracy = loss.accuracy if loss.accuracy is not None and not (self.augment.mix_up or self.augment.cut_mix) else None
        before = model._states
        self.states = States(model.context, self.loader["seed"])
        value = loss.value
        if self.sample_weight is not None:
            if self.augment.mix_up or self.augment.cut_mix:
                raise ValueError("sample_weight cannot be combined with mix-up and cut-mix")
            value = model._weighted_loss(self._samples.read(model.inputs[0].name, np.arange(min(8, len(self._samples)))))
        values = [loss.eval_loss] + ([loss.accuracy] if loss.accuracy is not None else [])
        with self._packed():
            self.trainer = Trainer(value, model.context, states=self.states, extra=[self.accuracy] if self.accuracy is not None else [],
                                   **model._arithmetic(), **rule)
            self.eval_session = Session(values, model.context, states=self.states, **model._arithmetic()) if self.validation_data is not None else None
        if checkpoints is not None:
            self.checkpoints = Checkpoints(checkpoints)
        newest = self.checkpoints.newest if self.checkpoints is not None and resume else None
        if newest is not None:
            self._go_on_from(newest)
            self.trainer.use_averages(False)
        elif before is not None:
            known = set(before)
            for weight in model.weights:
                if weight.name in known:
                    self.states[weight.name] = before[weight.name]
        else:
            if self.train is not None:
                self._measure()
            model._fill(self.states)
        if init is not None and not model._made.load(init, self.states, incomplete=True):
            raise error_of(12, f"no array in '{init}' has the name and the shape of a parameter of '{model.name}'")

    @contextlib.contextmanager
    def _packed(self) -> Iterator[None]:
        """The model's graph with several texts per row, if the data has that."""
        packed = has_several_texts(self.train)
        if self.validation_data is not None and has_several_texts(self.validation_data) != packed:
            raise ValueError("give the validation data 'pack' if the training data has it, and only then")
        with self.model._several_texts(packed):
            yield

    def _go_on_from(self, path: str) -> None:
        if self.model.lora is not None:  # whose files lack what they do not train
            self.model._fill(self.states)
        self.model._made.load(path, self.states, training=True)
        self.trainer.steps = int(self.states["koine.step"])

    def _measure(self) -> None:
        """Sets the means and deviations of the model's `standardize` layers."""
        for value in self.model.inputs:
            if self.model.graph.find(f"{value.name}.deviation") is not None:
                means, deviations = self._samples.statistics(value.field)
                self.states[f"{value.name}.mean"], self.states[f"{value.name}.deviation"] = means, deviations

    # ---- running ----

    def go(self) -> History:
        """Trains; callbacks see the model with the current weights."""
        model = self.model
        with model._guard:
            before = model._states, model._sessions, model._trainer
            model.history = self.history
            model._states, model._trainer, model._sessions = self.states, self.trainer, {}
            if self.eval_session is not None:
                model._sessions["evaluation"] = self.eval_session
        for callback in self.callbacks:
            if isinstance(callback, Callback):
                callback.model = model
        try:
            if not self._call("on_begin"):
                pass
            elif self.train is None:
                self._loop()
            else:
                self._fit()
        except BaseException as error:
            # Discard weights that are not finite or not trained.
            with model._guard:
                if before[0] is not None and (isinstance(error, NotFiniteError) or not self.trainer.steps):
                    model._states, model._sessions, model._trainer = before
                elif isinstance(error, NotFiniteError):
                    model._states, model._sessions, model._trainer = None, {}, None
                else:
                    self._end()
            raise
        finally:
            self.bar.close()
        self._end()
        self._call("on_end", self.history)
        return self.history

    def _end(self) -> None:
        """Switches the model to the averaged weights, if they were evaluated."""
        if self.averages:
            self.trainer.use_averages(True)

    def _call(self, name: str, *arguments: Any) -> bool:
        """Calls a method of each callback; returns whether training continues."""
        going = True
        for callback in self.callbacks:
            try:
                going = getattr(callback, name, lambda *_: None)(*arguments) is not False and going
            except StopTraining:
                going = False
        return going

    def step_done(self, step: FitStep) -> bool:
        self.history.losses.append(step.loss)
        self.history.rates.append(step.learning_rate)
        self.bar.step(step)
        return self._call("on_step", step)

    def epoch_done(self, epoch: FitEpoch) -> bool:
        self.history.epochs.append(epoch)
        self.bar.epoch(epoch)
        if self.checkpoints is not None:
            pairs, step = self.model._pairs(), self.trainer.steps
            self.checkpoints.save(self.model, step, {**pairs, "checkpoint.step": str(step)})
            if epoch.best:
                self.checkpoints.save(self.model, step, pairs, best=True)
        return self._call("on_epoch", epoch)

    def _restore_best(self) -> bool:
        path = self.checkpoints.best if self.checkpoints is not None else None
        if path is None:
            return False
        self._go_on_from(path)
        return True

    def _fit(self) -> None:
        parts = self.model._made.loss
        given = isinstance(self.validation_data, Dataset)
        result = self.trainer.fit(
            self._samples, batch_size=self.batch_size, augment=self.augment, loader=self.loader, validation_data=self.validation_data if given else None,
            eval_session=self.eval_session if given else None, loss=parts.eval_loss.name, accuracy=parts.accuracy.name if parts.accuracy is not None else None,
            train_accuracy=self.accuracy.name if self.accuracy is not None else None, use_averages=self.averages, on_step=self.step_done,
            on_epoch=self.epoch_done, on_validation=self.bar.validation if self.bar.bar is not None else None, save_progress=self.checkpoints is not None or None,
            restore_best=self._restore_best if self.checkpoints is not None else None,
            **{name: number for name, number in self.words.items() if number})
        self.history.result, self.history.stop_reason = result, result.stop_reason

    # ---- iterables of batches ----

    def _loop(self) -> None:
        """The training loop for an iterable of batches."""
        begun, epochs, best, waited = time.monotonic(), self.words["epochs"], None, 0
        self.history.stop_reason = "done"
        epoch = 0
        while not epochs or epoch < epochs:
            epoch += 1
            mean, going = self._epoch(epoch, begun)
            if mean.samples == 0 and epoch > 1:
                raise ValueError(f"the data gave no batches in epoch {epoch}: a generator can be run through once; give a function that "
                                 "returns a new generator for each epoch")
            if mean.samples == 0:
                raise ValueError("the data gave no batches")
            score = self._evaluate()
            if score.samples:
                self.trainer.report_validation(score.loss)
            record = FitEpoch(epoch=epoch, loss=mean.loss, accuracy=mean.accuracy, validation=score, seconds=time.monotonic() - begun,
                            best=bool(score.samples and (best is None or score.loss < best[0])))
            if record.best:
                waited = 0
                best = (score.loss, {name: self.states[name] for name in self.states} if self.words["patience"] else {}, self.trainer.steps)
            else:
                waited += 1
            if not self.epoch_done(record):
                self.history.stop_reason = "callback"
                return
            if not going:
                break
            if self.words["patience"] and waited >= self.words["patience"]:
                self.history.stop_reason = "patience"
                break
        if self.words["patience"] and best is not None:
            for name, array in best[1].items():
                self.states[name] = array
            self.trainer.steps = best[2]

    def _evaluate(self) -> Score:
        nothing = Score(loss=math.nan, accuracy=math.nan, samples=0, seconds=0.0)
        if self.validation_data is None:
            return nothing
        model = self.model
        if self.averages:
            self.trainer.use_averages(True)
        try:
            return model._evaluate_dataset(self.validation_data, self.batch_size) if isinstance(self.validation_data, Dataset) else model._evaluate_batches(self.validation_data)
        finally:
            if self.averages:
                self.trainer.use_averages(False)

    def _epoch(self, epoch: int, begun: float) -> Tuple[Score, bool]:
        """Runs an epoch; returns its score, and whether training continues."""
        model, parts, began = self.model, self.model._made.loss, time.monotonic()
        total, right, samples, batches = 0.0, 0.0, 0, self._batches()
        accuracy = np.zeros((), np.float32)
        out = {self.accuracy.name: accuracy} if self.accuracy is not None else None

        def mean() -> Score:
            return Score(seconds=time.monotonic() - began, loss=total / samples if samples else math.nan, samples=samples,
                          accuracy=right / samples if samples and out else math.nan)
        for number, given in enumerate(batches_of(self.given), 1):
            arrays = fed(by_name(given, model.inputs, parts.target), model.inputs)
            arrays[parts.target.name] = model._as_target(arrays[parts.target.name], parts.target)
            if parts.target.dtype == "int32":
                check_labels(arrays[parts.target.name], model._answers)
            model._finite.check(arrays, samples)
            count, rate = len(arrays[parts.target.name]), self.trainer.learning_rate
            loss = float(self.trainer.step(arrays, count=count, out=out) or 0)
            if not math.isfinite(loss):
                raise NotFiniteError(f"the loss of step {self.trainer.steps} is {loss}: a lower learning_rate or clip_norm=1 often helps")
            total, right, samples = total + loss * count, right + float(accuracy) * count, samples + count
            now = time.monotonic()
            step = FitStep(step=self.trainer.steps, epoch=epoch, batch=number, batches=batches, samples=count, loss=loss, learning_rate=rate,
                          seconds=now - begun, samples_per_s=samples / max(1e-9, now - began),
                          accuracy=float(accuracy) if out else math.nan)
            if not self.step_done(step):
                self.history.stop_reason = "callback"
                return mean(), False
            if self.trainer.steps >= (self.words["steps"] or math.inf) or step.seconds >= (self.words["seconds"] or math.inf):
                return mean(), False
        return mean(), True
