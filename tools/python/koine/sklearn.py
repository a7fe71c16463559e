"""Estimators for scikit-learn: Classifier and Regressor, which also work without it.

>>> import numpy as np
>>> from koine.sklearn import Classifier
>>> x = np.random.default_rng(1).uniform(-1, 1, (300, 2))
>>> kind = np.where(x[:, 0] > x[:, 1], "above", "below")
>>> estimator = Classifier(epochs=30, learning_rate=0.01).fit(x, kind)
>>> estimator.predict([[0.9, -0.9], [-0.9, 0.9]]).tolist()
['above', 'below']
"""
from __future__ import annotations

import inspect
import re
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import numpy as np

from ._table import Unfitted, check_labels, check_table, check_targets, check_weights, ordered
from .graph import Graph
from .model import Model, list_models
from .optim import Optimizer
from .types import OptimizerName

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
except ImportError:
    class BaseEstimator:  # type: ignore[no-redef]
        """What pipelines and searches ask of an estimator."""

        def get_params(self, deep: bool = True) -> Dict[str, Any]:
            return {name: getattr(self, name) for name in inspect.signature(type(self).__init__).parameters if name != "self"}

        def set_params(self, **params: Any) -> Any:
            known = self.get_params()
            for name, value in params.items():
                if name not in known:
                    raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
                setattr(self, name, value)
            return self

    class ClassifierMixin:  # type: ignore[no-redef]
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            y = np.asarray(y)
            right = self.predict(X) == (y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y)  # type: ignore[attr-defined]
            return float(np.average(right if right.ndim == 1 else right.all(1), weights=sample_weight))

    class RegressorMixin:  # type: ignore[no-redef]
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            y, found = np.asarray(y, np.float64), self.predict(X)  # type: ignore[attr-defined]
            y = y.reshape(found.shape)
            left = np.average(np.square(found - y), axis=0, weights=sample_weight)
            spread = np.average(np.square(y - np.average(y, axis=0, weights=sample_weight)), axis=0, weights=sample_weight)
            return float(np.mean(1 - left / spread))

__all__ = ["Classifier", "Regressor"]
Source = Union[str, Callable[[int, int], Graph]]


class _Network(BaseEstimator):
    """The base class of the estimators."""

    model: Source
    n_features_in_: int

    def _keep(self, **words: Any) -> None:
        self.__dict__.update(words)

    def _seed(self) -> int:
        state = self.random_state  # type: ignore[attr-defined]
        if state is None:
            return int(self.seed)  # type: ignore[attr-defined]
        if isinstance(state, np.random.RandomState):
            return int(state.randint(0, 2**31 - 1))
        if isinstance(state, np.random.Generator):
            return int(state.integers(0, 2**31 - 1))
        return int(state)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.mean_) / self.scale_).astype(np.float32) if self.standardize else X.astype(np.float32)  # type: ignore[attr-defined]

    def _measure(self, X: np.ndarray) -> None:
        """What features are standardized by."""
        self.mean_, self.scale_ = X.mean(0, dtype=np.float64), X.std(0, dtype=np.float64)
        # A constant column differs from its mean by rounding only.
        self.scale_ = np.where(self.scale_ > 10 * np.finfo(np.float64).eps * np.abs(self.mean_), self.scale_, 1.0)

    def _source(self, features: int, outputs: int) -> Any:
        raise NotImplementedError

    def _make(self, X: np.ndarray, outputs: int) -> None:
        """An untrained model."""
        self._measure(X)
        source = self.model(X.shape[1], outputs) if callable(self.model) else self.model or self._source(X.shape[1], outputs)
        words = {"device": self.device, "context": self.context, "seed": self._seed()}  # type: ignore[attr-defined]
        self.model_ = Model(source, **words)
        if self.model_.settings.get("classes", outputs) != outputs:
            self.model_ = Model(source, classes=outputs, **words)

    def _train(self, X: np.ndarray, y: np.ndarray, weights: Optional[np.ndarray], loss: str, **more: Any) -> None:
        words = {"epochs": self.epochs, "batch_size": self.batch_size, "optimizer": self.optimizer,  # type: ignore[attr-defined]
                 "learning_rate": self.learning_rate, "validation_split": self.validation_split or None,  # type: ignore[attr-defined]
                 "patience": self.patience, "loss": loss, "progress": False, **(self.options or {}), **more}  # type: ignore[attr-defined]
        if isinstance(words["batch_size"], int):
            words["batch_size"] = min(words["batch_size"], max(len(X), 64))
        self.history_ = self.model_.fit(self._scaled(X), y, sample_weight=weights, **words)

    def _chosen(self, X: np.ndarray, y: np.ndarray, sample_weight: Any, order: bool) -> Tuple[np.ndarray, np.ndarray, Optional[np.ndarray]]:
        """The samples as often as they count, and weights if some are not integers."""
        weights = check_weights(sample_weight, len(X))
        if weights is not None:
            used = weights > 0
            X, y, weights = X[used], y[used], weights[used]
            if (weights == np.round(weights)).all() and weights.sum() <= 1000 + 20 * len(X):
                times = weights.astype(np.int64)
                X, y, weights = X.repeat(times, axis=0), y.repeat(times, axis=0), None
        options = self.options or {}  # type: ignore[attr-defined]
        if order and options.get("shuffle", True) and not options.get("in_sequence"):
            places = ordered(X, y, weights)
            X, y, weights = X[places], y[places], None if weights is None else weights[places]
        return X, y, weights

    def _fitted(self, X: Any) -> np.ndarray:
        """What the model of a fitted estimator reads."""
        if not hasattr(self, "model_"):
            raise Unfitted(f"This {type(self).__name__} instance is not fitted yet: call fit() first")
        return self._scaled(check_table(self, X))

    def _forget(self) -> None:
        for name in ("model_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)


class Classifier(ClassifierMixin, _Network):
    """A classifier for tables, images, or any samples that `model` takes.

    fit() gives the same model for samples in any order, unless `options` has shuffle=False. A y with several columns of 0 and 1 has
    several labels for each sample; predict_proba() then returns the probability of each label. partial_fit() trains for one epoch
    and needs all classes at the first call. A sample_weight of integers counts samples that often; other weights multiply the loss of
    each sample.

    Args:
        model: A name of koine.list_models(), the text of a model, or a function that makes a koine.Graph with one output, for a number
            of features and of outputs; "": a network for tables with two hidden layers.
        epochs: Passes over the data.
        batch_size: Samples per step.
        optimizer: A name of koine.optimizers(), or an optimizer of koine.optim with its settings.
        learning_rate: The rate that the schedule starts from; None: the optimizer's default.
        validation_split: The fraction of the samples to set aside for validation.
        patience: Stop after this many epochs without a lower validation loss; 0: never.
        standardize: Scale features to mean 0 and deviation 1.
        class_weight: A dict {label: weight}, or "balanced".
        seed: Seed of the weights and of the order of samples.
        random_state: An integer or a NumPy generator, in place of `seed`.
        device: An index, a type such as "gpu", or a part of a device's name; None: the default device.
        context: An opened koine.Context, in place of `device`.
        options: More keywords of koine.Model.fit, such as {"schedule": "constant"}.

    Attributes:
        classes_: The labels.
        model_: The koine.Model.
        history_: The koine.History of its training.

    Example:
        >>> import numpy as np
        >>> from koine.sklearn import Classifier
        >>> x = np.random.default_rng(1).uniform(-1, 1, (300, 2))
        >>> Classifier(epochs=30, learning_rate=0.01).fit(x, x[:, 0] > x[:, 1]).score(x, x[:, 0] > x[:, 1]) > 0.9
        True
    """

    def __init__(self, model: Source = "", *, epochs: int = 20, batch_size: int = 32, optimizer: Union[OptimizerName, Optimizer] = "adam",
                 learning_rate: Optional[float] = None, validation_split: float = 0.0, patience: int = 0,
                 standardize: bool = True, class_weight: Any = None, seed: int = 1, random_state: Any = None, device: Any = None,
                 context: Any = None, options: Optional[Dict[str, Any]] = None) -> None:
        self._keep(model=model, epochs=epochs, batch_size=batch_size, optimizer=optimizer, learning_rate=learning_rate,
                   validation_split=validation_split, patience=patience, standardize=standardize, class_weight=class_weight, seed=seed, random_state=random_state,
                   device=device, context=context, options=options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _source(self, features: int, outputs: int) -> Any:
        return "table-classes"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Classifier":
        """Trains a new model.

        Args:
            X: Features (samples, features), or samples of any shape that `model` takes.
            y: Labels (samples); or 0 and 1 (samples, labels) for several labels of each sample.
            sample_weight: Weights (samples).

        Returns:
            The estimator.
        """
        self._forget()
        X, y = check_labels(self, X, y)
        X, y, weights = self._chosen(X, y, sample_weight, True)
        self._several = y.ndim == 2
        self.classes_ = np.arange(y.shape[1]) if self._several else np.unique(y)
        if len(self.classes_) < 2 and not self._several:
            raise ValueError("Classifier needs at least 2 classes; the data has only one class")
        self._make(X, len(self.classes_))
        self._learn(X, y, weights)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "Classifier":
        """Trains for one epoch, continuing from the last call.

        Args:
            X: Features, as for fit().
            y: Labels, as for fit().
            classes: All labels; needed at the first call.
            sample_weight: Weights (samples).

        Returns:
            The estimator.
        """
        first = not hasattr(self, "model_")
        X, y = check_labels(self, X, y, first)
        if first:
            self._several = y.ndim == 2
            if classes is None and not self._several:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = np.arange(y.shape[1]) if self._several else np.unique(classes)
            if len(self.classes_) < 2 and not self._several:
                raise ValueError("Classifier needs at least 2 classes; there is only one class")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {self.classes_!r}")
        X, y, weights = self._chosen(X, y, sample_weight, False)
        if first:
            self._make(X, len(self.classes_))
        self._learn(X, y, weights, epochs=1, schedule="constant", validation_split=None, patience=0)
        return self

    def _learn(self, X: np.ndarray, y: np.ndarray, weights: Optional[np.ndarray], **more: Any) -> None:
        if self._several:
            if self.class_weight is not None:  # type: ignore[attr-defined]
                raise ValueError("class_weight needs one label for each sample; y has several")
            self._train(X, y.astype(np.float32), weights, "binary-cross-entropy", **more)
            return
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(f"y has labels that are not in `classes`: {np.unique(y[unknown])[:5]}; expected {self.classes_}")
        numbers = np.searchsorted(self.classes_, y).astype(np.int32)
        self._train(X, numbers, weights, "cross-entropy", class_weights=self._class_weights(numbers, weights), **more)

    def _class_weights(self, numbers: np.ndarray, weights: Optional[np.ndarray]) -> Optional[np.ndarray]:
        given = self.class_weight  # type: ignore[attr-defined]
        if given is None:
            return None
        made = np.ones(max(len(self.classes_), self.model_._answers or 0), np.float32)
        count = len(self.classes_)
        if isinstance(given, str):
            if given != "balanced":
                raise ValueError(f"class_weight is {given!r}; expected 'balanced', a dict of weights by class, or None")
            sums = np.bincount(numbers, weights, count)
            made[:count] = np.where(sums > 0, sums.sum() / count / np.where(sums > 0, sums, 1), 1)
        else:
            made[:count] = [given.get(label, 1.0) for label in self.classes_.tolist()]
        return made

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the probability of each class (samples, classes), in the order of classes_."""
        inputs = self._fitted(X)
        if self._several:
            logits = self.model_.predict(inputs).astype(np.float64)
            return 0.5 + 0.5 * np.tanh(0.5 * logits)
        return self.model_.predict_proba(inputs)[:, :len(self.classes_)]

    def predict(self, X: Any) -> np.ndarray:
        """Returns the most likely label of each sample (samples); or 0 and 1 (samples, labels) for several labels."""
        shares = self.predict_proba(X)
        return (shares > 0.5).astype(np.int64) if self._several else self.classes_[np.argmax(shares, -1)]


class Regressor(RegressorMixin, _Network):
    """A regressor, of one number for each sample or several.

    fit() gives the same model for samples in any order, unless `options` has shuffle=False. partial_fit() trains for one epoch;
    features and targets stay standardized as those of the first call. A sample_weight of integers counts samples that often; other
    weights multiply the loss of each sample.

    Args:
        model: A name of koine.list_models(), the text of a model, or a function that makes a koine.Graph with one output, for a number
            of features and of outputs; "": a network for tables with two hidden layers.
        epochs: Passes over the data.
        batch_size: Samples per step.
        optimizer: A name of koine.optimizers(), or an optimizer of koine.optim with its settings.
        learning_rate: The rate that the schedule starts from; None: the optimizer's default.
        validation_split: The fraction of the samples to set aside for validation.
        patience: Stop after this many epochs without a lower validation loss; 0: never.
        standardize: Scale features and targets to mean 0 and deviation 1.
        seed: Seed of the weights and of the order of samples.
        random_state: An integer or a NumPy generator, in place of `seed`.
        device: An index, a type such as "gpu", or a part of a device's name; None: the default device.
        context: An opened koine.Context, in place of `device`.
        options: More keywords of koine.Model.fit, such as {"schedule": "constant"}.

    Attributes:
        model_: The koine.Model.
        history_: The koine.History of its training.

    Example:
        >>> import numpy as np
        >>> from koine.sklearn import Regressor
        >>> x = np.random.default_rng(1).uniform(-1, 1, (300, 2))
        >>> Regressor(epochs=30, learning_rate=0.01).fit(x, x[:, 0] - x[:, 1]).score(x, x[:, 0] - x[:, 1]) > 0.9
        True
    """

    def __init__(self, model: Source = "", *, epochs: int = 20, batch_size: int = 32, optimizer: Union[OptimizerName, Optimizer] = "adam",
                 learning_rate: Optional[float] = None, validation_split: float = 0.0, patience: int = 0,
                 standardize: bool = True, seed: int = 1, random_state: Any = None, device: Any = None, context: Any = None,
                 options: Optional[Dict[str, Any]] = None) -> None:
        self._keep(model=model, epochs=epochs, batch_size=batch_size, optimizer=optimizer, learning_rate=learning_rate,
                   validation_split=validation_split, patience=patience, standardize=standardize, seed=seed, random_state=random_state, device=device,
                   context=context, options=options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _source(self, features: int, outputs: int) -> Any:
        return "table" if outputs == 1 else re.sub(r"linear 1$", f"linear {outputs}", list_models()["table"], flags=re.M)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Regressor":
        """Trains a new model.

        Args:
            X: Features (samples, features), or samples of any shape that `model` takes.
            y: Targets (samples) or (samples, targets).
            sample_weight: Weights (samples).

        Returns:
            The estimator.
        """
        self._forget()
        X, y = check_targets(self, X, y)
        X, y, weights = self._chosen(X, y, sample_weight, True)
        self._begin(X, y)
        self._learn(X, y, weights)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Regressor":
        """Trains for one epoch, continuing from the last call.

        Args:
            X: Features, as for fit().
            y: Targets, as for fit().
            sample_weight: Weights (samples).

        Returns:
            The estimator.
        """
        first = not hasattr(self, "model_")
        X, y = check_targets(self, X, y, first)
        X, y, weights = self._chosen(X, y, sample_weight, False)
        if first:
            self._begin(X, y)
        self._learn(X, y, weights, epochs=1, schedule="constant", validation_split=None, patience=0)
        return self

    def _begin(self, X: np.ndarray, y: np.ndarray) -> None:
        self._flat = y.ndim == 1
        columns = y.reshape(len(y), -1)
        self.target_mean_, self.target_scale_ = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
        if self.standardize:  # type: ignore[attr-defined]
            self.target_mean_, deviation = columns.mean(0), columns.std(0)
            self.target_scale_ = np.where(deviation > 0, deviation, 1.0)
        self._make(X, columns.shape[1])

    def _learn(self, X: np.ndarray, y: np.ndarray, weights: Optional[np.ndarray], **more: Any) -> None:
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != len(self.target_mean_):
            raise ValueError(f"y has {columns.shape[1]} columns; expected {len(self.target_mean_)}, as at the first call")
        self._train(X, ((columns - self.target_mean_) / self.target_scale_).astype(np.float32), weights, "mse", **more)

    def predict(self, X: Any) -> np.ndarray:
        """Returns the predicted targets, (samples) or (samples, targets) as y was."""
        inputs = self._fitted(X)
        found = self.model_.predict(inputs) * self.target_scale_ + self.target_mean_
        return found[:, 0] if self._flat else found
