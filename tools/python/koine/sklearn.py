"""Estimators for scikit-learn: Classifier and Regressor, which also work without it.

>>> import numpy as np
>>> from koine.sklearn import Classifier
>>> x = np.random.default_rng(1).uniform(-1, 1, (300, 2))
>>> kind = np.where(x[:, 0] > x[:, 1], "above", "below")
>>> estimator = Classifier(epochs=30, learning_rate=0.01).fit(x, kind)
>>> estimator.score(x, kind) > 0.9
True
>>> estimator.predict([[0.9, -0.9], [-0.9, 0.9]]).tolist()
['above', 'below']
"""
from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Optional, Union

import numpy as np

from .graph import Graph
from .model import Model

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
        def score(self, X: Any, y: Any) -> float:
            return float(np.mean(self.predict(X) == np.asarray(y)))  # type: ignore[attr-defined]

    class RegressorMixin:  # type: ignore[no-redef]
        def score(self, X: Any, y: Any) -> float:
            y = np.asarray(y, np.float64)
            return float(1 - np.square(self.predict(X) - y).sum() / np.square(y - y.mean(0)).sum())  # type: ignore[attr-defined]


class _Network(BaseEstimator):
    """model: a name of koine.zoo(), the text of a model, or a function that makes a koine.Graph, with one output, for a number of
    features and of outputs. standardize: features, and the target of a Regressor, get mean 0 and deviation 1. options: more
    keywords of Model.fit."""

    def __init__(self, model: Union[str, Callable[[int, int], Graph]] = "", *, epochs: int = 20, batch: int = 32,
                 optimizer: str = "adam", learning_rate: Optional[float] = None, validation: float = 0.0, patience: int = 0,
                 standardize: bool = True, seed: int = 1, context: Any = None, options: Optional[Dict[str, Any]] = None) -> None:
        self.model, self.epochs, self.batch, self.optimizer, self.learning_rate = model, epochs, batch, optimizer, learning_rate
        self.validation, self.patience, self.standardize, self.seed = validation, patience, standardize, seed
        self.context, self.options = context, options

    def _inputs(self, X: Any) -> np.ndarray:
        X = np.asarray(X)
        if X.ndim < 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: reshape it to (samples, features)")
        if X.dtype.kind not in "fiub":
            X = X.astype(np.float64)
        if X.dtype.kind == "f" and not np.isfinite(X).all():
            raise ValueError("Input X contains NaN or infinity.")
        if hasattr(self, "n_features_in_") and X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input.")
        return X

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.mean_) / self.scale_).astype(np.float32) if self.standardize else X.astype(np.float32)

    def _train(self, X: np.ndarray, y: np.ndarray, outputs: int, usual: str, loss: Optional[str]) -> None:
        self.mean_, self.scale_ = X.mean(0), X.std(0)
        self.scale_ = np.where(self.scale_ > 0, self.scale_, 1.0)
        source = self.model(X.shape[1], outputs) if callable(self.model) else self.model or usual
        self.model_ = Model(source, context=self.context, seed=self.seed)
        self.history_ = self.model_.fit(self._scaled(X), y, epochs=self.epochs, batch=self.batch, optimizer=self.optimizer,
                                        learning_rate=self.learning_rate, validation=self.validation or None, patience=self.patience,
                                        loss=loss, progress=False, **(self.options or {}))

    def _fitted(self, X: Any) -> np.ndarray:
        """What the model of a fitted estimator reads."""
        if not hasattr(self, "model_"):
            try:
                from sklearn.exceptions import NotFittedError as Unfitted
            except ImportError:
                Unfitted = ValueError  # type: ignore[misc, assignment]
            raise Unfitted(f"This {type(self).__name__} instance is not fitted yet: call fit() first")
        return self._scaled(self._inputs(X))


class Classifier(ClassifierMixin, _Network):
    __doc__ = f"""A classifier: classes_ are the labels, model_ the koine.Model, history_ the course of its training.

    {_Network.__doc__}
    """

    def fit(self, X: Any, y: Any) -> "Classifier":
        self.__dict__.pop("n_features_in_", None)
        X = self._inputs(X)
        self.classes_, numbers = np.unique(np.asarray(y).ravel(), return_inverse=True)
        if len(numbers) != len(X):
            raise ValueError(f"X has {len(X)} samples and y {len(numbers)}")
        if len(self.classes_) < 2:
            raise ValueError("Classifier needs at least 2 classes; the data has one class only")
        self.n_features_in_ = X.shape[1]
        self._train(X, numbers.astype(np.int32).ravel(), len(self.classes_), "table-classes", None)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        inputs = self._fitted(X)
        return self.model_.probabilities(inputs)[:, :len(self.classes_)]

    def predict(self, X: Any) -> np.ndarray:
        places = np.argmax(self.predict_proba(X), -1)
        return self.classes_[places]


class Regressor(RegressorMixin, _Network):
    __doc__ = f"""A regressor, of one number for each sample or several: model_ is the koine.Model, history_ the course of its training.

    {_Network.__doc__}
    """

    def fit(self, X: Any, y: Any) -> "Regressor":
        self.__dict__.pop("n_features_in_", None)
        X = self._inputs(X)
        y = np.asarray(y, np.float64)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} samples and y {len(y)}")
        self.n_features_in_, self._flat = X.shape[1], y.ndim == 1
        y = y.reshape(len(y), -1)
        self.target_mean_ = y.mean(0) if self.standardize else np.zeros(y.shape[1])
        self.target_scale_ = np.where(y.std(0) > 0, y.std(0), 1.0) if self.standardize else np.ones(y.shape[1])
        self._train(X, ((y - self.target_mean_) / self.target_scale_).astype(np.float32), y.shape[1], "table", "mse")
        return self

    def predict(self, X: Any) -> np.ndarray:
        inputs = self._fitted(X)
        found = self.model_.predict(inputs) * self.target_scale_ + self.target_mean_
        return found[:, 0] if self._flat else found
