"""Programs written for ONNX Runtime: its `InferenceSession`, over an engine and a pool of its sessions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from mobicuda import _arrays, _native, _options
from mobicuda.engine import Engine, ModelSource, Session, SessionPool, TensorInfo, is_plan

_CUDA_PROVIDER = "CUDAExecutionProvider"
_CPU_PROVIDER = "CPUExecutionProvider"
_PROVIDERS = {"custom": _CUDA_PROVIDER, "cpu": _CPU_PROVIDER}
_TYPES = {"float32": "tensor(float)", "uint8": "tensor(uint8)"}


@dataclass(frozen=True)
class NodeArg:
    """An input or output as ONNX Runtime tells it."""

    name: str
    type: str
    """"tensor(float)" or "tensor(uint8)"."""
    shape: list[int | str]
    """In the order of memory; "batch" is free."""


def _node_arg(info: TensorInfo) -> NodeArg:
    return NodeArg(info.name, _TYPES[info.dtype.name], ["batch" if extent is None else extent for extent in info.shape])


def _split_providers(
    providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None,
    provider_options: Sequence[Mapping[str, Any]] | None,
) -> tuple[_options.Backend, int]:
    """Backend and device of ONNX Runtime's lists, in which the first provider that can be had is taken."""
    if isinstance(providers, str):
        raise TypeError("providers must be a sequence of names, got a str")
    names: list[str] = []
    options: dict[str, Mapping[str, Any]] = {}
    for position, provider in enumerate(providers or ()):
        name, given = (provider, {}) if isinstance(provider, str) else provider
        if provider_options is not None and position < len(provider_options):
            given = {**given, **provider_options[position]}
        if name not in _PROVIDERS.values():
            raise ValueError(f"provider {name!r} is not known; there are {_CUDA_PROVIDER} and {_CPU_PROVIDER}")
        names.append(name)
        options[name] = given
    unknown = sorted(key for given in options.values() for key in given if key != "device_id")
    if unknown or options.get(_CPU_PROVIDER):
        raise ValueError(f"of provider options only {_CUDA_PROVIDER}'s device_id has a meaning here, got {options}")
    device = int(options.get(_CUDA_PROVIDER, {}).get("device_id", 0))
    if not names or (names[0] == _CUDA_PROVIDER and _CPU_PROVIDER in names):
        return "auto", device
    return ("custom" if names[0] == _CUDA_PROVIDER else "cpu"), device


@dataclass
class SessionOptions:
    """The settings of ONNX Runtime's `SessionOptions` that have a meaning here. `InferenceSession` takes ONNX Runtime's own
    object too."""

    intra_op_num_threads: int = 0
    """Threads of the CPU engine, 0: one for each core."""


# Settings of ONNX Runtime's that ask for something that is not done here, what they are when they ask for nothing, and
# what there is instead. The others tell ONNX Runtime how to do what it does: they change no result.
_NOT_DONE: dict[str, tuple[Any, str]] = {
    "enable_profiling": (False, "Session.profile() measures layers"),
    "optimized_model_filepath": ("", "InferenceSession.engine.save() keeps the compiled engine"),
}


def _threads_of(options: Any) -> int:
    """What SessionOptions, this module's or ONNX Runtime's, say about threads."""
    if not hasattr(options, "intra_op_num_threads"):
        raise TypeError(f"sess_options must be SessionOptions, mobicuda's or ONNX Runtime's, got {type(options).__name__}")
    for name, (nothing, instead) in _NOT_DONE.items():
        if (value := getattr(options, name, nothing)) != nothing:
            raise ValueError(f"sess_options.{name} is {value!r}, which is not supported: {instead}")
    return _options.integer("sess_options.intra_op_num_threads", options.intra_op_num_threads, 0, 2**31 - 1)


class OrtValue:
    """A tensor that a binding holds: NumPy's, or one of a CUDA device."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """As a NumPy array; of a tensor on a device a copy, by its framework."""
        tensor = self._tensor
        if _arrays.is_torch(tensor):
            tensor = tensor.cpu().numpy()
        elif _arrays.is_cupy(tensor):
            tensor = tensor.get()
        elif isinstance(tensor, _Pointer):
            raise TypeError("memory that was bound by its address must be copied by its owner")
        return np.asarray(tensor)

    def device_name(self) -> str:
        return "cuda" if _arrays.is_on_device(self._tensor) else "cpu"

    def shape(self) -> list[int]:
        return list(self._tensor.shape)

    def to_dlpack(self) -> Any:
        return self._tensor.__dlpack__()

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._tensor.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[Any, Any]:
        device: tuple[Any, Any] = self._tensor.__dlpack_device__()
        return device


class _Pointer:
    """A tensor that the caller names by its address."""

    def __init__(self, address: int, shape: Sequence[int], dtype: np.dtype[Any], device: int) -> None:
        self.shape = tuple(_options.integers("shape", list(shape), 0))
        self.ndim = len(self.shape)
        self.dtype = dtype
        self._address = _options.integer("buffer_ptr", address, 1, 2**64 - 1)
        self._device = device

    def __dlpack__(self, **_: Any) -> object:
        return _native.capsule_of_pointer(self._address, self.shape, self.dtype.name, _arrays.CUDA, self._device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _arrays.CUDA, self._device


class IOBinding:
    """Which tensors a run reads and writes, so that nothing is copied between host and device. Not thread-safe."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._input: Any = None
        self._target: Any = None  # the tensor to write; None where each run makes one
        self._target_device = "cpu"  # on which it is then
        self._result: Any = None

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray[Any, np.dtype[Any]]) -> None:
        """Binds an array in host memory."""
        self._session._require_name("input", name, self._session.engine.input)
        self._input = _arrays.host_array("arr_on_cpu", arr_on_cpu)

    def bind_input(
        self,
        name: str,
        device_type: Any,
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds memory of a device by its address, as ONNX Runtime takes it, or a tensor: `bind_input(name,
        tensor)`."""
        info = self._session.engine.input
        self._session._require_name("input", name, info)
        self._input = _bound(device_type, device_id, element_type, shape, buffer_ptr, info)
        if self._input is None:
            raise ValueError("bind_input needs a tensor, or shape and buffer_ptr")

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self.bind_input(name, ortvalue._tensor)

    def bind_output(
        self,
        name: str,
        device_type: Any = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds where the output goes: memory by its address, a tensor (`bind_output(name, tensor)`), or no more than a
        kind
        of device: then each run makes an array, on a device by the framework of the input."""
        info = self._session.engine.output
        self._session._require_name("output", name, info)
        self._target = _bound(device_type, device_id, element_type, shape, buffer_ptr, info)
        self._target_device = device_type if isinstance(device_type, str) else ""

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self.bind_output(name, ortvalue._tensor)

    def clear_binding_inputs(self) -> None:
        self._input = None

    def clear_binding_outputs(self) -> None:
        self._target, self._target_device, self._result = None, "cpu", None

    def synchronize_inputs(self) -> None:
        """Nothing to do: DLPack's protocol orders a run behind the work on its tensors."""

    def synchronize_outputs(self) -> None:
        """Nothing to do: `run_with_iobinding` returns when the output is there."""

    def get_outputs(self) -> list[OrtValue]:
        """What the last run wrote."""
        if self._result is None:
            raise ValueError("there is no output yet: call run_with_iobinding()")
        return [OrtValue(self._result)]

    def copy_outputs_to_cpu(self) -> list[np.ndarray[Any, np.dtype[Any]]]:
        return [value.numpy() for value in self.get_outputs()]


def _bound(
    device_type: Any,
    device_id: int,
    element_type: Any,
    shape: Sequence[int] | None,
    buffer_ptr: int | None,
    info: TensorInfo,
) -> Any:
    """The tensor that arguments of bind_input and bind_output name; None for no more than a kind of device."""
    if not isinstance(device_type, str):
        if shape is not None or buffer_ptr is not None:
            raise TypeError("a tensor brings its shape and memory: shape and buffer_ptr are for a device's name")
        return device_type
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"device_type must be 'cpu', 'cuda' or a tensor, got {device_type!r}")
    if element_type is not None and np.dtype(element_type) != info.dtype:
        raise TypeError(f"{info.name!r} is {info.dtype}, got element_type {np.dtype(element_type)}")
    if buffer_ptr is None:
        return None
    if shape is None:
        raise ValueError("buffer_ptr needs a shape")
    if device_type == "cuda":
        return _Pointer(buffer_ptr, shape, info.dtype, _options.integer("device_id", device_id, 0, 2**31 - 1))
    raise ValueError("buffer_ptr is for memory of a CUDA device; bind NumPy arrays by bind_cpu_input() or as tensors")


class InferenceSession:
    """ONNX Runtime's `InferenceSession` over an engine of mobicuda: any number of threads may run it.

    `path_or_bytes` is an ONNX model or a plan, as a path or bytes. Further keyword arguments are those of
    `Engine.from_onnx` (of a plan: of `Engine.load`), e.g. `precision`; `max_batch` is 32 here. Larger batches run in
    parts. `sessions` is the most that run at the same time: each has activations of its own (`Engine.memory`), and
    further threads wait. `providers` are names of ONNX Runtime's: CUDAExecutionProvider is the custom engine; with
    CPUExecutionProvider behind it, or without any, the CPU is taken where no GPU can be used. `sess_options` are
    `SessionOptions`, ONNX Runtime's too: of their settings intra_op_num_threads is `threads`, and what asks for a file
    (profiling, an optimised model) is a ValueError; the others change nothing.
    """

    def __init__(
        self,
        path_or_bytes: ModelSource,
        sess_options: Any = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        sessions: int = 4,
        **engine_options: Any,
    ) -> None:
        if sess_options is not None and (threads := _threads_of(sess_options)) > 0:
            engine_options.setdefault("threads", threads)
        most = _options.integer("sessions", sessions, 1, 65536)
        backend, device = _split_providers(providers, provider_options)
        engine_options.setdefault("device", device)
        if is_plan(path_or_bytes):
            load: Callable[..., Engine] = (
                Engine.deserialize if isinstance(path_or_bytes, (bytes, bytearray, memoryview)) else Engine.load
            )
            engine = load(path_or_bytes, **engine_options)
            if backend not in ("auto", engine.backend):
                raise ValueError(f"the plan is of {_PROVIDERS[engine.backend]}, not of {_PROVIDERS[backend]}")
        else:
            engine_options.setdefault("max_batch", 32)
            if providers is not None:
                engine_options.setdefault("backend", backend)
            engine = Engine.from_onnx(path_or_bytes, **engine_options)
        self._pool = SessionPool(engine, most)

    @property
    def engine(self) -> Engine:
        return self._pool.engine

    def get_inputs(self) -> list[NodeArg]:
        return [_node_arg(info) for info in self.engine.inputs]

    def get_outputs(self) -> list[NodeArg]:
        return [_node_arg(info) for info in self.engine.outputs]

    def get_providers(self) -> list[str]:
        """The one that runs."""
        return [_PROVIDERS[self.engine.backend]]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: None = None
    ) -> list[Any]:
        """[output] for {input's name: array}. `output_names` is None or [the output's name]. Arrays are those of
        `Session.run`: NumPy's give NumPy's, and tensors on a device give tensors there, without waiting. Releases the
        GIL."""
        self._require_no_options(run_options)
        for name in output_names or ():
            self._require_name("output", name, self.engine.output)
        wanted = self.engine.input
        if not isinstance(input_feed, Mapping):
            raise TypeError(f"input_feed must map input names to arrays, got {type(input_feed).__name__}")
        for name in input_feed:
            self._require_name("input", name, wanted)
        if wanted.name not in input_feed:
            raise ValueError(f"input_feed lacks {wanted.name!r}")
        with self._pool.session() as session:
            output = _run_in_parts(session, input_feed[wanted.name])
        return [output] * max(1, len(output_names or ()))

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: None = None) -> None:
        """Runs what is bound, up to max_batch images, and returns when the output is there."""
        self._require_no_options(run_options)
        if iobinding._session is not self:
            raise ValueError("the binding is of another session")
        if iobinding._input is None:
            raise ValueError(f"input {self.engine.input.name!r} is not bound")
        with self._pool.session() as session:
            result = session.run(iobinding._input, iobinding._target)
            session.synchronize()
        if iobinding._target is None and iobinding._target_device == "cpu" and _arrays.is_on_device(result):
            result = OrtValue(result).numpy()
        iobinding._result = result

    def close(self) -> None:
        """Frees the sessions' memory, that of sessions in use once they are not. Runs are a ValueError from now on."""
        self._pool.close()

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_name(self, role: str, name: str, info: TensorInfo) -> None:
        if name != info.name:
            raise ValueError(f"there is no {role} {name!r}: the model's is {info.name!r}")

    @staticmethod
    def _require_no_options(run_options: None) -> None:
        if run_options is not None:
            raise TypeError("run_options must be None: none of its settings has a meaning here")

    def _refuse_copies(self, *_: object) -> NoReturn:
        raise TypeError(
            "a mobicuda InferenceSession cannot be copied or pickled; share it between threads, and for processes "
            "load session.engine.serialize() in each"
        )

    __reduce_ex__ = __copy__ = __deepcopy__ = _refuse_copies


def _run_in_parts(session: Session, array: Any) -> Any:
    most = session.engine.max_batch
    if _arrays.is_on_device(array):
        if len(array) <= most:
            return session.run(array)
        parts = [session.run(array[first : first + most]) for first in range(0, len(array), most)]
        return _arrays.concatenate(parts)
    array = _arrays.host_array("input", array)
    if array.ndim == 0 or len(array) <= most:
        return session.run(array)
    first_part = session.run(array[:most])  # which also finds what is wrong with the array
    output = np.empty((len(array), *session.engine.output.image_shape), np.float32)
    output[:most] = first_part
    for part in range(1, math.ceil(len(array) / most)):
        rows = slice(part * most, (part + 1) * most)
        session.run(array[rows], output[rows])
    return output
