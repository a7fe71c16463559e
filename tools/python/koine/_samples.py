"""Converts the data given to Model to the shapes and types of the model."""
from __future__ import annotations

import numbers
import os
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._arrays import as_array, info_of, type_number
from ._log import logger
from .dataset import Dataset, load_dataset
from .errors import error_of
from .graph import Value


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "detach") or hasattr(value, "__array__")


def check_numbers(whole: Sequence[str], **given: Any) -> None:
    """Refuses limits and sizes that are not positive; None: not given."""
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral if name in whole else numbers.Real):
            raise TypeError(f"{name} is {value!r}; expected {'an integer' if name in whole else 'a number'}")
        if not value > 0:
            raise ValueError(f"{name} is {value}; expected {'at least 1' if name in whole else 'a number above 0'}")


def has_several_texts(data: Any) -> bool:
    """Whether samples are of `chat:FILE,pack`."""
    return isinstance(data, Dataset) and "first" in data.fields


def are_shares(outputs: np.ndarray) -> bool:
    """Whether outputs (...,classes) are probabilities, not logits."""
    return bool(outputs.size and outputs.min() >= 0 and np.allclose(outputs.sum(-1), 1, atol=1e-4))


def weights_of_samples(given: Any, count: int) -> np.ndarray:
    """Weights (samples) with a mean of 1."""
    weights = np.asarray(as_array(given), np.float64)
    if weights.shape != (count,):
        raise error_of(3, f"sample_weight has the shape {weights.shape}; expected ({count},)")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise error_of(2, "sample_weight has negative values or NaN, or only zeros; expected values of at least 0")
    return (weights / weights.mean()).astype(np.float32)


class Finite:
    """Warns once, about the first sample with values that are not finite."""

    def __init__(self) -> None:
        self.warned = False

    def check(self, arrays: Mapping[str, np.ndarray], first: int = 0) -> None:
        """Checks the arrays of a batch; first: the index of its first sample."""
        for name, array in () if self.warned else arrays.items():
            if array.dtype.kind != "f" or not array.size or not array.ndim:
                continue
            with np.errstate(all="ignore"):
                if np.isfinite(array.sum()):  # needs no memory, and rarely overflows
                    continue
            rows = ~np.isfinite(array.reshape(len(array), -1)).all(1)
            if rows.any():
                self.warned = True
                found = array[rows][0]
                logger.warning("'%s' of sample %d has %s, which makes results that depend on it meaningless. More samples "
                               "may have such numbers",
                               name, first + int(np.argmax(rows)), "NaN" if np.isnan(found).any() else "infinite numbers")


def is_samples(data: Any) -> bool:
    """Whether the data has all samples: a spec, a Dataset, (x, y) or a dict of arrays. Otherwise it is an iterable of batches."""
    if isinstance(data, (str, os.PathLike, Dataset, Mapping)) or _is_array(data):
        return True
    if isinstance(data, (tuple, list)):
        return len(data) > 0 and (_is_array(data[0]) or isinstance(data[0], (Mapping, list, tuple)) and len(data) == 2)
    return is_torch_dataset(data)


def validation_of(split: Optional[float], given: Any) -> Any:
    """The validation data, or the fraction of the samples as a float; None: neither is given."""
    if given is not None:
        if split is not None:
            raise TypeError("validation_split and validation_data are both given")
        if not (is_samples(given) or callable(given) or isinstance(given, Iterable)):
            raise TypeError(f"validation_data is {given!r}; expected data, as (x, y) or batches")
        return given
    if split is None:
        return None
    if isinstance(split, (bool, np.bool_)) or not isinstance(split, numbers.Real):
        raise TypeError(f"validation_split is {split!r}; expected a fraction such as 0.1")
    if not 0 <= split < 1:
        raise ValueError(f"validation_split is {split}; expected a fraction from 0 to below 1")
    return float(split)


def is_torch_dataset(data: Any) -> bool:
    """Whether data is a map-style PyTorch dataset, not a DataLoader."""
    names = [f"{kind.__module__}.{kind.__name__}" for kind in type(data).__mro__]
    return any(name.startswith("torch.utils.data.dataset.") for name in names) and hasattr(data, "__getitem__") and hasattr(data, "__len__")


def shaped(array: np.ndarray, value: Value) -> np.ndarray:
    """Reshapes samples to the shape of an input, by adding or removing axes of size 1."""
    wanted = value._shape_words
    if array.ndim == len(wanted) and all(str(size) == word or not word.isdigit() for size, word in zip(array.shape[1:], wanted[1:])):
        return array
    inner = [size for size in array.shape[1:] if size != 1]
    if array.ndim and wanted and all(word.isdigit() for word in wanted[1:]) and inner == [int(word) for word in wanted[1:] if word != "1"]:
        return array.reshape(array.shape[0], *(int(word) for word in wanted[1:]))
    raise error_of(3, f"'{value.name}' has the shape {array.shape}, expected ({','.join(wanted)})")


def by_name(data: Any, inputs: Sequence[Value], target: Optional[Value]) -> Dict[str, np.ndarray]:
    """Arrays by input name, from x, (x, y), ({name: array}, y) or {name: array}; includes the target if given."""
    names = [value.name for value in inputs]
    y: Any = None
    parts = isinstance(data, (tuple, list)) and (target is not None or (isinstance(data, tuple) and len(names) == 1))
    if parts:
        if len(data) not in (1, 2):
            raise error_of(2, f"data has {len(data)} parts; expected (x, y)")
        data, y = data[0], (data[1] if len(data) == 2 else None)
    if isinstance(data, Mapping):
        found = {name: as_array(array) for name, array in data.items()}
    elif isinstance(data, (tuple, list)) and len(data) == len(names) > 1:
        found = {name: as_array(array) for name, array in zip(names, data)}
    else:
        found = {names[0]: as_array(data)}
    for value in inputs:  # accept either name of an input
        if value.name not in found and value.field in found:
            found[value.name] = found[value.field]
    if y is not None and target is not None:
        found[target.name] = as_array(y)
    wanted = {value.name: value for value in [*inputs, *([target] if target is not None else [])]}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise error_of(2, f"the model needs {', '.join(repr(name) for name in missing)}, but the data does not have them")
    return {name: shaped(found[name], value) for name, value in wanted.items()}


def sample_shapes(given: Any, inputs: Sequence[Value]) -> Dict[str, Tuple[int, ...]]:
    """The sample shape of each input in the data. Does not read generators: they can be used only once."""
    if isinstance(given, (str, os.PathLike)):
        given = load_dataset(given)
    if isinstance(given, Dataset):
        return {value.name: tuple(given.fields[value.field].shape) for value in inputs if value.field in given.fields}
    if is_torch_dataset(given):
        given = tuple(np.expand_dims(as_array(part), 0) for part in given[0])
    elif not is_samples(given):
        batches = iter(batches_of(given))
        if batches is given:
            return {}
        given = next(batches, None)
    if isinstance(given, (tuple, list)) and given:
        given = given[0]
    if not isinstance(given, Mapping):
        given = dict(zip((value.name for value in inputs), given if isinstance(given, (tuple, list)) else [given]))
    return {name: as_array(array).shape[1:] for name, array in given.items() if array is not None}


def check_labels(labels: np.ndarray, answers: Optional[int]) -> None:
    """Refuses labels without an output, which would make the loss NaN."""
    if answers is not None and labels.size and labels.dtype.kind in "iu" and (labels.max() >= answers or labels.min() < 0):
        raise error_of(2, f"'y' has labels from {labels.min()} to {labels.max()}, and the model has {answers} outputs: expected 0 to "
                       f"{answers - 1}. To change the number of classes: koine.Model('NAME', classes=N)")


def of_torch(data: Any) -> Tuple[np.ndarray, np.ndarray]:
    """All samples of a PyTorch dataset."""
    samples = [data[i] for i in range(len(data))]
    return tuple(np.stack([as_array(sample[part]) for sample in samples]) for part in range(2))  # type: ignore[return-value]


def of_arrays(arrays: Mapping[str, np.ndarray], inputs: Sequence[Value], target: Value, answers: Optional[int]) -> Dataset:
    """A dataset that shares the arrays' memory, with the model's types."""
    integers = [value.name for value in [*inputs, target] if value.dtype == "int32"]
    labels = target.dtype == "int32"
    given: Dict[str, Any] = dict(arrays)
    for name in integers:
        if given[name].dtype.kind not in "iub":
            raise error_of(4, f"'{name}' is {given[name].dtype}, expected integers" +
                           (": the loss needs classes; for numbers use another loss, such as loss='mse'" if name == target.name else ""))
    if labels:
        check_labels(given[target.name], answers)
    if given[target.name].dtype.kind in "iu" and not labels:
        given[target.name] = given[target.name].astype(np.float32)  # regression targets, not classes
    fields = {value.name: value.field for value in inputs}  # the names that augmentation uses
    return Dataset.from_arrays(classes=answers if labels and given[target.name].ndim == 1 else None,
                               integers=[fields.get(name, name) for name in integers],
                               **{fields.get(name, name): array for name, array in given.items()})


def wanted_of(value: Value) -> Any:
    """The kn_tensor_info of a sample, for sources that adapt to it; None if a size is dynamic."""
    words = value._shape_words[1:]
    return info_of([int(word) for word in words], type_number(value.dtype)) if all(word.isdigit() for word in words) else None


def batches_of(source: Any) -> Iterable[Any]:
    """An iterable over the batches of an epoch; if source is a function, calls it."""
    return source() if callable(source) and not hasattr(source, "__iter__") else source


def fed(arrays: Mapping[str, np.ndarray], inputs: Sequence[Value]) -> Dict[str, np.ndarray]:
    """Converts arrays to feeds: bytes for a float32 input are scaled to 0..1, as in a dataset."""
    kinds = {value.name: value.dtype for value in inputs}
    return {name: array.astype(np.float32) * np.float32(1 / 255) if array.dtype == np.uint8 and kinds.get(name) == "float32" else array
            for name, array in arrays.items()}


def slices(arrays: Mapping[str, np.ndarray], batch: int) -> Iterator[Tuple[slice, Dict[str, np.ndarray]]]:
    """Yields the arrays in batches."""
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise error_of(3, "inputs have different numbers of samples: " + ", ".join(f"{count} in '{name}'" for name, count in sizes.items()))
    for first in range(0, max(sizes.values()), batch):
        place = slice(first, first + batch)
        yield place, {name: array[place] for name, array in arrays.items()}
