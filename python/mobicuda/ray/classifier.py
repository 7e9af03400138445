"""Pictures in columns to classes in columns: what Ray Data's `map_batches()` runs in its actors. Needs no Ray."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union

import numpy as np

from mobicuda import _options, pictures
from mobicuda.engine import Engine, is_plan

RESULT_COLUMNS = ("classes", "labels", "scores", "error")


class Outcome(NamedTuple):
    """What became of a picture."""

    classes: list[int]
    """The likeliest first; empty where it was not classified."""
    scores: list[float]
    """The network's outputs for them."""
    error: str | None
    """Why it was not classified; None where it was."""


class Classifier:
    """Classifies the pictures of a column: a class for `ray.data.Dataset.map_batches()`, which makes one in each actor.

    model: an ONNX or plan file, whose path is the same on every machine, or its bytes. It is loaded once, here.
    column: of the pictures, which results leave out.
    files: whether the column has paths, str or bytes as the file system has them, which are read here; else it has
        encoded pictures (JPEG, PNG, BMP, PNM) in bytes.
    labels: a file with a class a line, or the names, as of `mobicuda.Classifier`; None: the classes' numbers.
    top_k, preprocess, decode, batch, nvjpeg_library: those of `mobicuda.Classifier`.
    threads: for reading and decoding, and of the CPU engine; 0 is one for each core of the machine.
    engine_options: those of `Engine.from_onnx()`, where max_batch is `batch` by default, or of `Engine.load()` for a
        plan. device stays 0: Ray shows an actor the GPUs that it has, and no others.

    Called with a batch, a dict of NumPy arrays (batch_format="numpy") or a pyarrow.Table ("pyarrow"), it returns one of
    the same kind: the other columns as they are, and for each row `classes` (int32, the likeliest first), `labels`,
    `scores` (float32, the network's outputs) and `error` (why it was not classified, else null; lists are empty then).
    Rows keep their number and order: a picture that cannot be read, and a null, are rows with an error.

    Raises TypeError and ValueError for columns that cannot be, `Error` for the model. One call at a time.
    """

    null_error = "there is no picture: the value is null"

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        column: str = "bytes",
        files: bool = False,
        top_k: int = 5,
        preprocess: pictures.Preprocess = "torch",
        labels: pictures.Labels | None = None,
        decode: pictures.Decode = "auto",
        batch: int = 64,
        threads: int = 0,
        nvjpeg_library: _options.Path | None = None,
        **engine_options: Any,
    ) -> None:
        self._column = _options.text("column", column)
        self._files = _options.flag("files", files)
        engine_options["threads"] = threads
        if is_plan(model):
            if isinstance(model, bytes):
                self.engine = Engine.deserialize(model, **engine_options)
            else:
                self.engine = Engine.load(model, **engine_options)
        else:
            self.engine = Engine.from_onnx(model, **{"max_batch": batch, **engine_options})
        self.labels = pictures.labels_of(labels, math.prod(self.engine.output.image_shape))
        self._classifier = pictures.Classifier(  # without labels, which may be equal
            self.engine,
            top_k=top_k,
            preprocess=preprocess,
            decode=decode,
            batch=batch,
            threads=threads,
            nvjpeg_library=nvjpeg_library,
        )

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, Mapping):
            return self._of_arrays(batch)
        if hasattr(batch, "column_names"):
            return self._of_table(batch)
        raise TypeError(
            f"a batch must be a dict of NumPy arrays or a pyarrow.Table, got {type(batch).__name__}; "
            'batch_format="pyarrow" makes it one'
        )

    def classify(self, values: Sequence[Any]) -> list[Outcome]:
        """What becomes of each picture: encoded bytes or paths, as `files` says, or None."""
        kinds: Union[type, tuple[type, ...]] = (str, bytes) if self._files else (bytes, bytearray, memoryview)
        outcomes = [Outcome([], [], self.null_error)] * len(values)
        rows: list[int] = []
        for row, value in enumerate(values):
            if value is None:
                continue
            if not isinstance(value, kinds):
                hint = "files=True reads paths" if isinstance(value, str) else "a column of binary values has them"
                wanted = "paths (str or bytes)" if self._files else f"encoded pictures (bytes; {hint})"
                raise TypeError(f"column {self._column!r} must have {wanted}, got {type(value).__name__} in row {row}")
            rows.append(row)
        if not rows:
            return outcomes
        given = [os.fsdecode(values[row]) if self._files else (str(row), values[row]) for row in rows]
        found: list[Outcome] = []  # in order, and so are those that failed
        run = self._classifier.classify(given, on_broken=lambda _, reason: found.append(Outcome([], [], reason)))
        with run:
            for _, best in run:
                found.append(Outcome([int(index) for index, _ in best], [score for _, score in best], None))
        for row, outcome in zip(rows, found, strict=True):
            outcomes[row] = outcome
        return outcomes

    def close(self) -> None:
        """Ends its threads and frees its memory."""
        self._classifier.close()

    def _columns(self, values: Sequence[Any]) -> list[list[Any]]:
        """RESULT_COLUMNS."""
        found = self.classify(values)
        return [
            [one.classes for one in found],
            [[self.labels[index] for index in one.classes] for one in found],
            [one.scores for one in found],
            [one.error for one in found],
        ]

    def _check_names(self, names: Sequence[str]) -> None:
        if self._column not in names:
            raise ValueError(f"there is no column {self._column!r} of pictures; there are {', '.join(names)}")
        refuse_result_columns([name for name in names if name != self._column])

    def _of_arrays(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        self._check_names(list(batch))
        values = np.asarray(batch[self._column])
        if values.dtype.kind == "S":
            raise TypeError(
                f"column {self._column!r} is an array of {values.dtype}, which drops zero bytes at a picture's end; "
                "dtype=object keeps them"
            )
        result = {name: column for name, column in batch.items() if name != self._column}
        for name, column in zip(RESULT_COLUMNS, self._columns(values.tolist()), strict=True):
            result[name] = np.empty(len(column), object)
            for row, value in enumerate(column):  # an assignment of all at once would make lists an axis
                result[name][row] = value
        return result

    def _of_table(self, table: Any) -> Any:
        import pyarrow

        self._check_names(table.column_names)
        types = (
            pyarrow.list_(pyarrow.int32()),
            pyarrow.list_(pyarrow.string()),
            pyarrow.list_(pyarrow.float32()),
            pyarrow.string(),
        )
        columns = self._columns(table.column(self._column).to_pylist())
        table = table.drop_columns([self._column])
        for name, column, kind in zip(RESULT_COLUMNS, columns, types, strict=True):
            table = table.append_column(name, pyarrow.array(column, kind))
        return table


def refuse_result_columns(names: Sequence[str]) -> None:
    """Throws where a column has the name of one that results bring."""
    for name in RESULT_COLUMNS:
        if name in names:
            raise ValueError(f"column {name!r} is there already, and results bring one: rename it (rename_columns)")
