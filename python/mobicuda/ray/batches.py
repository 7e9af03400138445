"""Requests that wait together run as one batch: what a replica of `mobicuda.ray.serve` does with a model. Without Ray."""

from __future__ import annotations

import collections
import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from mobicuda import pictures
from mobicuda._options import PictureInput
from mobicuda.engine import Engine, Session
from mobicuda.ray.inference_protocol import Description, Tensor
from mobicuda.ray.serve_config import ServedModel


class Closed(RuntimeError):
    """The model was let go of; load it again."""


class _Waiting(NamedTuple):
    images: np.ndarray[Any, Any]
    outputs: Future[np.ndarray[Any, Any]]


class Batches:
    """Runs an engine on what several callers ask for. Nothing waits for a batch to fill: a session that is free takes
    what waits, in its order, up to the engine's max_batch, so that batches grow with the load. An image's outputs do
    not depend on its batch's other images. Thread-safe.

    Raises `OutOfMemoryError` where `sessions` of them do not fit.
    """

    def __init__(self, engine: Engine, sessions: int = 1) -> None:
        self._engine = engine
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False
        self.images = 0
        """That were run, in `runs` batches."""
        self.runs = 0
        made = [engine.create_session() for _ in range(sessions)]
        for session in made:
            session.staged_input(1)
            session.warm_up(sorted({1, engine.max_batch}))
        for session in made:
            threading.Thread(target=self._work, args=(session,), name="mobicuda batches", daemon=True).start()

    def submit(self, images: np.ndarray[Any, Any]) -> Future[np.ndarray[Any, Any]]:
        """The network's outputs for 1 to max_batch images of the engine's type and shape, (n, ...). One that is
        cancelled before its turn is not run. Raises `Closed`."""
        outputs: Future[np.ndarray[Any, Any]] = Future()
        with self._changed:
            if self._closed:
                raise Closed
            self._waiting.append(_Waiting(images, outputs))
            self._changed.notify()
        return outputs

    def close(self) -> None:
        """Takes no more. What waits is answered, then memory is freed. May be called again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take(self) -> list[_Waiting]:
        """What to run next; empty at the end."""
        with self._changed:
            while True:
                taken: list[_Waiting] = []
                left = self._engine.max_batch
                while self._waiting and len(self._waiting[0].images) <= left:
                    one = self._waiting.popleft()
                    if one.outputs.set_running_or_notify_cancel():
                        taken.append(one)
                        left -= len(one.images)
                if taken:
                    self.images += self._engine.max_batch - left
                    self.runs += 1
                if taken or self._closed:
                    return taken
                self._changed.wait()

    def _work(self, session: Session) -> None:
        with session:
            while taken := self._take():
                try:
                    outputs = _run(session, [one.images for one in taken])
                except BaseException as error:
                    for one in taken:
                        one.outputs.set_exception(error)
                    continue
                for one, part in zip(taken, outputs, strict=True):
                    one.outputs.set_result(part)


def _run(session: Session, parts: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    ends = np.cumsum([len(part) for part in parts])
    staged = session.staged_input(int(ends[-1]))
    for part, end in zip(parts, ends, strict=True):
        staged[end - len(part) : end] = part
    outputs = session.run_staged(int(ends[-1])).copy()
    return np.split(outputs, ends[:-1])


class Model:
    """A model of the table, loaded. `infer` is thread-safe; `close`, which `del` calls too, lets it end what it has.

    Raises `Error` where it cannot be loaded, ValueError and OSError for its labels.
    """

    def __init__(self, model: ServedModel, *, gpu: bool, threads: int = 0, sessions: int = 1) -> None:
        if model.is_plan:
            engine = Engine.load(model.file, threads=threads)
        else:
            preprocess = PictureInput.tf() if model.preprocess == "tf" else PictureInput.torch()
            engine = Engine.from_onnx(
                model.file,
                backend="custom" if gpu else "cpu",
                precision=model.precision,  # type: ignore[arg-type]  # the configuration knows these alone
                max_batch=model.max_batch,
                threads=threads,
                picture_input=preprocess if model.input == "uint8" else None,
            )
        classes = math.prod(engine.output.image_shape)
        if model.top > classes:
            raise ValueError(f"{model.name}: 'top' is {model.top}, the model has {classes} classes")
        self._labels = None if model.labels is None else pictures.labels_of(model.labels, classes)
        self._top = model.top
        kind = "UINT8" if engine.input.dtype == np.uint8 else "FP32"
        outputs = [Tensor(engine.output.name, "FP32", engine.output.image_shape)]
        if model.top:
            outputs.append(Tensor("top_classes", "INT32", (model.top,)))
            outputs.append(Tensor("top_scores", "FP32", (model.top,)))
            if self._labels is not None:
                outputs.append(Tensor("top_labels", "BYTES", (model.top,)))
        self.description = Description(
            model.name, Tensor(engine.input.name, kind, engine.input.image_shape), tuple(outputs), engine.max_batch
        )
        self.batches = Batches(engine, sessions)

    def outputs_of(self, scores: np.ndarray[Any, Any], names: Sequence[str]) -> list[np.ndarray[Any, Any]]:
        """The outputs of these names, of what the network gave."""
        whole = self.description.outputs[0].name
        if all(name == whole for name in names):
            return [scores] * len(names)
        flat = scores.reshape(len(scores), -1)
        # Stable: the lower index first among equals; NaN is the last.
        best = np.argsort(-flat, axis=1, kind="stable")[:, : self._top].astype(np.int32)
        made: list[np.ndarray[Any, Any]] = []
        for name in names:
            if name == whole:
                made.append(scores)
            elif name == "top_classes":
                made.append(best)
            elif name == "top_scores":
                made.append(np.take_along_axis(flat, best, 1))
            else:
                assert self._labels is not None
                made.append(np.array(self._labels, object)[best])
        return made

    def close(self) -> None:
        """Takes no more, ends what waits, and frees its memory. May be called again."""
        batches: Batches | None = getattr(self, "batches", None)  # there are none where it could not be loaded
        if batches is not None:
            batches.close()

    __del__ = close
