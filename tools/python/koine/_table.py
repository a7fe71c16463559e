"""Input validation for koine.sklearn: by scikit-learn if it is installed, so that error messages, sparse matrices and feature names
behave as usual."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np

try:
    from sklearn.exceptions import NotFittedError as Unfitted
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import column_or_1d, validate_data
except ImportError:  # not installed, or older than 1.6
    validate_data = None

    class Unfitted(ValueError, AttributeError):  # type: ignore[no-redef]
        """An estimator is used before fit()."""


def _plain_table(estimator: Any, X: Any, reset: bool) -> np.ndarray:
    """The checks without scikit-learn."""
    if hasattr(X, "toarray"):
        raise TypeError("Sparse data was passed for X, but dense data is required. Use '.toarray()' to convert to a dense numpy array.")
    names = getattr(X, "columns", None)
    X = np.asarray(X)
    if X.ndim < 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead. Reshape your data to (samples, features).")
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if X.dtype.kind not in "fiub":
        X = X.astype(np.float64)
    if not len(X) or not X.shape[1]:
        what = "feature" if len(X) else "sample"
        raise ValueError(f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required.")
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        raise ValueError("Input X contains NaN or infinity.")
    if reset:
        estimator.n_features_in_ = X.shape[1]
        if names is not None and all(isinstance(name, str) for name in names):
            estimator.feature_names_in_ = np.asarray(names, object)
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} features as input.")
    return X


def check_table(estimator: Any, X: Any, reset: bool = False) -> np.ndarray:
    """Features (samples,features), or images (samples,…). reset: true in fit(), which records the number and names of the features."""
    if validate_data is None:
        return _plain_table(estimator, X, reset)
    return validate_data(estimator, X, reset=reset, allow_nd=True)


def _both(estimator: Any, X: Any, y: Any, reset: bool, numeric: bool) -> Tuple[np.ndarray, np.ndarray]:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    if validate_data is not None:
        X, y = validate_data(estimator, X, y, reset=reset, allow_nd=True, multi_output=True, y_numeric=numeric)
        return X, y.toarray() if hasattr(y, "toarray") else y
    X, y = _plain_table(estimator, X, reset), np.asarray(y)
    if not y.ndim or y.ndim > 2 or len(y) != len(X):
        raise ValueError(f"X has {len(X)} samples and y {len(y) if y.ndim else 'none'}: expected y of shape (samples,) or (samples,outputs)")
    if y.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if numeric and y.dtype.kind not in "fiub":
        y = y.astype(np.float64)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity.")
    return X, y


def check_labels(estimator: Any, X: Any, y: Any, reset: bool = True) -> Tuple[np.ndarray, np.ndarray]:
    """Features and labels: one label per sample (samples), or multilabel indicators 0 and 1 (samples,labels)."""
    X, y = _both(estimator, X, y, reset, False)
    if y.ndim == 2 and y.shape[1] == 1:
        if validate_data is not None:
            return X, column_or_1d(y, warn=True)
        y = y.ravel()
    if validate_data is not None:
        check_classification_targets(y)
        several = type_of_target(y) == "multilabel-indicator"
    else:
        if y.dtype.kind == "f" and (y != np.round(y)).any():
            raise ValueError("Unknown label type: continuous. A Classifier needs classes; a Regressor learns numbers.")
        several = y.ndim == 2 and y.dtype.kind in "fiub" and bool(np.isin(y, (0, 1)).all())
    if y.ndim == 2 and not several:
        raise ValueError("Unknown label type: several labels for each sample need a column of 0 and 1 for each label")
    return X, y


def check_targets(estimator: Any, X: Any, y: Any, reset: bool = True) -> Tuple[np.ndarray, np.ndarray]:
    """Features and targets: (samples) or (samples,targets) as float64."""
    X, y = _both(estimator, X, y, reset, True)
    return X, np.asarray(y, np.float64)


def check_weights(weights: Any, count: int) -> Optional[np.ndarray]:
    """The sample weights (samples); None if all are 1."""
    if weights is None:
        return None
    weights = np.asarray(weights, np.float64)
    if not weights.ndim:
        weights = np.full(count, float(weights))
    if weights.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    if len(weights) != count:
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(count,)}!")
    if not np.isfinite(weights).all():
        raise ValueError("Input sample_weight contains NaN or infinity.")
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def ordered(*columns: Optional[np.ndarray]) -> np.ndarray:
    """An order of the samples that depends only on their values, not on their given order."""
    keys = None
    for position, column in enumerate(columns):
        if column is None:
            continue
        if column.dtype.kind not in "fiub":
            column = np.unique(column, return_inverse=True)[1].reshape(column.shape)
        rows = column.reshape(len(column), -1)
        odd = np.random.default_rng(position).integers(0, 2**63, rows.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
        found = np.empty(len(rows), np.uint64)
        step = max(1, 2**22 // max(1, rows.shape[1]))
        for first in range(0, len(rows), step):
            part = np.ascontiguousarray(rows[first:first + step], np.float64) + 0.0  # of -0, too
            found[first:first + step] = (part.view(np.uint64) * odd).sum(1, dtype=np.uint64)
        keys = found if keys is None else keys * np.uint64(31) + found
    assert keys is not None
    return np.argsort(keys, kind="stable")
