"""From encoded pictures to classes: libmobicuda_pictures, which decodes on the GPU where it can.

The preprocessing is that of `bench_engine --images`: short side resized to 256 (or the input's larger side / 0.875,
where that is more), bilinear with antialias; centre crop; "torch" or "tf" normalisation.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NamedTuple, Union, cast

from mobicuda import _native, _options
from mobicuda.engine import Engine
from mobicuda.errors import UnsupportedError

Preprocess = Literal["torch", "tf"]
Decode = Literal["auto", "gpu", "gpu-units", "gpu-sms", "cpu"]
Encoded = Union[bytes, bytearray, memoryview]
Picture = Union[str, "os.PathLike[str]", tuple[str, Encoded]]
Pictures = Union[str, "os.PathLike[str]", Iterable[Picture]]
Labels = Union[str, "os.PathLike[str]", Sequence[str]]

_PREPROCESS = ("torch", "tf")
_DECODE = ("auto", "gpu", "gpu-units", "gpu-sms", "cpu")
_MAX_BATCH = 1024
_MAX_THREADS = 1024
_INT32 = 2**31 - 1
_SYNSET = re.compile(r"n\d{8}\s+")


class Classified(NamedTuple):
    """A picture and its likeliest classes."""

    name: str
    """Its path, relative to the folder or archive where one was given, or the name that was given."""
    classes: list[tuple[str, float]]
    """(label, the network's output for it), the highest first."""


@dataclass(frozen=True)
class PictureReport:
    """What a classification did and where its time went."""

    pictures: int
    """Results that were handed out, those that failed among them."""
    failed: int
    by_cpu: int
    """Decoded by libjpeg-turbo or stb_image."""
    by_units: int
    """Decoded by the GPU's JPEG units."""
    by_sms: int
    """Decoded by nvJPEG on the GPU's multiprocessors."""
    decoded_again: int
    """Of by_cpu: those that nvJPEG had left undone."""
    read_ms: float
    """Milliseconds of all reading threads together, as host_decode_ms."""
    host_decode_ms: float
    units_ms: float
    """Milliseconds of the GPU, as resize_ms and network_ms; batches in flight overlap."""
    resize_ms: float
    network_ms: float
    wall_ms: float
    """From the start to the last result so far."""


class PictureWarning(UserWarning):
    """A picture could not be read, and was left out."""


class Classifier:
    """Classifies pictures with an engine: decoding, resizing and the network overlap, on the GPU where the engine is one
    of a GPU and nvJPEG is found (CUDA Toolkit or the wheel nvidia-nvjpeg), else on the CPU.

    engine: for images of 3 channels. One with `picture_input` normalises by itself, and `preprocess` has no meaning;
        otherwise "torch" is (byte / 255 - mean) / std and "tf" byte / 127.5 - 1.
    top_k: classes of each picture.
    labels: a file with a class a line, or the names; a synset (n01440764) at a line's start is left out. None: numbers.
    decode: where JPEG is decoded. "gpu" raises `DeviceUnavailableError` where there is no nvJPEG, "gpu-units" where
        there are no JPEG units, "gpu-sms" where there is no nvJPEG; the last one, by the multiprocessors, gives the most
        pictures a second in batches of 512 and more.
    batch: pictures that are decoded and classified together, 1 to 1024.
    threads: that read files and decode on the CPU; 0 is one for each core.
    nvjpeg_library: the file of nvJPEG; None takes that of the wheel nvidia-nvjpeg where it is installed, else
        libnvjpeg.so as the dynamic linker finds it, else the CUDA Toolkit's.
    log: called as log(level, text) by the constructor, e.g. where "auto" decodes on the CPU.

    One run at a time; `classify_one` may be called beside it, and from several threads, which take turns.
    `with` or `close()` ends its threads and frees its memory.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        top_k: int = 5,
        preprocess: Preprocess = "torch",
        labels: Labels | None = None,
        decode: Decode = "auto",
        batch: int = 64,
        threads: int = 0,
        nvjpeg_library: _options.Path | None = None,
        log: _options.Log | None = None,
    ) -> None:
        if not _native.has_pictures:
            raise UnsupportedError(
                "unsupported",
                "pictures",
                "this package was built without libmobicuda_pictures",
                "install libturbojpeg0-dev and libstb-dev, and build it anew",
            )
        if not isinstance(engine, Engine):
            raise TypeError(f"engine must be a mobicuda.Engine, got {type(engine).__name__}")
        options = {
            "top_k": _options.integer("top_k", top_k, 1, _INT32),
            "preprocess": _options.one_of("preprocess", preprocess, _PREPROCESS),
            "decode": _options.one_of("decode", decode, _DECODE),
            "batch": _options.integer("batch", batch, 1, _MAX_BATCH),
            "threads": _options.integer("threads", threads, 0, _MAX_THREADS),
            "nvjpeg_library": os.fsencode(
                _nvjpeg_of_wheel() if nvjpeg_library is None else _options.path("nvjpeg_library", nvjpeg_library)
            ),
        }
        classes = math.prod(engine.output.image_shape)
        options["top_k"] = min(classes, cast(int, options["top_k"]))
        self._labels = labels_of(labels, classes)
        self._native = _native.Classifier(engine._object, options, _options.log_callable(log))

    @property
    def decoder(self) -> str:
        """What decodes JPEG: "nvjpeg units", "nvjpeg sms" or "cpu"."""
        return self._native.decoder()

    def classify(
        self, pictures: Pictures, *, on_broken: Callable[[str, str], object] | None = None
    ) -> Classification:
        """Begins to classify pictures (JPEG, PNG, BMP, PNM): an iterator of `Classified`, in order.

        pictures: a file; a folder, with all files below it in ascending order, hidden ones left out; an uncompressed
            tar archive (a file named *.tar), as WebDataset writes it; or several of: paths, or (name, encoded bytes).
        on_broken: called as on_broken(name, reason) for what cannot be decoded; None makes each a `PictureWarning`.

        Raises `FileError` for a folder without files and an archive that cannot be opened.
        """
        return Classification(self._start(pictures), self._labels, on_broken or _warn)

    def classify_one(self, encoded: Encoded) -> list[tuple[str, float]]:
        """The classes of one encoded picture, the highest first: the fastest way for one at a time.

        Raises ValueError where the picture cannot be decoded.
        """
        _, best, failure, _ = self._native.classify_one(_to_bytes("encoded", encoded))
        if failure:
            raise ValueError(failure)
        return _with_labels(best, self._labels)

    def close(self) -> None:
        """Ends its threads and frees its memory; a classification that is under way ends first."""
        self._native.close()

    def __enter__(self) -> Classifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Classifier cannot be pickled: make one in each process, on an engine that is loaded there")

    def _start(self, pictures: Pictures) -> Any:
        if isinstance(pictures, (bytes, bytearray, memoryview)):
            raise TypeError("pictures must be paths or (name, bytes), got bytes: classify_one() takes one picture")
        if isinstance(pictures, (str, os.PathLike)):
            path = _options.path("pictures", pictures)
            if os.path.isdir(path):
                return self._native.classify_folder(os.fsencode(path))
            if path.lower().endswith(".tar"):
                return self._native.classify_tar(os.fsencode(path))
            return self._native.classify_files([os.fsencode(path)])
        entries = list(pictures)
        if not any(isinstance(entry, tuple) for entry in entries):
            return self._native.classify_files([os.fsencode(_options.path("pictures", entry)) for entry in entries])
        if not all(isinstance(entry, tuple) and len(entry) == 2 for entry in entries):
            raise TypeError("pictures must be paths, or (name, bytes) without exception")
        named = cast("list[tuple[str, Encoded]]", entries)
        return self._native.classify_memory(
            [(os.fsencode(_options.text("a name", name)), _to_bytes(name, encoded)) for name, encoded in named]
        )


class Classification:
    """The results of `Classifier.classify`, as they come: an iterator of `Classified`. One thread at a time."""

    def __init__(self, run: Any, labels: list[str], on_broken: Callable[[str, str], object]) -> None:
        self._run = run
        self._labels = labels
        self._on_broken = on_broken
        self._report: PictureReport | None = None

    def __iter__(self) -> Classification:
        return self

    def __next__(self) -> Classified:
        while self._report is None:
            try:
                found = self._run.next()
            except BaseException:
                self.close()
                raise
            if found is None:
                self.close()
                break
            encoded_name, best, failure, _ = found
            name = os.fsdecode(encoded_name)
            if not failure:
                return Classified(name, _with_labels(best, self._labels))
            try:
                self._on_broken(name, failure)
            except BaseException:
                self.close()
                raise
        raise StopIteration

    @property
    def report(self) -> PictureReport:
        """What was done so far."""
        return self._report or PictureReport(**self._run.report())

    def close(self) -> None:
        """Ends it, also before the last picture."""
        if self._report is None:
            self._report = PictureReport(**self._run.report())
            self._run.close()

    def __enter__(self) -> Classification:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def classify(
    pictures: Pictures, engine: Engine, *, on_broken: Callable[[str, str], object] | None = None, **options: Any
) -> Classification:
    """Classifies pictures once: `Classifier(engine, **options).classify(pictures, on_broken=on_broken)`."""
    return Classifier(engine, **options).classify(pictures, on_broken=on_broken)  # which keeps the classifier


def labels_of(labels: Labels | None, classes: int) -> list[str]:
    """The name of each class."""
    names = [str(number) for number in range(classes)] if labels is None else _read_labels(labels)
    if len(names) != classes:
        raise ValueError(f"labels names {len(names)} classes, the model has {classes}")
    return names


def _warn(name: str, reason: str) -> None:
    warnings.warn(f"{name}: {reason}", PictureWarning, stacklevel=3)


def _with_labels(best: list[tuple[int, float]], labels: list[str]) -> list[tuple[str, float]]:
    return [(labels[index], score) for index, score in best]


def _nvjpeg_of_wheel() -> str:
    """libnvjpeg of the wheel nvidia-nvjpeg (13) or nvidia-nvjpeg-cu12; empty where neither is installed."""
    package = importlib.util.find_spec("nvidia")
    for folder in (package and package.submodule_search_locations) or ():
        for file in ("cu13/lib/libnvjpeg.so.13", "nvjpeg/lib/libnvjpeg.so.12"):
            if os.path.exists(path := os.path.join(folder, file)):
                return path
    return ""


def _to_bytes(name: str, encoded: object) -> bytes:
    if isinstance(encoded, bytes):
        return encoded
    if isinstance(encoded, (bytearray, memoryview)):
        return bytes(encoded)
    raise TypeError(f"{name} must be bytes, got {type(encoded).__name__}")


def _read_labels(labels: Labels) -> list[str]:
    if not isinstance(labels, (str, os.PathLike)):
        return [_options.text("a label", label) for label in labels]
    with open(labels, encoding="utf-8", errors="backslashreplace") as lines:
        names = [_SYNSET.sub("", line.strip()) for line in lines]
    while names and not names[-1]:
        names.pop()
    return names
