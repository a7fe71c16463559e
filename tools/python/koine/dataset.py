"""Datasets: samples with fields, by convention "x" and "y", and loaders that deliver them in batches.

>>> import koine
>>> digits = koine.load_dataset("digits")
>>> digits.fields["x"].shape, digits.classes, len(digits) > 1000
((1, 28, 28), 10, True)
"""
from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _show
from ._arrays import address, as_array, info_of, numpy_type, shape_of, type_number
from ._handle import Handle
from ._library import NULL, encoded, ffi, images, lib, make, pointer_of, read, text, unknown, word_of
from ._log import log_into
from ._settings import with_settings
from .errors import error_of
from .types import DatasetSettings, DtypeName, LoaderSettings, TableTarget

if TYPE_CHECKING:
    from typing_extensions import Unpack

_FLOAT32, _INT32, _UINT8 = type_number("float32"), type_number("int32"), type_number("uint8")


def data_sources() -> List[Tuple[str, str]]:
    """Returns the sources that load_dataset() opens: the syntax of each, and its description."""
    return [(text(lib.kn_data_source_usage_at(i)) or "", text(lib.kn_data_source_about_at(i)) or "")
            for i in range(lib.kn_data_source_count())]


def load_dataset(spec: Union[str, "os.PathLike[str]"], **settings: Unpack[DatasetSettings]) -> "Dataset":
    """Returns the dataset that a spec names, as for `koine train --data`: "digits", "images:FOLDER", "csv:FILE,target=COLUMN", …

    A dataset is opened when it is first used; Model opens it with the shape that the model expects.

    Args:
        spec: The source; data_sources() lists them.
        **settings: Those of Dataset.

    Example:
        >>> import koine
        >>> koine.load_dataset("digits").classes
        10
    """
    return Dataset(os.fspath(spec), **settings)


def _is_missing(spec: str) -> bool:
    """Whether there is no source of this name, or not the file or folder that it reads."""
    usages = [usage for usage, _ in data_sources()]
    kind, colon, rest = spec.partition(":")
    if kind.partition(",")[0] not in {usage.partition(":")[0].partition("[")[0] for usage in usages}:
        return True
    if not colon or not any(usage.startswith(f"{kind}:") for usage in usages) or os.path.exists(rest):
        return False
    if kind == "npy":
        return not all(map(os.path.exists, rest.split(",")))
    return not any(os.path.exists(rest[:i]) for i, letter in enumerate(rest) if letter == ",")


@dataclasses.dataclass
class Field:
    """A field of a dataset.

    Attributes:
        dtype: The element type that the model reads.
        shape: The shape of one sample.
        scale: What stored bytes are multiplied by; 0: the field is not stored as bytes.
    """

    dtype: DtypeName
    shape: Tuple[int, ...]
    scale: float


@dataclasses.dataclass
class Batch:
    """A batch of samples.

    Attributes:
        count: The number of samples, including those that other workers get.
        epoch: The epoch, starting at 0.
        index: The position of the batch in the epoch.
        samples: The positions of the samples in the dataset.
        feeds: Arrays by field; their first dimension is the sample.
        scales: What each array must be multiplied by; 0: nothing.
    """

    count: int
    epoch: int
    index: int
    samples: np.ndarray
    feeds: Dict[str, np.ndarray]
    scales: Dict[str, float]


@with_settings(DatasetSettings)
class Dataset(Handle):
    """Samples with fields, by convention "x" and "y". Several threads may use a dataset.

    Dataset(spec) and load_dataset(spec) open a source; Dataset.from_arrays makes a dataset of arrays.

    Args:
        spec: The source, as for `koine train --data`: "digits", "images:FOLDER", …
    """

    _error = "kn_dataset_error"

    def __init__(self, spec: str, **settings: Unpack[DatasetSettings]) -> None:
        options: Any = settings
        make("kn_dataset_params", [], **{name: value for name, value in options.items() if name != "expected"})  # refuses others
        self.spec: Optional[str] = spec
        self.options = dict(options)
        if _is_missing(spec):
            self._open_source()  # fails

    def __getattr__(self, name: str) -> Any:
        """Opens a source when its handle is first asked for."""
        if name in ("_core", "_finalizer") and "spec" in self.__dict__ and self.spec is not None:
            self._open_source()
            return self.__dict__[name]
        raise AttributeError(name)

    def _open_source(self) -> None:
        keep: List[Any] = []
        options = dict(self.options)
        expected = options.pop("expected", None)
        params = make("kn_dataset_params", keep, **options)
        log_into(params.log)
        if expected is not None:
            keep.append(expected)
            params.expected = expected
        reading = images()
        if reading:
            params.images, params.archives = reading.kn_images_reader(), reading.kn_images_archives()
        self._open_checked(lib.kn_dataset_open(encoded(self.spec or ""), params), lib.kn_dataset_destroy, lib.kn_dataset_status)
        self._core.keep += keep

    def _message(self) -> str:
        return text(lib.kn_dataset_error(self.__dict__["_core"].pointer)) or ""

    @classmethod
    def _made(cls, pointer: Any, *parents: "Dataset") -> "Dataset":
        made = cls.__new__(cls)
        made.spec, made.options = None, {}
        made._open_checked(pointer, lib.kn_dataset_destroy, lib.kn_dataset_status, *parents)
        return made

    def adapted(self, **options: Any) -> "Dataset":
        """Returns the same source with more settings; a dataset of arrays is returned unchanged."""
        return Dataset(self.spec, **{**options, **self.options}) if self.spec is not None else self

    @classmethod
    def from_arrays(cls, *, classes: Optional[int] = None, integers: Sequence[str] = (), scales: Optional[Mapping[str, float]] = None,
                    **arrays: Any) -> "Dataset":
        """Makes a dataset of arrays whose first dimension is the sample: from_arrays(x=images, y=labels). The memory is shared.

        Args:
            classes: The number of classes of "y"; None: the largest label plus 1.
            integers: Fields that are read as int32. "y" is, too, if it has one integer of at least 0 for each sample.
            scales: Multiples for fields; None: 1/255 for bytes, as in files.
            **arrays: The arrays by field.
        """
        samples = {len(as_array(array)) if as_array(array).ndim else -1 for array in arrays.values()}
        if len(samples) != 1 or -1 in samples:
            raise error_of(3, "arrays have different numbers of samples: " +
                           ", ".join(f"'{name}' has the shape {as_array(array).shape}" for name, array in arrays.items()))
        rows = ffi.new("kn_dataset_array[]", max(1, len(arrays)))
        keep: List[Any] = []
        for position, (name, given) in enumerate(arrays.items()):
            array = as_array(given)
            whole = name in integers or (name == "y" and array.ndim == 1 and array.dtype.kind in "iub" and
                                         (not array.size or array.min() >= 0))
            if array.dtype.kind not in "fiub" or (whole and array.dtype.kind == "f"):
                raise error_of(4, f"'{name}' is {array.dtype}, expected numbers" + (" without fractions" if whole else ""))
            if array.dtype.kind == "b":
                array = array.view(np.uint8) if array.flags.c_contiguous else array.astype(np.uint8)
            scale = (scales or {}).get(name, 1 / 255 if array.dtype == np.uint8 and not whole and as_array(given).dtype.kind != "b" else 0)
            if not array.flags.c_contiguous or not array.dtype.isnative:
                array = array.astype(array.dtype.newbyteorder("="), order="C")
            if name == "y" and whole and array.ndim == 1 and classes is None:
                classes = int(array.max()) + 1 if array.size else 0
            keep += [array, ffi.new("char[]", encoded(name))]
            row = rows[position]
            row.name, row.data, row.bytes, row.scale = keep[-1], address(array), array.nbytes, scale
            row.info = info_of(array.shape[1:], type_number(array.dtype))[0]
            setattr(row, "as", _INT32 if whole else _FLOAT32)
        params = make("kn_dataset_params")
        log_into(params.log)
        made = cls._made(lib.kn_dataset_create_from_arrays(samples.pop(), rows, len(arrays), classes or 0, params))
        made._core.keep += keep
        return made

    def __len__(self) -> int:
        return int(lib.kn_dataset_count(self._pointer))

    @property
    def classes(self) -> int:
        """The number of classes; 0 if "y" holds something else."""
        return int(lib.kn_dataset_classes(self._pointer))

    @property
    def class_names(self) -> List[str]:
        """The names of the classes; their numbers if the source has no names."""
        return [text(lib.kn_dataset_class_name(self._pointer, i)) or str(i) for i in range(self.classes)]

    @property
    def fields(self) -> Dict[str, Field]:
        """The fields by name: dtype, shape and scale of one sample."""
        found = {}
        field = make("kn_dataset_field")
        for position in range(lib.kn_dataset_field_count(self._pointer)):
            lib.kn_dataset_field_at(self._pointer, position, field)
            found[text(field.name) or ""] = Field(word_of("kn_dtype", int(field.info.dtype)), shape_of(field.info), field.scale)  # type: ignore[arg-type]
        return found

    def _position(self, field: str) -> int:
        index = ffi.new("size_t *")
        if not lib.kn_dataset_find_field(self._pointer, encoded(field), index):
            raise error_of(12, unknown("field", field, self.fields))
        return int(index[0])

    def read(self, field: str = "x", indices: Optional[Any] = None) -> np.ndarray:
        """Returns samples of a field, as the model reads them.

        Args:
            field: The name of the field.
            indices: The positions of the samples; None: all.

        Returns:
            An array (samples, …).
        """
        position, about = self._position(field), self.fields[field]
        chosen = None if indices is None else np.ascontiguousarray(indices, np.uint64).reshape(-1)
        count = len(self) if chosen is None else chosen.size
        array = np.empty((count, *about.shape), numpy_type(type_number(about.dtype)))
        room = ffi.new("char[]", 1024)
        pointer = NULL if chosen is None else ffi.cast("uint64_t *", address(chosen))
        code = lib.kn_dataset_read(self._pointer, pointer, count, position, address(array), array.nbytes, room, 1024)
        if code:
            raise error_of(code, text(room))
        return array

    def __getitem__(self, index: int) -> Dict[str, np.ndarray]:
        """One sample, as a dict of its fields."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return {name: self.read(name, [index % len(self)])[0] for name in self.fields}

    def arrays(self) -> Tuple[np.ndarray, ...]:
        """Returns all samples of each field: (x, y) for most sources."""
        return tuple(self.read(name) for name in self.fields)

    @property
    def test(self) -> Optional["Dataset"]:
        """The test part of the source, or None."""
        return Dataset._made(lib.kn_dataset_test(self._pointer), self) if lib.kn_dataset_has_test(self._pointer) else None

    def split(self, fraction: float, seed: int = 1) -> Tuple["Dataset", "Dataset"]:
        """Splits the dataset in two at random, stratified by class.

        Args:
            fraction: The fraction of the samples in the second dataset.
            seed: Seed of the random numbers.
        """
        parts = ffi.new("kn_dataset *[2]")
        lib.kn_dataset_split(self._pointer, fraction, seed, parts, parts + 1)
        first = Dataset._made(parts[0], self)
        return first, Dataset._made(parts[1], self)

    def variance(self, field: str = "y") -> float:
        """Returns the mean squared distance of a field's elements from their mean."""
        found = ffi.new("double *")
        self._call(lib.kn_dataset_variance, self._position(field), found)
        return float(found[0])

    def statistics(self, field: str = "x") -> Tuple[np.ndarray, np.ndarray]:
        """Returns the means and the standard deviations of a field, two arrays (channels)."""
        channels = (self.fields[field].shape or (1,))[0]
        both = np.empty((2, channels), np.float32)
        numbers = ffi.cast("float *", address(both))
        self._call(lib.kn_dataset_statistics, self._position(field), numbers, numbers + channels, channels)
        return both[0], both[1]

    def class_weights(self) -> np.ndarray:
        """Returns the weights (classes) that give all classes the same total weight."""
        weights = np.empty(self.classes, np.float32)
        self._call(lib.kn_dataset_class_weights, ffi.cast("float *", address(weights)), self.classes)
        return weights

    @property
    def vocabulary(self) -> Optional[str]:
        """The tokens of a text source."""
        return text(lib.kn_dataset_vocabulary(self._pointer))

    @property
    def columns(self) -> Optional[str]:
        """What the columns of a table hold, as JSON."""
        return text(lib.kn_dataset_columns(self._pointer))

    @property
    def target(self) -> Optional[TableTarget]:
        """Name, mean and deviation of the column of a table that is predicted."""
        target = make("kn_table_target")
        return read(target) if lib.kn_dataset_target(self._pointer, target) else None

    @property
    def rate(self) -> int:
        """The samples per second of sounds."""
        return int(lib.kn_dataset_sample_rate(self._pointer))

    @property
    def about(self) -> str:
        """A description of the source."""
        return text(lib.kn_dataset_about(self._pointer)) or ""

    @property
    def left_out(self) -> List[str]:
        """A line for each sample that could not be decoded (skip_bad=True)."""
        found = (text(lib.kn_dataset_skipped_text(self._pointer)) or "").splitlines()
        return found if lib.kn_dataset_skipped(self._pointer) else []

    @property
    def explainable(self) -> float:
        """The largest r2 that a model can reach on "y", which has noise; NaN if unknown."""
        return float(lib.kn_dataset_max_r2(self._pointer))

    def sample_name(self, index: int) -> Optional[str]:
        """Returns the file of a sample, for images and sounds without "y"."""
        return text(lib.kn_dataset_sample_name(self._pointer, index))

    def loader(self, batch_size: int = 64, *, augment: Optional[str] = None, **settings: Unpack[LoaderSettings]) -> "Loader":
        """Returns an iterator over batches of the samples; its arguments are those of Loader."""
        return Loader(self, batch_size, augment=augment, **settings)

    def __repr__(self) -> str:
        if "_core" not in self.__dict__:
            return f"<koine.Dataset {self.spec!r}>"
        if self.closed:
            return "<koine.Dataset, closed>"
        fields = ", ".join(f"{name} {field.dtype} {field.shape}" for name, field in self.fields.items())
        return f"<koine.Dataset{f' {self.spec!r}' if self.spec else ''}: {len(self)} samples of {fields}>"

    def _repr_html_(self) -> str:
        return _show.table(((name, field.dtype, ",".join(map(str, field.shape))) for name, field in self.fields.items()),
                           ("field", "type", "shape of a sample")) + f"<p>{len(self):,} samples</p>"


def augmentation(words: Union[str, None, Any]) -> Any:
    """A kn_augmentation of a text such as "flip,crop=4"; None: nothing."""
    made = make("kn_augmentation")
    room = ffi.new("char[]", 512)
    if words:
        code = lib.kn_augmentation_read(encoded(words), made, room, 512)
        if code:
            raise error_of(code, text(room))
    return made


def loader_params(keep: List[Any], augment: Any = None, **given: Any) -> Any:
    params = make("kn_loader_params", keep, **given)
    if augment is not None:
        made = augmentation(augment) if isinstance(augment, str) else augment
        keep.append(made)
        params.augmentation = made
    return params


@with_settings(LoaderSettings)
class Loader(Handle):
    """Iterates over the batches of one epoch after the other.

    Args:
        dataset: The samples.
        batch_size: Samples per batch.
        augment: Random changes of the samples, such as "flip,crop=4".

    Example:
        >>> import koine
        >>> loader = koine.load_dataset("digits").loader(batch_size=32)
        >>> next(iter(loader)).feeds["x"].shape
        (32, 1, 28, 28)
    """

    _error = "kn_loader_error"

    def __init__(self, dataset: Dataset, batch_size: int = 64, *, augment: Optional[str] = None, **settings: Unpack[LoaderSettings]) -> None:
        keep: List[Any] = []
        self.dataset = dataset
        params = loader_params(keep, augment, batch_size=batch_size, **settings)
        self._open_checked(lib.kn_loader_create(pointer_of(dataset, "Dataset"), params), lib.kn_loader_destroy, lib.kn_loader_status, dataset)
        self._fields = dataset.fields

    def __len__(self) -> int:
        return int(lib.kn_loader_batches(self._pointer))

    def next(self) -> Optional[Batch]:
        """Returns the next batch; None once at the end of an epoch."""
        batch = make("kn_batch")
        with self._lock:
            self._call(lib.kn_loader_next, batch)
            if not batch.count:
                return None
            feeds, scales = {}, {}
            for position in range(batch.feed_count):
                feed = batch.feeds[position]
                name = text(feed.name) or ""
                kind = {"y.other": _INT32, "y.share": _FLOAT32}.get(name)
                kind = type_number(self._fields[name].dtype) if kind is None else kind
                kind, scales[name] = (_UINT8, feed.scale) if feed.scale else (kind, 0.0)
                shape = self._fields[name].shape if name in self._fields else ()
                array = np.frombuffer(ffi.buffer(feed.data, feed.bytes), numpy_type(kind)) if feed.bytes else np.empty(0, numpy_type(kind))
                feeds[name] = array.reshape(batch.count, *shape).copy()
            samples = np.array([batch.samples[i] for i in range(batch.count)], np.uint64)
        return Batch(count=int(batch.count), epoch=int(batch.epoch), index=int(batch.index), samples=samples, feeds=feeds, scales=scales)

    def __iter__(self) -> Iterator[Batch]:
        while True:
            batch = self.next()
            if batch is None:
                return
            yield batch

    def seek(self, epoch: int, batch: int = 0) -> None:
        """Continues from another position."""
        self._call(lib.kn_loader_seek, epoch, batch)

    @property
    def waited(self) -> float:
        """The seconds in which next() waited for a batch."""
        return float(lib.kn_loader_wait_seconds(self._pointer))
