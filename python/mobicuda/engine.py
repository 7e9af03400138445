"""Engines and sessions."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NoReturn, Union, cast

import numpy as np

from mobicuda import _arrays, _native, _options
from mobicuda._options import Backend, HostTransfer, Log, Path, PictureInput, Precision, Specialise
from mobicuda.errors import FileError, MissingFileError

_PLAN_MAGIC = b"MOBIPLAN"
ModelSource = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a network."""

    name: str
    """The model's name for it."""
    dtype: np.dtype[Any]
    """float32, or uint8 for pictures."""
    shape: tuple[int | None, ...]
    """In the order of memory; None is the batch, 1 to `Engine.max_batch`."""
    layout: str
    """"NCHW" or "NHWC" for images, "" for others."""

    @property
    def image_shape(self) -> tuple[int, ...]:
        """The shape without the batch."""
        return tuple(extent for extent in self.shape if extent is not None)


@dataclass(frozen=True)
class LayerInfo:
    """One step of a compiled network."""

    name: str
    """Names of the model's nodes, "a+b+c" where fused."""
    kernel: str
    """What runs it, e.g. "gemm/mma_64x64x64"."""
    output: tuple[int, ...]
    """Shape, per image, with a batch of 1."""
    flops: int
    """Per image."""
    activation_bytes: int
    """Read and written, per image."""
    weight_bytes: int
    """Read once for a batch."""
    reason: str
    """Why this kernel; empty where there was no choice."""
    value: str
    """Name of the model's tensor that the layer finishes; empty for a layer that finishes none."""


@dataclass(frozen=True)
class MemoryReport:
    """Bytes that an engine and one of its sessions hold: of the GPU's memory, or of the host's for the cpu engine."""

    weight_bytes: int
    """Packed weights, which all sessions share."""
    arena_bytes: int
    """Activations of one session."""
    workspace_bytes: int
    """Scratch of one session."""
    io_bytes: int
    """Input and output of one session."""

    @property
    def total(self) -> int:
        return self.weight_bytes + self.arena_bytes + self.workspace_bytes + self.io_bytes


@dataclass(frozen=True)
class LayerTimes:
    """What `Session.profile` measured, in milliseconds: medians."""

    layers: list[float]
    """In the order of `Engine.layers(n)`."""
    whole: float
    """A run of the same layers, without a clock between them."""
    boundary: float
    """What a reading of the clock adds, and was taken off."""


def is_plan(model: ModelSource) -> bool:
    """Whether a model is a plan file or its bytes; False where it cannot be read."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model[: len(_PLAN_MAGIC)]) == _PLAN_MAGIC
    try:
        with open(model, "rb") as file:
            return file.read(len(_PLAN_MAGIC)) == _PLAN_MAGIC
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _opening(path: str) -> Iterator[None]:
    """A file that is not there is a FileNotFoundError, as Python's users expect."""
    try:
        yield
    except FileError as error:
        if isinstance(error, MissingFileError) or os.path.lexists(path):
            raise
        raise MissingFileError(error.code, path, "there is no such file", error.hint) from None


def _refuse_copies(self: object, *_: object) -> NoReturn:
    remedy = (
        "load it in each process: Engine.serialize() gives bytes for it"
        if isinstance(self, Engine)
        else "create one from the engine for each thread"
    )
    raise TypeError(f"a mobicuda {type(self).__name__} cannot be copied or pickled; {remedy}")


class Engine:
    """A compiled network with its weights in place: immutable, and shared by any number of threads.

    Make one by `from_onnx()`, `load()` or `deserialize()`. Runs happen in sessions: `create_session()`.
    A forked child cannot use the engines of its parent; that is an `InvalidArgumentError`.
    """

    __slots__ = ("__weakref__", "_input", "_object", "_output")

    _object: _native.Engine
    _input: TensorInfo
    _output: TensorInfo

    def __init__(self) -> None:
        raise TypeError("make an engine by Engine.from_onnx(), Engine.load() or Engine.deserialize()")

    @classmethod
    def _of(cls, native: _native.Engine) -> Engine:
        engine = object.__new__(cls)
        engine._object = native
        engine._input, engine._output = (
            TensorInfo(name, np.dtype(dtype), (None, *extents), layout)
            for name, dtype, extents, layout in (native.input, native.output)
        )
        return engine

    @classmethod
    def from_onnx(
        cls,
        model: ModelSource,
        *,
        backend: Backend = "auto",
        precision: Precision = "fp32",
        max_batch: int = 1,
        plan_batches: Sequence[int] | None = None,
        device: int = 0,
        threads: int = 0,
        picture_shape: Sequence[int] = (),
        picture_input: PictureInput | None = None,
        cuda_graph: bool = True,
        programmatic_launch: bool = True,
        guarded_arena: bool = False,
        host_transfer: HostTransfer = "auto",
        kernel_variants: Mapping[str, str] | None = None,
        timing_cache: Path | None = None,
        require_timing_cache: bool = False,
        specialise: Specialise = "auto",
        code_cache: Path | bool = True,
        nvrtc_library: Path | None = None,
        max_memory_bytes: int = 0,
        log: Log | None = None,
    ) -> Engine:
        """Compiles an ONNX model: a path, or the file's bytes. Releases the GIL.

        backend: "custom" is the GPU engine, "cpu" the portable one. "auto" is custom where a GPU can be used, else cpu;
            the log says so, and `Engine.backend`. The precision never changes by itself: fp16 on a machine without a
            GPU is an `UnsupportedError`.
        precision: "fp32" (exact, never TF32), "fp32_split" (GPU; fp32 of which pointwise products are three of halves),
            "fp16" (GPU; sums in fp32), "fp64". Inputs and outputs are float32 in
            each.
        max_batch: a session runs any n from 1 to it.
        plan_batches: GPU: batch sizes with a plan of their own, rising; () for max_batch only, None chooses.
        device: index of the CUDA device.
        threads: workers of each session of the cpu engine; 0 for one on each core.
        picture_shape: extents that the file leaves open, other than the batch: (C, H, W) or (H, W, C) in the file's
            order.
        picture_input: sessions take pictures in bytes, uint8 of shape (n, H, W, 3), and normalise them.
        cuda_graph, programmatic_launch: how the GPU runs its kernels; False for looking at them one by one.
        guarded_arena: GPU: one allocation for each tensor, so that memory checkers see overruns.
        host_transfer: GPU: how staged runs move data.
        kernel_variants: GPU: kernel -> variant, instead of the planner's choice (kernels/README.md).
        timing_cache: GPU: a file of measured times to choose kernels by; missing ones are measured and added.
        require_timing_cache: a time that the file lacks is an error.
        specialise: GPU: whether kernels are compiled for the model's shapes (docs/specialise.md).
        code_cache: where those are kept: True for the user's cache folder, False for nowhere, or a folder.
        nvrtc_library: the file of NVRTC; None searches for it.
        max_memory_bytes: the most that the engine and one session may hold; 0 for no limit.
        log: called as log(level, text), with level "info" or "warning", while this call runs and in its thread. What it
            raises is raised here.

        Raises `Error`; what is wrong with an argument's type is a TypeError.
        """
        options = _options.run_options(
            device=device,
            threads=threads,
            cuda_graph=cuda_graph,
            programmatic_launch=programmatic_launch,
            guarded_arena=guarded_arena,
            host_transfer=host_transfer,
            specialise=specialise,
            code_cache=code_cache,
            nvrtc_library=nvrtc_library,
            max_memory_bytes=max_memory_bytes,
        )
        _options.add_compile_options(
            options,
            precision=precision,
            max_batch=max_batch,
            plan_batches=plan_batches,
            picture_input=picture_input,
            kernel_variants=kernel_variants,
            timing_cache=timing_cache,
            require_timing_cache=require_timing_cache,
        )
        name = _options.backend(backend)
        extents = _options.integers("picture_shape", picture_shape, 1)
        log = _options.log_callable(log)
        if isinstance(model, (bytes, bytearray, memoryview)):
            return cls._of(_native.from_onnx_bytes(bytes(model), name, options, extents, log))
        path = _options.path("model", model)
        with _opening(path):
            return cls._of(_native.from_onnx_file(path, name, options, extents, log))

    @classmethod
    def load(cls, path: Path, **options: Any) -> Engine:
        """Loads a plan file, which `save()` or `bench_engine --saveEngine` wrote. Releases the GIL.

        It runs on a GPU or CPU like the one where it was compiled, by the library version that wrote it. Backend,
        precision, max_batch, picture_input and kernels are the plan's. `options` are those of `from_onnx()` that decide
        how
        it runs: device, threads, cuda_graph, programmatic_launch, guarded_arena, host_transfer, specialise, code_cache,
        nvrtc_library, max_memory_bytes and log. A plan may hold machine code: load it from where you would load
        programs from. Raises `Error`.
        """
        name = _options.path("path", path)
        with _opening(name):
            return cls._restored(_native.from_plan_file, name, **options)

    @classmethod
    def deserialize(cls, plan: bytes | bytearray | memoryview, **options: Any) -> Engine:
        """The same from the bytes that `serialize()` gave."""
        if not isinstance(plan, (bytes, bytearray, memoryview)):
            raise TypeError(f"plan must be bytes, got {type(plan).__name__}; Engine.load() takes a path")
        return cls._restored(_native.from_plan_bytes, bytes(plan), **options)

    @classmethod
    def _restored(
        cls,
        restore: Any,
        source: str | bytes,
        *,
        device: int = 0,
        threads: int = 0,
        cuda_graph: bool = True,
        programmatic_launch: bool = True,
        guarded_arena: bool = False,
        host_transfer: HostTransfer = "auto",
        specialise: Specialise = "auto",
        code_cache: Path | bool = True,
        nvrtc_library: Path | None = None,
        max_memory_bytes: int = 0,
        log: Log | None = None,
    ) -> Engine:
        options = _options.run_options(
            device=device,
            threads=threads,
            cuda_graph=cuda_graph,
            programmatic_launch=programmatic_launch,
            guarded_arena=guarded_arena,
            host_transfer=host_transfer,
            specialise=specialise,
            code_cache=code_cache,
            nvrtc_library=nvrtc_library,
            max_memory_bytes=max_memory_bytes,
        )
        return cls._of(restore(source, options, _options.log_callable(log)))

    def save(self, path: Path) -> None:
        """Writes the engine as a plan file, in place of what was there. Releases the GIL. Raises `Error`."""
        self._object.save(_options.path("path", path))

    def serialize(self) -> bytes:
        """The plan file's bytes, e.g. for other processes. Releases the GIL. Raises `Error`."""
        return self._object.serialize()

    @property
    def backend(self) -> str:
        """ "custom" or "cpu"."""
        return self._object.backend

    @property
    def precision(self) -> str:
        """ "fp32", "fp32_split", "fp16" or "fp64"."""
        return self._object.options.precision

    @property
    def max_batch(self) -> int:
        """The most images of a run."""
        return self._object.options.max_batch

    @property
    def device(self) -> int:
        """Index of the CUDA device; of no meaning for the cpu engine."""
        return self._object.options.device

    @property
    def picture_input(self) -> PictureInput | None:
        """What was asked for; None where the engine takes floats."""
        given = self._object.options.picture_input
        if given is None:
            return None
        return PictureInput(
            cast("tuple[float, float, float]", tuple(given.scale)),
            cast("tuple[float, float, float]", tuple(given.shift)),
        )

    @property
    def input(self) -> TensorInfo:
        """What the network reads."""
        return self._input

    @property
    def output(self) -> TensorInfo:
        """What the network gives."""
        return self._output

    @property
    def inputs(self) -> list[TensorInfo]:
        """[input], for programs that expect several."""
        return [self._input]

    @property
    def outputs(self) -> list[TensorInfo]:
        """[output]."""
        return [self._output]

    @property
    def memory(self) -> MemoryReport:
        """Exact, and known before a session allocates anything."""
        return MemoryReport(*self._object.memory)

    @property
    def upload_ms(self) -> float:
        """Milliseconds that the copy of the weights to the device took; 0 where there was none."""
        return self._object.upload_ms

    def layers(self, n: int | None = None) -> list[LayerInfo]:
        """What a run of n images runs; None is max_batch. Raises `InvalidArgumentError` on an n that cannot be run."""
        batch = self.max_batch if n is None else _options.integer("n", n, 1)
        return [LayerInfo(*layer) for layer in self._object.layers(batch)]

    def create_session(self) -> Session:
        """A session, with memory of its own. Thread-safe. Raises `OutOfMemoryError`."""
        return Session(self)

    __reduce_ex__ = __copy__ = __deepcopy__ = _refuse_copies

    def __repr__(self) -> str:
        return (
            f"<mobicuda.Engine {self.backend} {self.precision}, {self._input.name!r} {self._input.dtype} "
            f"{self._input.shape} -> {self._output.name!r} {self._output.shape}, max_batch {self.max_batch}>"
        )


class Session:
    """Runs one engine, with activations and a stream of its own: one session for each thread.

    A call while another thread is in one is an `InvalidArgumentError`. As a context manager it is closed at the end.
    Every call releases the GIL while the engine works.
    """

    __slots__ = ("__weakref__", "_engine", "_object", "_torch_run")

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine, Engine):
            raise TypeError(f"engine must be a mobicuda.Engine, got {type(engine).__name__}")
        self._engine = engine
        self._object = _native.Session(engine._object)
        self._torch_run = _arrays.TorchRun(engine) if engine.backend != "cpu" else None

    @property
    def engine(self) -> Engine:
        return self._engine

    def run(self, input: Any, out: Any = None, *, stream: Any = None) -> Any:
        """Runs the network on n images, and returns its output of shape (n, ...), float32.

        From the host: `input` is a NumPy array, or any tensor in host memory that has `__dlpack__`. The call blocks,
        and gives a NumPy array: `out`, where that is given.

        From a CUDA device: `input` is any tensor there that has `__dlpack__` (PyTorch, CuPy, JAX, ...). The kernels are
        enqueued, and nothing waits. `out` may be left out for tensors of PyTorch and CuPy, which give one of their own.
        The stream is `stream`, a handle or an object with `__cuda_stream__` (one of PyTorch or CuPy will do); by
        default the one on which the framework of `out`, or else of `input`, works now, and CUDA's legacy default stream
        for a framework that does not tell its own. By DLPack's protocol each framework lets that stream wait for its
        work on the tensors that is under way. So with the default, everything is in order by itself. With another
        stream, what comes after the call must wait for that stream, and the tensors must live until it is done.

        Dtype, shape and memory must be those of `engine.input` and `engine.output`: nothing is converted, and of what
        has gaps or other strides only NumPy arrays are copied. Buffers of a device start at a multiple of 16 bytes.
        `input` and `out` must not overlap. TypeError and ValueError say what was expected and what was given; `Error`
        comes from the library.
        """
        if stream is None and self._torch_run is not None and (plain := self._torch_run.accepts(input, out)):
            self._object.run_pointers(*plain)
            return out
        on_device = _arrays.is_on_device(input), _arrays.is_on_device(out)
        if any(on_device):
            return self._run_on_device(input, out, on_device, stream)
        if stream is not None:
            raise TypeError("stream is for tensors on a CUDA device; a run from host memory blocks")
        given = _arrays.host_array("input", input)
        if out is None:
            return self._object.run_host(given, None)
        self._object.run_host(given, _arrays.host_array("out", out))
        return out

    def _run_on_device(self, input: Any, out: Any, on_device: tuple[bool, bool], stream: Any) -> Any:
        if self._engine.backend == "cpu":
            raise TypeError("the cpu engine takes arrays in host memory, got a tensor on a CUDA device")
        for role, array, is_there in zip(("input", "out"), (input, out), on_device, strict=True):
            if not is_there and (array is not None or role == "input"):
                raise TypeError(
                    f"{role} must be a tensor on a CUDA device, as the other one is, got "
                    f"{type(array).__name__} in host memory"
                )
        of_input = _arrays.current_stream(input)
        of_out = of_input if _arrays.same_place(input, out) else _arrays.current_stream(out)
        if stream is not None:
            handle = _arrays.stream_handle(stream)
        else:
            handle = next((own for own in (of_out, of_input) if own is not None), 0)
        if out is None:
            of_out = of_input
            n = input.shape[0] if input.ndim else 0
            self._object.require_batch(n)
            out = _arrays.empty_beside(input, (n, *self._engine.output.image_shape), handle)
        self._object.run_device(
            _arrays.capsule(input, of_input, handle), _arrays.capsule(out, of_out, handle), handle
        )
        return out

    def staged_input(self, n: int) -> np.ndarray[Any, np.dtype[Any]]:
        """The session's own input memory (page-locked for GPUs) for n images, to be filled in before `run_staged(n)`.

        It stays in place, and lives as long as a view of it. Do not touch it between `enqueue_staged()` and
        `synchronize()`.
        """
        return cast("np.ndarray[Any, np.dtype[Any]]", self._object.staged_input(_options.integer("n", n, 1)))

    def staged_output(self, n: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The session's own output memory, read-only: what the last staged run wrote, until the next one."""
        return cast("np.ndarray[Any, np.dtype[np.float32]]", self._object.staged_output(_options.integer("n", n, 1)))

    def run_staged(self, n: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Runs the first n images of the staged input, and returns `staged_output(n)`: the fast way from host to
        host."""
        self._object.run_staged(_options.integer("n", n, 1))
        return self.staged_output(n)

    def enqueue_staged(self, n: int) -> None:
        """The same without waiting on a GPU: call `synchronize()` before the output is read."""
        self._object.enqueue_staged(_options.integer("n", n, 1))

    def synchronize(self) -> None:
        """Waits for all that the session has enqueued."""
        self._object.synchronize()

    def warm_up(self, batches: Sequence[int] | None = None) -> None:
        """Makes ready for runs of these numbers of images, so that none takes longer because it is the first; None is
        max_batch. Staged runs are included once the staged memory was asked for."""
        self._object.warm_up([self._engine.max_batch] if batches is None else _options.integers("batches", batches, 1))

    def time(self, n: int = 1, *, iterations: int = 100, runs: int = 1) -> list[float]:
        """Milliseconds of runs of n images without transfers, each the mean of `runs` in a row: by CUDA events on a
        GPU."""
        return self._object.time(
            _options.integer("n", n, 1),
            _options.integer("iterations", iterations, 1, 2**31 - 1),
            _options.integer("runs", runs, 1, 2**31 - 1),
        )

    def profile(
        self, n: int = 1, *, iterations: int = 10, mode: Literal["as_run", "serialized"] = "as_run"
    ) -> LayerTimes:
        """Milliseconds of each of `engine.layers(n)`: "as_run" with layers that overlap, "serialized" each by
        itself."""
        if mode not in ("as_run", "serialized"):
            raise ValueError(f"mode must be 'as_run' or 'serialized', got {mode!r}")
        return LayerTimes(
            *self._object.profile(
                _options.integer("n", n, 1),
                _options.integer("iterations", iterations, 1, 2**31 - 1),
                mode == "serialized",
            )
        )

    def close(self) -> None:
        """Frees the session's memory, once runs of other threads have ended and no view of staged memory is left. May
        be called again; other calls are an `InvalidArgumentError` from now on."""
        self._object.close()

    @property
    def closed(self) -> bool:
        return self._object.closed

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    __reduce_ex__ = __copy__ = __deepcopy__ = _refuse_copies

    def __repr__(self) -> str:
        return f"<mobicuda.Session of {self._engine!r}{', closed' if self.closed else ''}>"


class SessionPool:
    """Sessions of an engine for any number of threads: made when they are needed, up to a number. Thread-safe."""

    def __init__(self, engine: Engine, most: int) -> None:
        self.engine = engine
        self._idle: collections.deque[Session] = collections.deque()
        # One for each session that may run. A queue of C's: threads that hand over sessions hold the GIL for less time than
        # with a semaphore of Python's.
        self._permits: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(most):
            self._permits.put(None)
        self._closed = False

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """A session for the caller alone; waits while all are in use."""
        self._permits.get()
        try:
            if self._closed:
                raise ValueError("the session is closed")
            try:
                session = self._idle.pop()
            except IndexError:
                session = self.engine.create_session()
            try:
                yield session
            finally:
                self._idle.append(session)
                if self._closed:
                    self._close_idle()
        finally:
            self._permits.put(None)

    def close(self) -> None:
        """Closes idle sessions; those in use are closed when they are given back."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread may have taken the last one
                self._idle.pop().close()
