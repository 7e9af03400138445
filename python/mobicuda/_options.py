"""Keyword arguments as the library's options, with errors that name the argument."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, Union

from mobicuda import _native

Backend = Literal["auto", "custom", "cpu"]
Precision = Literal["fp32", "fp32_split", "fp16", "fp64"]
HostTransfer = Literal["auto", "copy", "direct"]
Specialise = Literal["never", "auto", "always"]
Log = Callable[[str, str], object]
Path: TypeAlias = Union[str, "os.PathLike[str]"]

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
_BACKENDS = ("auto", "custom", "cpu")


class PictureInput(NamedTuple):
    """Pictures as decoders leave them, uint8 of shape (n, H, W, 3): the network reads `byte * scale + shift` of each
    channel.

    The default is what PyTorch's classifiers are trained with; `PictureInput.tf()` maps bytes to [-1, 1].
    """

    scale: tuple[float, float, float] = (1 / (255 * 0.229), 1 / (255 * 0.224), 1 / (255 * 0.225))
    shift: tuple[float, float, float] = (-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225)

    @classmethod
    def torch(cls) -> PictureInput:
        """(byte / 255 - mean) / std, with ImageNet's mean and standard deviation."""
        return cls()

    @classmethod
    def tf(cls) -> PictureInput:
        """byte / 127.5 - 1."""
        return cls((1 / 127.5, 1 / 127.5, 1 / 127.5), (-1.0, -1.0, -1.0))


def integer(name: str, value: Any, least: int, most: int = _INT64) -> int:
    """A whole number in a range; bool is none."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"{name} must be {least} to {most}, got {number}")
    return number


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}")
    return value


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    return value


def path(name: str, value: Any) -> str:
    try:
        decoded = os.fsdecode(os.fspath(value))
    except TypeError:
        raise TypeError(f"{name} must be a path (str or os.PathLike), got {type(value).__name__}") from None
    if "\0" in decoded:
        raise ValueError(f"{name} must not hold a null character, got {decoded!r}")
    return str(decoded)


def integers(name: str, value: object, least: int) -> list[int]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a sequence of ints, got {type(value).__name__}")
    return [integer(f"{name}[{i}]", entry, least) for i, entry in enumerate(value)]


def one_of(name: str, value: object, known: Sequence[str]) -> str:
    if text(name, value) not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    return str(value)


def backend(value: object) -> str:
    return one_of("backend", value, _BACKENDS)


def log_callable(value: object) -> Log | None:
    if value is not None and not callable(value):
        raise TypeError(f"log must be callable as log(level, text), got {type(value).__name__}")
    return value


def _floats(name: str, value: Any) -> list[float]:
    try:
        numbers = [float(entry) for entry in value]
    except TypeError:
        numbers = []
    if len(numbers) != 3:
        raise TypeError(f"{name} must be three numbers, got {value!r}")
    return numbers


def _picture_input(value: Any) -> _native.PictureInput:
    try:
        scale, shift = value
    except (TypeError, ValueError):
        raise TypeError(f"picture_input must be a PictureInput(scale, shift), got {value!r}") from None
    return _native.PictureInput(_floats("picture_input.scale", scale), _floats("picture_input.shift", shift))


def run_options(
    *,
    device: int,
    threads: int,
    cuda_graph: bool,
    programmatic_launch: bool,
    guarded_arena: bool,
    host_transfer: str,
    specialise: str,
    code_cache: Path | bool,
    nvrtc_library: Path | None,
    max_memory_bytes: int,
) -> _native.EngineOptions:
    """What may differ from one load of a plan to the next."""
    options = _native.EngineOptions()
    options.device = integer("device", device, 0, _INT32)
    options.threads = integer("threads", threads, 0, _INT32)
    options.cuda_graph = flag("cuda_graph", cuda_graph)
    options.programmatic_launch = flag("programmatic_launch", programmatic_launch)
    options.guarded_arena = flag("guarded_arena", guarded_arena)
    options.host_transfer = text("host_transfer", host_transfer)
    options.specialise = text("specialise", specialise)
    options.max_memory_bytes = integer("max_memory_bytes", max_memory_bytes, 0)
    if code_cache is not True:
        options.code_cache = "" if code_cache is False else path("code_cache", code_cache)
    if nvrtc_library is not None:
        options.nvrtc_library = path("nvrtc_library", nvrtc_library)
    return options


def add_compile_options(
    options: _native.EngineOptions,
    *,
    precision: str,
    max_batch: int,
    plan_batches: Sequence[int] | None,
    picture_input: PictureInput | None,
    kernel_variants: Mapping[str, str] | None,
    timing_cache: Path | None,
    require_timing_cache: bool,
) -> None:
    """What a plan keeps."""
    options.precision = text("precision", precision)
    options.max_batch = integer("max_batch", max_batch, 1)
    if plan_batches is not None:
        options.plan_batches = integers("plan_batches", plan_batches, 1)
    if picture_input is not None:
        options.picture_input = _picture_input(picture_input)
    if kernel_variants is not None:
        if not isinstance(kernel_variants, Mapping):
            raise TypeError(f"kernel_variants must map kernels to variants, got {type(kernel_variants).__name__}")
        options.kernel_variants = {
            text("kernel_variants' key", kernel): text(f"kernel_variants[{kernel!r}]", variant)
            for kernel, variant in kernel_variants.items()
        }
    if timing_cache is not None:
        options.timing_cache = path("timing_cache", timing_cache)
    options.require_timing_cache = flag("require_timing_cache", require_timing_cache)
