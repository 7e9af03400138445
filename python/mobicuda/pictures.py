"""Classification of picture files: decoded and resized by Pillow, several at a time, while the engine works.

The preprocessing is that of `bench_engine --images`: short side resized to 256 (or the input's larger side / 0.875,
where that is more), bilinear with antialias; centre crop; "torch" or "tf" normalisation.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Union

import numpy as np

from mobicuda import _options
from mobicuda.engine import Engine

Preprocess = Literal["torch", "tf"]
Pictures = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]
Labels = Union[str, "os.PathLike[str]", Sequence[str]]

_MAX_PIXELS = 2**27  # what a small file may unpack to
_SHORT_SIDE = 256
_CROP_FRACTION = 0.875
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_STD = np.array([0.229, 0.224, 0.225], np.float32)
_FORMATS = ("JPEG", "PNG", "BMP", "PPM")
_SYNSET = re.compile(r"n\d{8}\s+")


class Classified(NamedTuple):
    """A picture and its likeliest classes."""

    name: str
    """Its path, relative to the folder where one was given."""
    classes: list[tuple[str, float]]
    """(label, the network's output for it), the highest first."""


class PictureWarning(UserWarning):
    """A picture could not be read, and was left out."""


class _PictureError(Exception):
    """Why a picture cannot be used."""


def classify(
    pictures: Pictures,
    engine: Engine,
    *,
    top_k: int = 5,
    preprocess: Preprocess = "torch",
    labels: Labels | None = None,
    on_broken: Callable[[str, str], object] | None = None,
    threads: int = 0,
) -> Iterator[Classified]:
    """Classifies picture files (JPEG, PNG, BMP, PNM), and yields them in order.

    pictures: a file, a folder (with all files below it, hidden ones left out, in ascending order), or several paths.
    engine: for images of 3 channels. One with `picture_input` normalises by itself, and `preprocess` has no meaning;
        otherwise "torch" is (byte / 255 - mean) / std and "tf" byte / 127.5 - 1.
    labels: a file with a class a line, or the names; a synset (n01440764) at a line's start is left out. None: numbers.
    on_broken: called as on_broken(name, reason) for what cannot be read; None makes each a `PictureWarning`.
    threads: that decode; 0 is one for each core.

    Raises ModuleNotFoundError without Pillow, ValueError for a folder without files or labels that do not fit.
    """
    if preprocess not in ("torch", "tf"):
        raise ValueError(f"preprocess must be 'torch' or 'tf', got {preprocess!r}")
    top = _options.integer("top_k", top_k, 1)
    workers = _options.integer("threads", threads, 0, 1024) or os.cpu_count() or 1
    prepare = _Preparation(engine, preprocess)
    classes = math.prod(engine.output.image_shape)
    names = [str(number) for number in range(classes)] if labels is None else _read_labels(labels)
    if len(names) != classes:
        raise ValueError(f"labels names {len(names)} classes, the model has {classes}")
    files = _list_files(pictures)
    return _classify(files, engine, prepare, top, names, on_broken or _warn, workers)


def _warn(name: str, reason: str) -> None:
    warnings.warn(f"{name}: {reason}", PictureWarning, stacklevel=4)


def _classify(
    files: list[tuple[str, str]],
    engine: Engine,
    prepare: _Preparation,
    top: int,
    names: list[str],
    on_broken: Callable[[str, str], object],
    workers: int,
) -> Iterator[Classified]:
    batch = np.empty((engine.max_batch, *prepare.shape), engine.input.dtype)
    waiting: list[str] = []
    with engine.create_session() as session, _Decoded(files, prepare, workers) as decoded:

        def flush() -> Iterator[Classified]:
            if waiting:
                scores = session.run(batch[: len(waiting)]).reshape(len(waiting), -1)
                for name, row in zip(waiting, scores, strict=True):
                    best = np.argsort(-row, kind="stable")[:top]
                    yield Classified(name, [(names[index], float(row[index])) for index in best])
                waiting.clear()

        for name, picture, reason in decoded:
            if picture is None:
                yield from flush()  # so that what is told keeps the order
                on_broken(name, reason)
                continue
            batch[len(waiting)] = picture
            waiting.append(name)
            if len(waiting) == engine.max_batch:
                yield from flush()
        yield from flush()


class _Decoded:
    """(name, picture or None, why none) of files in order, decoded ahead by threads."""

    def __init__(self, files: list[tuple[str, str]], prepare: _Preparation, workers: int) -> None:
        self._files = files
        self._prepare = prepare
        self._ahead = 2 * workers
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="mobicuda-pictures")

    def __enter__(self) -> _Decoded:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def __iter__(self) -> Iterator[tuple[str, np.ndarray[Any, np.dtype[Any]] | None, str]]:
        started: deque[tuple[str, Future[np.ndarray[Any, np.dtype[Any]]]]] = deque()
        files = iter(self._files)
        while True:
            for name, path in files:
                started.append((name, self._executor.submit(self._prepare, path)))
                if len(started) == self._ahead:
                    break
            if not started:
                return
            name, future = started.popleft()
            try:
                yield name, future.result(), ""
            except _PictureError as error:
                yield name, None, str(error)


class _Preparation:
    """From a file to an engine's input."""

    def __init__(self, engine: Engine, preprocess: Preprocess) -> None:
        info = engine.input
        self.shape = info.image_shape
        channels_last = info.layout == "NHWC"
        if info.layout == "" or self.shape[2 if channels_last else 0] != 3:
            raise ValueError(f"classify needs a model that reads images of 3 channels, this one reads {info.shape}")
        self._height, self._width = self.shape[:2] if channels_last else self.shape[1:]
        larger = max(self._height, self._width)
        self._short_side = _SHORT_SIDE if larger <= _SHORT_SIDE else int(larger / _CROP_FRACTION + 0.5)
        self._axes = (0, 1, 2) if channels_last else (2, 0, 1)
        self._values = None if info.dtype == np.uint8 else _normalised(preprocess)
        self._image = _pillow()

    def __call__(self, path: str) -> np.ndarray[Any, np.dtype[Any]]:
        pixels = np.asarray(self._cropped(path))
        if self._values is None:
            return pixels
        floats: np.ndarray[Any, np.dtype[Any]] = self._values[pixels, np.arange(3)].transpose(self._axes)
        return floats

    def _cropped(self, path: str) -> Any:
        try:
            with self._image.open(path, formats=_FORMATS) as image:
                if image.width * image.height > _MAX_PIXELS:
                    raise _PictureError(f"{image.width}x{image.height} pixels are more than {_MAX_PIXELS}")
                rgb = _to_rgb(image, self._image)
        except self._image.UnidentifiedImageError:
            raise _PictureError("not a picture of a known format (JPEG, PNG, BMP, PNM)") from None
        except self._image.DecompressionBombError as error:
            raise _PictureError(str(error)) from None
        except IsADirectoryError:
            raise _PictureError("is a folder") from None
        except (OSError, ValueError, SyntaxError) as error:  # Pillow's decoders raise all of these
            raise _PictureError(getattr(error, "strerror", None) or str(error)) from None
        shorter, longer = sorted(rgb.size)
        if self._short_side * longer // shorter > _MAX_PIXELS // self._short_side:
            raise _PictureError("is too narrow to be resized")
        if shorter != self._short_side:
            scaled = self._short_side * longer // shorter
            portrait = rgb.width <= rgb.height
            rgb = rgb.resize(
                (self._short_side, scaled) if portrait else (scaled, self._short_side), self._image.Resampling.BILINEAR
            )
        left, top = (rgb.width - self._width) // 2, (rgb.height - self._height) // 2
        return rgb.crop((left, top, left + self._width, top + self._height))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("pictures are decoded by Pillow: pip install pillow", name=error.name) from None
    return Image


def _to_rgb(image: Any, pil: Any) -> Any:
    if image.mode.startswith("I;16"):  # which convert() would clip
        image = pil.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB")


def _normalised(preprocess: Preprocess) -> np.ndarray[Any, np.dtype[np.float32]]:
    """What each byte of each channel becomes, (256, 3)."""
    pixel = np.arange(256, dtype=np.float32)[:, None]
    if preprocess == "torch":
        return (pixel / np.float32(255) - _MEAN) / _STD
    return np.repeat(pixel / np.float32(127.5) - np.float32(1), 3, axis=1)


def _read_labels(labels: Labels) -> list[str]:
    if not isinstance(labels, (str, os.PathLike)):
        return [_options.text("a label", label) for label in labels]
    with open(labels, encoding="utf-8", errors="backslashreplace") as lines:
        names = [_SYNSET.sub("", line.strip()) for line in lines]
    while names and not names[-1]:
        names.pop()
    return names


def _list_files(pictures: Pictures) -> list[tuple[str, str]]:
    """(name, path) of each picture."""
    if not isinstance(pictures, (str, os.PathLike)):
        if isinstance(pictures, (bytes, bytearray)):
            raise TypeError("pictures must be a path or several, got bytes")
        paths = [_options.path("pictures", entry) for entry in pictures]
        return [(path, path) for path in paths]
    top = _options.path("pictures", pictures)
    if not os.path.isdir(top):
        return [(top, top)]
    found = []
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                path = os.path.join(folder, name)
                found.append((os.path.relpath(path, top).replace(os.sep, "/"), path))
    if not found:
        raise ValueError(f"there is no file in {top}")
    return sorted(found)
