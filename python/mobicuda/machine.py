"""What this machine and this build of the library can do."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from mobicuda import _native


@dataclass(frozen=True)
class Device:
    """Something that engines run on."""

    backend: str
    """"custom" for a GPU, "cpu"."""
    index: int
    """What `device=` takes; 0 for the CPU."""
    name: str
    compute_capability: tuple[int, int] | None
    """Of a GPU."""
    memory_bytes: int
    usable: bool
    """Whether engines of that backend can be made here. A GPU for which this build has no code is refused then."""
    reason: str
    """Why not."""


@dataclass(frozen=True)
class Operator:
    """An ONNX operator that models may have."""

    name: str
    first_opset: int
    last_opset: int


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor() or platform.machine()


def devices() -> list[Device]:
    """The GPUs, in the order of `device=`, and the CPU, which is always there and last.

    Where no GPU can be used, one entry without a name says why. Asking initialises the NVIDIA driver in this process,
    so that processes that are forked from it afterwards cannot use the GPU.
    """
    found, why_none = _native.cuda_devices()
    built_without = "" if _native.has_cuda else "this libmobicuda was built without CUDA"
    gpus = [
        Device("custom", index, name, tuple(capability), memory, not built_without, built_without)
        for index, (name, capability, memory) in enumerate(found)
    ]
    if not gpus:
        gpus.append(Device("custom", 0, "", None, 0, False, built_without or why_none))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return [*gpus, Device("cpu", 0, _processor(), None, memory, True, "")]


def supported_operators() -> list[Operator]:
    """The ONNX operators that are understood, by name; docs/onnx.md says with which attributes."""
    return [Operator(*known) for known in _native.operators()]
