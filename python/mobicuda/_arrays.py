"""Tensors of other frameworks: where they lie, on which stream, and how to make one beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from mobicuda.engine import Engine

# Types of devices in DLPack.
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_DEVICES = (CUDA, CUDA_MANAGED)
_NO_ORDER = -1
_LEGACY_STREAM = 1  # what DLPack calls CUDA's legacy default stream, whose handle is 0


# PyTorch's class of tensors, the dtypes of an engine's input and output, torch.strided, and what tells a device's stream.
_OfTorch = tuple[Any, Any, Any, Any, Callable[[int], int]]


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


class TorchRun:
    """Knows at once the commonest run on a device: between two plain tensors of PyTorch that are as the engine wants them,
    on PyTorch's current stream. There DLPack has nothing to order, and would take longer than the call. All else,
    whatever is wrong with it too, is left to DLPack's way."""

    __slots__ = ("_device", "_dtype", "_image", "_most", "_of_torch", "_output_image", "_outputs")

    def __init__(self, engine: Engine) -> None:
        self._device = engine.device
        self._dtype = engine.input.dtype.name  # as PyTorch calls it too
        self._image = engine.input.image_shape
        self._output_image = engine.output.image_shape
        self._most = engine.max_batch
        # Both are looked up once: a question takes tens of nanoseconds, and there is one for each property of a tensor.
        self._outputs: dict[tuple[int, ...], tuple[int, ...]] = {}  # the output's shape by the input's
        self._of_torch: _OfTorch | None = None

    def accepts(self, input: Any, out: Any) -> tuple[int, int, int, int] | None:
        """(address of the input, address of the output, images, stream), or None."""
        known = self._of_torch
        if known is None:
            known = self._look_up()
            if known is None:
                return None
        tensor, dtype, float32, strided, current_stream = known
        if type(input) is not tensor or type(out) is not tensor:
            return None
        shape = input.shape
        output_shape = self._outputs.get(shape) or self._output_of(shape)
        device = self._device
        if (
            out.shape == output_shape
            and input.get_device() == device == out.get_device()
            and input.dtype is dtype
            and out.dtype is float32
            # The elements lie in memory as they are, one after the other, and no gradient is asked for.
            and input.layout is strided
            and out.layout is strided
            and input.is_contiguous()
            and out.is_contiguous()
            and not (input.requires_grad or out.requires_grad or input.is_neg() or out.is_neg())
        ):
            return input.data_ptr(), out.data_ptr(), shape[0], current_stream(device)
        return None

    def _look_up(self) -> _OfTorch | None:
        torch = sys.modules.get("torch")
        if torch is None or not all(hasattr(torch, name) for name in ("Tensor", "float32", "strided", self._dtype)):
            return None  # not imported, or not yet to its end
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what torch.compile's own code takes
        self._of_torch = (
            torch.Tensor,
            getattr(torch, self._dtype),
            torch.float32,
            torch.strided,
            raw or (lambda device: int(torch.cuda.current_stream(device).cuda_stream)),
        )
        return self._of_torch

    def _output_of(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """The output's shape to an input of this one, which is remembered; None where the engine takes no such input."""
        if not (len(shape) > 0 and 1 <= shape[0] <= self._most and shape[1:] == self._image):
            return None
        return self._outputs.setdefault(tuple(shape), (shape[0], *self._output_image))


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
