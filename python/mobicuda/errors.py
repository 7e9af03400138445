"""The exceptions of the library: one for each of its error codes, all of them `Error`.

>>> import mobicuda
>>> try:
...     mobicuda.Engine.from_onnx(b"no model")
... except mobicuda.Error as error:
...     print(error.code)
invalid_model
>>> issubclass(mobicuda.InvalidModelError, ValueError)
True
"""

from __future__ import annotations

import errno

__all__ = [
    "DeviceLostError",
    "DeviceUnavailableError",
    "Error",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidModelError",
    "MissingFileError",
    "OutOfMemoryError",
    "UnsupportedError",
]


class Error(RuntimeError):
    """What the library refuses or fails at.

    `str(error)` reads "<code>: <where>: <message>; <hint>", with absent parts left out. Errors can be pickled, so that
    they cross between processes.
    """

    code: str
    """One of "invalid_argument", "invalid_model", "unsupported", "io", "out_of_memory", "device_unavailable",
    "device_lost" and "internal"."""
    where: str
    """File, node, attribute."""
    message: str
    """What is wrong, with the value."""
    hint: str
    """What to do about it; may be empty."""

    def __init__(self, code: str, where: str, message: str, hint: str = "") -> None:
        self.code, self.where, self.message, self.hint = code, where, message, hint
        text = ": ".join(part for part in (code, where, message) if part)
        super().__init__(f"{text}; {hint}" if hint else text)

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, str, str]]:
        return type(self), (self.code, self.where, self.message, self.hint)

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidArgumentError(Error, ValueError):
    """Something was passed that can never work."""


class InvalidModelError(Error, ValueError):
    """A model or plan contradicts itself or its format."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but this build, engine or precision does not do it."""


class FileError(Error, OSError):
    """A file could not be opened, read or written."""


class MissingFileError(FileError, FileNotFoundError):
    """There is no such file; `filename` is its path."""

    def __init__(self, code: str, where: str, message: str, hint: str = "") -> None:
        super().__init__(code, where, message, hint)
        self.errno, self.filename = errno.ENOENT, where


class OutOfMemoryError(Error, MemoryError):
    """Host or device memory was not to be had, or is more than `max_memory_bytes`."""


class DeviceUnavailableError(Error):
    """There is no GPU, driver or library that can be used."""


class DeviceLostError(Error):
    """The GPU's context is gone: the process must be started anew."""


class InternalError(Error):
    """A fault of mobicuda."""


_CLASSES: dict[str, type[Error]] = {
    "invalid_argument": InvalidArgumentError,
    "invalid_model": InvalidModelError,
    "unsupported": UnsupportedError,
    "io": FileError,
    "out_of_memory": OutOfMemoryError,
    "device_unavailable": DeviceUnavailableError,
    "device_lost": DeviceLostError,
    "internal": InternalError,
}


def _make_error(code: str, where: str, message: str, hint: str) -> Error:
    """Called by the native module for every error of the library."""
    return _CLASSES.get(code, Error)(code, where, message, hint)
