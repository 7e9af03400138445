"""mobicuda: a CUDA inference engine for MobileNetV2 and its neighbours.

>>> import mobicuda, numpy as np
>>> engine = mobicuda.Engine.from_onnx("mobilenet_v2.onnx", backend="cpu", max_batch=2)
>>> with engine.create_session() as session:
...     logits = session.run(np.zeros((2, 3, 96, 96), np.float32))
>>> logits.shape
(2, 1000)

docs/python.md is the tutorial.
"""

from __future__ import annotations

from pathlib import Path as _Path

from mobicuda._native import version as __version__
from mobicuda._options import PictureInput
from mobicuda.engine import Engine, LayerInfo, LayerTimes, MemoryReport, Session, TensorInfo
from mobicuda.errors import (
    DeviceLostError,
    DeviceUnavailableError,
    Error,
    FileError,
    InternalError,
    InvalidArgumentError,
    InvalidModelError,
    MissingFileError,
    OutOfMemoryError,
    UnsupportedError,
)
from mobicuda.inference_session import InferenceSession, IOBinding, NodeArg, OrtValue, SessionOptions
from mobicuda.machine import Device, Operator, devices, supported_operators
from mobicuda.pictures import Classification, Classified, Classifier, PictureReport, PictureWarning, classify

__all__ = [
    "Classification",
    "Classified",
    "Classifier",
    "Device",
    "DeviceLostError",
    "DeviceUnavailableError",
    "Engine",
    "Error",
    "FileError",
    "IOBinding",
    "InferenceSession",
    "InternalError",
    "InvalidArgumentError",
    "InvalidModelError",
    "LayerInfo",
    "LayerTimes",
    "MemoryReport",
    "MissingFileError",
    "NodeArg",
    "Operator",
    "OrtValue",
    "OutOfMemoryError",
    "PictureInput",
    "PictureReport",
    "PictureWarning",
    "Session",
    "SessionOptions",
    "TensorInfo",
    "UnsupportedError",
    "__version__",
    "classify",
    "devices",
    "get_cmake_dir",
    "get_include",
    "supported_operators",
    "version",
]

version = __version__


def _folder_in_package(*parts: str) -> str:
    folder = _Path(__file__).parent.joinpath(*parts)
    if not folder.is_dir():
        raise RuntimeError(
            f"{folder} is not there: only an installed package (pip install) has the C++ library's files"
        )
    return str(folder)


def get_include() -> str:
    """Folder of the C++ headers in the installed package, for compilers: #include <mobicuda/mobicuda.h>."""
    return _folder_in_package("include")


def get_cmake_dir() -> str:
    """Folder for CMake's mobicuda_DIR, or CMAKE_PREFIX_PATH: find_package(mobicuda) and the target
    mobicuda::mobicuda."""
    return _folder_in_package("lib", "cmake", "mobicuda")
