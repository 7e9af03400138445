"""What a stream of pictures is, without the machines that classify them: which picture comes when, for which model, and
where results go. The same as mobicuda_stream's, so that either program goes on where the other one ended."""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import json
import math
import os
import stat
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TextIO

import numpy as np

from mobicuda.errors import Error, FileError, InvalidArgumentError
from mobicuda.ray.classifier import Outcome
from mobicuda.ray.config import Config

_MOST_ITEMS = 2**32  # a bit each is kept
_FORMAT = 1
_ANOTHER = "another result_dir begins a new stream"
_LOCK_SECONDS = 10  # a process that was killed takes a while to end
_BATCHES_OF_UNIT = 16
_64_BITS = 2**64 - 1


def list_folder(folder: str) -> list[str]:
    """All files below a folder, relative to it, in ascending order of their bytes; hidden ones left out. What cannot be
    read is listed too. Raises `FileError`."""
    found: list[str] = []

    def add(relative: str) -> None:
        with os.scandir(os.path.join(folder, relative)) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                name = os.path.join(relative, entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    found.append(name)
                    continue
                try:
                    add(name)
                except OSError:
                    found.append(name)  # reading it says why

    try:
        add("")
    except OSError as error:
        raise FileError("io", folder, f"cannot be listed: {error.strerror}") from None
    if not found:
        raise FileError("io", folder, "holds no files")
    return sorted(found, key=os.fsencode)


def items_of(config: Config, pictures: int) -> int:
    """How many items the stream has: `item % pictures` is the picture, `item // pictures` its time."""
    if pictures * config.times > _MOST_ITEMS:
        raise InvalidArgumentError(
            "invalid_argument",
            "'times'",
            f"{config.times} times {pictures} pictures are more than a stream has, {_MOST_ITEMS}",
        )
    return pictures * config.times


class Assignment:
    """Which model an item is for: drawn by the models' shares, the same for a seed and an item everywhere."""

    def __init__(self, shares: Sequence[float], seed: int) -> None:
        *ends, whole = accumulate(shares)
        self._ends = [end / whole for end in ends]
        self._seed = seed

    def model_of(self, item: int) -> int:
        # SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
        z = (self._seed + (item + 1) * 0x9E3779B97F4A7C15) & _64_BITS
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _64_BITS
        at = ((z ^ (z >> 31)) >> 11) * 2.0**-53
        return bisect.bisect_right(self._ends, at)


class Unit(NamedTuple):
    """Items of one model that one worker classifies in a go."""

    model: int
    items: list[int]


def units(config: Config, items: int, done: Done, workers: int) -> Iterator[Unit]:
    """What is left of the stream, in its order, as units of whole batches that get smaller towards the end, so that
    all workers end together."""
    left = items - done.count
    assignment = Assignment([model.share for model in config.models], config.seed)
    collected: list[list[int]] = [[] for _ in config.models]
    for item in range(items):
        if item in done:
            continue
        model = assignment.model_of(item)
        collected[model].append(item)
        # Where every batch reads its model anew, a unit is one.
        batches = left // (4 * workers * config.batchsize) if config.preload else 1
        if len(collected[model]) >= config.batchsize * min(max(batches, 1), _BATCHES_OF_UNIT):
            left -= len(collected[model])
            yield Unit(model, collected[model])
            collected[model] = []
    yield from (Unit(model, rest) for model, rest in enumerate(collected) if rest)


class Done:
    """A set of items, one bit each."""

    def __init__(self, items: int) -> None:
        self._bits = bytearray((items + 7) // 8)
        self._items = items
        self.count = 0

    def __contains__(self, item: int) -> bool:
        return bool(self._bits[item >> 3] & 1 << (item & 7))

    def add(self, item: int) -> bool:
        """Whether it is an item that was not there."""
        if item >= self._items or item in self:
            return False
        self._bits[item >> 3] |= 1 << (item & 7)
        self.count += 1
        return True


def result_line(
    config: Config, pictures: Sequence[str], labels: Sequence[str], unit: Unit, row: int, outcome: Outcome, where: Where
) -> str:
    """The line of results.jsonl for an item of a unit."""
    item = unit.items[row]
    line: dict[str, Any] = {
        "item": item,
        "picture": _valid(pictures[item % len(pictures)]),
        "time": item // len(pictures),
        "model": config.models[unit.model].name,
        "gpu": where.gpu,
        "machine": where.machine,
    }
    if outcome.error is not None:
        line["error"] = outcome.error
    else:
        line["top"] = [
            {
                "class": index,
                **({"label": labels[index]} if index < len(labels) else {}),
                "score": _shortest(score),
            }
            for index, score in zip(outcome.classes, outcome.scores, strict=True)
        ]
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"


def _shortest(score: float) -> float | None:
    """Of the numbers that are read back as the same float32 that of the fewest digits; None where it is not finite."""
    return float(str(np.float32(score))) if math.isfinite(score) else None


class Where(NamedTuple):
    """What classified a unit."""

    machine: str
    gpu: int | None


class Journal:
    """results.jsonl and stream.json of a result_dir: lines are appended whole, and a part of one that a kill left is
    taken away. One process of a machine at a time; several machines must not write to one folder."""

    def __init__(self, config: Config, pictures: Sequence[str], resume: bool, wait: float = _LOCK_SECONDS) -> None:
        """`resume` goes on where an earlier run ended. Raises `InvalidArgumentError` where there are results and it was
        not asked for, where they are of another stream, and where another process is at work; else `FileError`."""
        self.done = Done(items_of(config, len(pictures)))
        self.cut_bytes = 0
        self._file = os.path.join(config.result_dir, "results.jsonl")
        self._lines = None
        try:
            os.makedirs(config.result_dir, exist_ok=True)
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise self._failure(error) from None
        self._lines = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            self._open(config, pictures, resume, wait)
        except OSError as error:
            self.close()
            raise error if isinstance(error, Error) else self._failure(error) from None
        except BaseException:
            self.close()
            raise

    def append(self, lines: str) -> None:
        """Writes lines. Raises `FileError`; the next run takes a part of one away."""
        assert self._lines is not None
        left = memoryview(lines.encode())
        try:
            while left:
                left = left[self._lines.write(left) :]
        except OSError as error:
            raise self._failure(error) from None

    def close(self) -> None:
        """Waits until the disk has all lines, and lets others in."""
        if self._lines is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._lines.fileno())
            self._lines.close()
            self._lines = None

    def _failure(self, error: OSError) -> FileError:
        return FileError("io", self._file, f"cannot be opened or written: {error.strerror}")

    def _open(self, config: Config, pictures: Sequence[str], resume: bool, wait: float) -> None:
        assert self._lines is not None
        if not stat.S_ISREG(os.fstat(self._lines.fileno()).st_mode):
            raise FileError("io", self._file, "is no regular file")
        end = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(self._lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise InvalidArgumentError(
                        "invalid_argument",
                        self._file,
                        "another process writes its results here",
                        "wait until it has ended, or name another result_dir",
                    ) from None
                time.sleep(0.05)
        about = os.path.join(config.result_dir, "stream.json")
        identity = _identity_of(config, pictures)
        if os.fstat(self._lines.fileno()).st_size == 0:
            told = {"format": _FORMAT, "stream": identity}
            replace_file(about, json.dumps(told, indent=1, ensure_ascii=False) + "\n")
        elif resume:
            _require_same(about, identity)
            self._read_done()
        else:
            raise InvalidArgumentError(
                "invalid_argument",
                self._file,
                "there are results of an earlier run",
                "--resume goes on with it, another result_dir begins a new one",
            )

    def _read_done(self) -> None:
        whole = 0
        with open(self._file, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    self.cut_bytes = len(line)
                    break
                head, comma, _ = line.partition(b",")
                item = head.removeprefix(b'{"item":')
                if item == head or not comma or not item.isdigit() or len(item) > 19 or not self.done.add(int(item)):
                    raise FileError(
                        "io",
                        f"{self._file}: line {number}",
                        "is no result of this stream, or one that is there already",
                        f"results are read as they were written; {_ANOTHER}",
                    )
                whole += len(line)
        if self.cut_bytes:
            os.truncate(self._file, whole)


def replace_file(path: str, text: str) -> None:
    """Writes a file in place of another one, whole or not at all."""
    beside = path + ".new"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            _to_disk(file)
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise FileError("io", path, f"cannot be written: {error.strerror}") from None


def read_labels(config: Config) -> list[str]:
    """A class a line, of the configuration's file."""
    if config.labels is None:
        return []
    try:
        with open(config.labels, encoding="utf-8", errors="replace", newline="\n") as lines:
            labels = [line.removesuffix("\n") for line in lines]
    except OSError as error:
        raise FileError("io", config.labels, f"cannot be read: {error.strerror}") from None
    if not labels:
        raise FileError("io", config.labels, "names no class")
    return labels


def _to_disk(file: TextIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _valid(name: str) -> str:
    """A file's name, which may be any bytes, as text."""
    return os.fsencode(name).decode("utf-8", "replace")


def _identity_of(config: Config, pictures: Sequence[str]) -> list[list[str]]:
    """What --resume must find unchanged; an error names the first of each pair."""

    listed = [[model.name, model.file, model.share, model.preprocess] for model in config.models]
    models = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
    return [
        ["models", models],
        ["img_dir", f"{config.img_dir}: {len(pictures)} pictures, {_digest(pictures)}"],
        ["times", str(config.times)],
        ["seed", str(config.seed)],
        ["top", str(config.top)],
        ["precision", config.precision or "by processor"],
    ]


def _digest(names: Sequence[str]) -> int:
    """FNV-1a, 64 bits: a list that was changed, not one that was forged."""
    value = 0xCBF29CE484222325
    for name in names:
        for byte in os.fsencode(name) + b"\n":
            value = ((value ^ byte) * 0x100000001B3) & _64_BITS
    return value


def _require_same(path: str, identity: list[list[str]]) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as error:
        raise FileError("io", path, f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("format") != _FORMAT or not isinstance(found.get("stream"), list):
        raise FileError("io", path, "is not what a stream has written", _ANOTHER)
    for i, pair in enumerate(identity):
        if found["stream"][i : i + 1] != [pair]:
            raise InvalidArgumentError(
                "invalid_argument", path, f"the results are of a stream with another '{pair[0]}'", _ANOTHER
            )
