"""Tensors of other frameworks: where they lie, on which stream, and how to make one beside them."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np

# Types of devices in DLPack.
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_DEVICES = (CUDA, CUDA_MANAGED)
_NO_ORDER = -1
_LEGACY_STREAM = 1  # what DLPack calls CUDA's legacy default stream, whose handle is 0


class DLPackTensor(Protocol):
    """What DLPack asks of a tensor."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, Any]: ...


def is_on_device(array: Any) -> bool:
    """Whether a tensor lies in memory that only a CUDA device reads fast; NumPy arrays and what is no tensor do not."""
    if type(array) is np.ndarray or not hasattr(array, "__dlpack_device__"):
        return False
    return bool(array.__dlpack_device__()[0] in _DEVICES)


def host_array(role: str, array: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """A NumPy array of what lies in host memory, without a copy. Raises TypeError for what is no array."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "__dlpack__"):
        try:
            if hasattr(array, "numpy"):  # PyTorch's page-locked memory, which NumPy does not take by DLPack
                converted = array.numpy()
                if isinstance(converted, np.ndarray):
                    return converted
            return np.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError) as failure:
            raise TypeError(f"{role} cannot be read as a NumPy array: {failure}") from failure
    if hasattr(array, "__cuda_array_interface__"):
        raise TypeError(
            f"{role} must be an array or have __dlpack__, got {type(array).__name__} with "
            "__cuda_array_interface__ only; wrap it by cupy.asarray() or torch.as_tensor()"
        )
    raise TypeError(f"{role} must be a NumPy array or have __dlpack__, got {type(array).__name__}")


def stream_handle(stream: Any) -> int:
    """The handle of a CUDA stream given as an int or as an object of a framework."""
    if isinstance(stream, bool):
        raise TypeError("stream must be an int or have __cuda_stream__, got bool")
    if isinstance(stream, int):
        handle = stream
    elif hasattr(stream, "__cuda_stream__"):
        handle = int(stream.__cuda_stream__()[1])
    elif hasattr(stream, "cuda_stream"):  # PyTorch's, before it had the protocol
        handle = int(stream.cuda_stream)
    elif hasattr(stream, "ptr"):  # CuPy's
        handle = int(stream.ptr)
    else:
        raise TypeError(f"stream must be an int or have __cuda_stream__, got {type(stream).__name__}")
    if not 0 <= handle < 2**64:
        raise ValueError(f"stream must be the handle of a CUDA stream, got {handle}")
    return handle


def _is_of(array: object, package: str, name: str) -> bool:
    """Whether an array is of a framework, which is not imported for the question."""
    module = sys.modules.get(package)
    return module is not None and isinstance(array, getattr(module, name, ()))


def is_torch(array: object) -> bool:
    return _is_of(array, "torch", "Tensor")


def is_cupy(array: object) -> bool:
    return _is_of(array, "cupy", "ndarray")


def same_place(array: Any, other: Any) -> bool:
    """Whether two tensors are of one framework and device, and so on one current stream."""
    return type(array) is type(other) and hasattr(array, "device") and bool(array.device == other.device)


def current_stream(array: Any) -> int | None:
    """The stream on which the array's framework works now; None where it does not tell."""
    if is_torch(array):
        return int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream)
    if is_cupy(array):
        return int(sys.modules["cupy"].cuda.get_current_stream(array.device.id).ptr)
    return None


def empty_beside(array: Any, shape: tuple[int, ...], stream: int) -> Any:
    """A float32 tensor of the array's framework on its device, in memory that belongs to the stream."""
    if is_torch(array):
        torch = sys.modules["torch"]
        if stream == current_stream(array):
            return torch.empty(shape, dtype=torch.float32, device=array.device)
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=array.device)):
            return torch.empty(shape, dtype=torch.float32, device=array.device)
    if is_cupy(array):
        cupy = sys.modules["cupy"]
        with array.device:
            if stream == current_stream(array):
                return cupy.empty(shape, dtype=cupy.float32)
            with cupy.cuda.ExternalStream(stream):
                return cupy.empty(shape, dtype=cupy.float32)
    raise TypeError(
        f"out must be given with an input of {type(array).__module__}.{type(array).__name__}: only PyTorch and "
        "CuPy are asked for memory of a device"
    )


def capsule(array: DLPackTensor, own_stream: int | None, stream: int) -> object:
    """The tensor as a DLPack capsule; own_stream: its current_stream(). Work of its framework that is under way comes
    first on the stream."""
    # Told that nothing needs ordering, PyTorch saves an event: it takes a handle of its own stream for another one.
    number = _NO_ORDER if own_stream == stream else stream or _LEGACY_STREAM
    try:
        return array.__dlpack__(stream=number, max_version=(1, 0))  # type: ignore[call-arg]
    except TypeError:  # a producer of DLPack before 1.0
        return array.__dlpack__(stream=number)


def concatenate(parts: list[Any]) -> Any:
    """Joins tensors of PyTorch or CuPy along the batch."""
    package = sys.modules["torch" if is_torch(parts[0]) else "cupy"]
    return package.concatenate(parts)
