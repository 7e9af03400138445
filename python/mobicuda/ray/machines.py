"""A stream of pictures on Ray's machines: actors classify, this process deals items and keeps results."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

from mobicuda import PictureInput
from mobicuda.engine import is_plan
from mobicuda.errors import (
    DeviceLostError,
    DeviceUnavailableError,
    FileError,
    InvalidArgumentError,
    OutOfMemoryError,
)
from mobicuda.pictures import Decode
from mobicuda.ray.classifier import Classifier, Outcome
from mobicuda.ray.cluster import RESTARTS, RETRIES, connect, machines_of, plan_actors
from mobicuda.ray.config import Config
from mobicuda.ray.stream import (
    Journal,
    Unit,
    Where,
    items_of,
    list_folder,
    read_labels,
    replace_file,
    result_line,
    units,
)

_UNITS_OF_ACTOR = 2  # the next one is there when one ends
_LATE_SECONDS = 30.0  # after which another actor that has nothing to do gets a unit too
_LOOK_SECONDS = 1.0
_LOST = (DeviceLostError, DeviceUnavailableError, OutOfMemoryError)

Log = Callable[[str], object]
Progress = Callable[[int, int], object]


class Worker:
    """Classifies with the models of a stream: what runs in an actor. Models are loaded at their first use, so that an
    actor that came back has them too."""

    def __init__(self, config: Config, gpus: float, threads: int) -> None:
        self._config = config
        self._gpus = gpus
        self._threads = threads
        self._kept: dict[int, Classifier] = {}

    def load(self) -> None:
        """Loads all models that are kept."""
        for model in range(len(self._config.models) if self._config.preload else 0):
            self._kept[model] = self._classifier(model)

    def classify(self, model: int, paths: list[bytes]) -> tuple[Where, list[Outcome]]:
        """What becomes of the pictures, in order."""
        if not self._config.preload:
            anew = self._classifier(model)
            outcomes = anew.classify(paths)
            anew.close()
            return self._where(), outcomes
        if model not in self._kept:
            self._kept[model] = self._classifier(model)
        return self._where(), self._kept[model].classify(paths)

    def _where(self) -> Where:
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "") if self._gpus else ""
        return Where(socket.gethostname(), int(gpu) if gpu.isdecimal() else None)

    def _classifier(self, number: int) -> Classifier:
        config, model = self._config, self._config.models[number]
        options: dict[str, Any] = {}
        if not is_plan(model.file):
            options = {
                "backend": "custom" if self._gpus else "cpu",
                "precision": config.precision or ("fp16" if self._gpus else "fp32"),
                "picture_input": PictureInput.torch() if model.preprocess == "torch" else PictureInput.tf(),
            }
        classifier = Classifier(
            model.file,
            files=True,
            top_k=config.top,
            preprocess="tf" if model.preprocess == "tf" else "torch",
            decode=cast(Decode, config.decode),
            batch=config.batchsize,
            threads=self._threads,
            **options,
        )
        found = classifier.engine.precision
        if config.precision not in (None, found):
            raise InvalidArgumentError(
                "invalid_argument",
                model.file,
                f"was compiled for {found}, 'precision' asks for {config.precision}",
            )
        return classifier


@dataclasses.dataclass(eq=False)
class _Task:
    """A unit that actors have, and no result yet."""

    unit: Unit
    actors: list[Any]
    since: float  # when the last one got it


class _Dealer:
    """Deals units to actors, two each, and takes their results; units of an actor that is lost go to others. At the
    end, those that are late go to others too: an actor whose machine went away may wait for another one for ever."""

    def __init__(
        self, ray: Any, actors: dict[Any, str], left: Iterator[Unit], call: Callable[[Any, Unit], Any]
    ) -> None:
        self._ray = ray
        self._names = actors
        self._free = {actor: 0 for actor in actors}
        self._left: Iterator[Unit] | None = left
        self._again: deque[Unit] = deque()
        self._call = call
        self._open: list[_Task] = []
        self._pending: dict[Any, tuple[Any, _Task | None]] = {actor.load.remote(): (actor, None) for actor in actors}
        self.lost: dict[str, str] = {}

    def results(self) -> Iterator[tuple[Unit, tuple[Where, list[Outcome]]]]:
        """Each unit once, with what became of it. Raises `Error`."""
        while self._pending and (self._left is not None or self._again or self._open):
            idle = bool(self._open) and any(self._free.values())
            ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=_LOOK_SECONDS if idle else None)
            for done in ready:
                actor, task = self._pending.pop(done)
                try:
                    result = self._get(done)
                except (*_LOST, self._ray.exceptions.RayActorError) as error:
                    if task is not None and task in self._open:
                        task.actors.remove(actor)
                        if not task.actors:
                            self._open.remove(task)
                            self._again.append(task.unit)
                    self._lose(actor, str(error).splitlines()[0])
                    continue
                if task is not None and task in self._open:  # else another actor has done it
                    self._open.remove(task)
                    yield task.unit, result
                if actor in self._free:
                    self._free[actor] += 1 if task is not None else _UNITS_OF_ACTOR
            self._deal()
        if self._next() is not None:
            raise DeviceLostError(
                "device_lost",
                next(iter(self.lost)),
                f"no actor is left to go on; the first one ended with: {next(iter(self.lost.values()))}",
                "--resume goes on with what is left",
            )

    def _get(self, done: Any) -> Any:
        try:
            return self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise (cause if isinstance(cause, Exception) else error) from None

    def _next(self) -> Unit | None:
        if self._again:
            return self._again.popleft()
        unit = next(self._left, None) if self._left is not None else None
        if unit is None:
            self._left = None
        return unit

    def _late(self, actor: Any) -> _Task | None:
        """What another actor has, and should have done long ago."""
        before = time.monotonic() - _LATE_SECONDS
        late = [task for task in self._open if task.since <= before and actor not in task.actors]
        return min(late, key=lambda task: task.since, default=None)

    def _deal(self) -> None:
        for actor in self._free:
            while self._free[actor] > 0:
                unit = self._next()
                task = _Task(unit, [], 0) if unit is not None else self._late(actor)
                if task is None:
                    break
                if unit is not None:
                    self._open.append(task)
                task.actors.append(actor)
                task.since = time.monotonic()
                self._free[actor] -= 1
                self._pending[self._call(actor, task.unit)] = (actor, task)

    def _lose(self, actor: Any, why: str) -> None:
        if actor in self._free:
            del self._free[actor]
            self.lost[self._names[actor]] = why
            self._ray.kill(actor)  # what it has still to do fails, and comes here


def run_stream(
    config: Config,
    *,
    resume: bool = False,
    address: str | None = None,
    log: Log | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Classifies the stream of a configuration (`load_config`) on Ray's machines; returns what summary.json holds.

    Models, pictures and labels have the same paths on every machine; results are written by this process alone.
    resume: goes on with the results in result_dir. address: of the cluster, as of ray.init(). log is called as
    log(text), progress as progress(done, items). KeyboardInterrupt ends it with the results so far.

    Raises `Error`: `DeviceUnavailableError` where there are fewer GPUs than asked for, `DeviceLostError` where every
    actor was lost; and ModuleNotFoundError without Ray.
    """
    tell = log or (lambda _: None)
    pictures = list_folder(config.img_dir)
    labels = read_labels(config)
    items = items_of(config, len(pictures))
    sizes = [_file_bytes(model.file) for model in config.models]
    journal = Journal(config, pictures, resume)
    try:
        if journal.cut_bytes:
            tell("the earlier run was cut off while it wrote a result; that picture is classified again")
        counts = _Counts(config, items, journal.done.count)
        if journal.done.count < items:
            _classify(config, pictures, labels, journal, address, tell, progress or (lambda *_: None), counts)
    finally:
        journal.close()
    summary = counts.summary(sizes)
    if counts.done or counts.interrupted:
        replace_file(
            os.path.join(config.result_dir, "summary.json"), json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
        )
    return summary


def _classify(
    config: Config,
    pictures: list[str],
    labels: list[str],
    journal: Journal,
    address: str | None,
    tell: Log,
    progress: Progress,
    counts: _Counts,
) -> None:
    ray = connect(address)
    planned = plan_actors(machines_of(ray), config.gpu_num)
    on_gpus = any(actor.gpus for actor in planned)
    if config.decode not in ("auto", "cpu") and not on_gpus:
        raise InvalidArgumentError("invalid_argument", "'decode'", "wants a GPU, and 'gpu_num' asks for no GPU")
    if config.gpu_num is None and not on_gpus:
        tell("no GPU: the CPU engine classifies, on all cores")
    remote = ray.remote(Worker)
    everywhere = _absolute(config)
    folder = os.fsencode(os.path.abspath(config.img_dir))
    actors = {
        remote.options(
            num_gpus=one.gpus,
            num_cpus=one.cpus,
            scheduling_strategy="SPREAD",
            max_restarts=RESTARTS,
            max_task_retries=RETRIES,
        ).remote(everywhere, one.gpus, one.threads): f"actor {number}"
        for number, one in enumerate(planned)
    }

    def call(actor: Any, unit: Unit) -> Any:
        names = (os.fsencode(pictures[item % len(pictures)]) for item in unit.items)
        return actor.classify.remote(unit.model, [os.path.join(folder, name) for name in names])

    left = units(config, counts.items, journal.done, len(planned))
    dealer = _Dealer(ray, actors, left, call)
    try:
        for unit, (where, outcomes) in dealer.results():
            lines = (
                result_line(config, pictures, labels, unit, row, outcome, where) for row, outcome in enumerate(outcomes)
            )
            journal.append("".join(lines))
            counts.add(unit, where, outcomes)
            progress(counts.done_before + counts.done, counts.items)
    except KeyboardInterrupt:
        counts.interrupted = True
    finally:
        counts.lost = dealer.lost
        for actor in actors:
            ray.kill(actor)


class _Counts:
    """How a stream goes."""

    def __init__(self, config: Config, items: int, done_before: int) -> None:
        self._config = config
        self.items = items
        self.done_before = done_before
        self.done = 0
        self.failed = 0
        self.interrupted = False
        self.lost: dict[str, str] = {}
        self._models = [[0, 0] for _ in config.models]
        self._processors: dict[Where, list[int]] = {}
        self._start = time.monotonic()
        self._first: float | None = None

    def add(self, unit: Unit, where: Where, outcomes: list[Outcome]) -> None:
        failed = sum(outcome.error is not None for outcome in outcomes)
        self.done += len(outcomes)
        self.failed += failed
        self._models[unit.model][0] += len(outcomes)
        self._models[unit.model][1] += failed
        self._processors.setdefault(where, [0] * len(self._models))[unit.model] += len(outcomes)

    def summary(self, sizes: list[int]) -> dict[str, Any]:
        models = zip(self._config.models, sizes, self._models, strict=True)
        return {
            "pictures": self.items,
            "doneBefore": self.done_before,
            "done": self.done,
            "failed": self.failed,
            "complete": self.done_before + self.done == self.items,
            "interrupted": self.interrupted,
            "seconds": time.monotonic() - self._start,
            "preload": self._config.preload,
            "batchsize": self._config.batchsize,
            "models": [
                {"name": model.name, "fileBytes": size, "pictures": done, "failed": failed}
                for model, size, (done, failed) in models
            ],
            "processors": [
                {
                    "machine": where.machine,
                    "gpu": where.gpu,
                    "pictures": sum(done),
                    "models": [
                        {"name": model.name, "pictures": count}
                        for model, count in zip(self._config.models, done, strict=True)
                    ],
                }
                for where, done in self._processors.items()
            ],
            "lost": self.lost,
        }


def _absolute(config: Config) -> Config:
    """Paths as an actor, which has a working folder of its own, can open them."""
    models = [dataclasses.replace(model, file=os.path.abspath(model.file)) for model in config.models]
    return dataclasses.replace(config, models=models)


def _file_bytes(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError as error:
        raise FileError("io", file, f"the model cannot be read: {error.strerror}") from None
