"""PyTorch: classifiers of it as engines.

`compile_module` turns a module into one that runs on an engine; `torch.compile(module, backend="mobicuda")` does so
through TorchDynamo. Both are for inference, and for networks that lie wholly within `mobicuda.supported_operators()`.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import torch  # pyright: ignore[reportMissingImports]

from mobicuda import _arrays
from mobicuda.engine import Engine, SessionPool
from mobicuda.errors import Error, UnsupportedError
from mobicuda.machine import supported_operators

__all__ = ["CompiledModule", "compile_module", "dynamo_backend"]

_OPSET = 17
_MAX_BATCH = 32


class CompiledModule(torch.nn.Module):
    """A network on an engine, called as the module that it was made of. Any number of threads may call it.

    It takes tensors of shape (n, ...) on any device. On the engine's CUDA device it runs on PyTorch's current stream
    and waits for nothing; others are copied. More than `max_batch` images run in parts. There is no gradient, and no
    training.
    """

    def __init__(self, engine: Engine, dtype: torch.dtype, sessions: int = 4) -> None:
        super().__init__()
        self.engine = engine
        self._dtype = dtype
        self._pool = SessionPool(engine, sessions)
        super().train(False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and input.requires_grad:
            raise RuntimeError(
                "a compiled module has no gradient: call it under torch.no_grad(), or with input.detach()"
            )
        if input.dtype != self._dtype:
            raise TypeError(f"input must be {self._dtype}, as the example was, got {input.dtype}")
        batch = input.detach().to(torch.float32).contiguous()
        on_device = _arrays.is_on_device(batch) and self.engine.backend != "cpu"
        if not on_device:
            batch = batch.cpu()
        parts = [self._run(part, on_device) for part in batch.split(self.engine.max_batch)]
        output = parts[0] if len(parts) == 1 else torch.cat(parts)
        return output.to(device=input.device, dtype=self._dtype)

    def _run(self, part: torch.Tensor, on_device: bool) -> torch.Tensor:
        with self._pool.session() as session:
            output = session.run(part if on_device else part.numpy())
        return output if on_device else torch.from_numpy(output)

    def train(self, mode: bool = True) -> CompiledModule:
        if mode:
            raise RuntimeError("a compiled module is for inference: train the one that it was made of")
        return self

    def __reduce_ex__(self, *_: object) -> NoReturn:
        raise TypeError("a compiled module cannot be copied or pickled; engine.serialize() keeps its engine")

    def extra_repr(self) -> str:
        return repr(self.engine)


def compile_module(
    module: torch.nn.Module, example: torch.Tensor, *, sessions: int = 4, **options: Any
) -> CompiledModule:
    """Compiles a module that maps one tensor to one, by way of ONNX in memory.

    module: in eval mode. example: an input as it will be called with; its batch is free later. options: those of
    `Engine.from_onnx`; `max_batch` is 32 here, and `device` that of the example. Raises `UnsupportedError` that lists
    every operator which mobicuda lacks, and what the exporter raises.
    """
    if not isinstance(example, torch.Tensor) or example.ndim < 2:
        raise TypeError(f"example must be a tensor of shape (n, ...), got {type(example).__name__}")
    if module.training:
        raise ValueError("the module is in training mode: call module.eval() first")
    return _compile(_export(module, example), example, sessions, options)


def _compile(model: bytes, example: torch.Tensor, sessions: int, options: dict[str, Any]) -> CompiledModule:
    lacking = sorted(_operators(model) - {operator.name for operator in supported_operators()})
    if lacking:
        raise UnsupportedError(
            "unsupported",
            "module",
            f"has operators that mobicuda lacks: {', '.join(lacking)}",
            "docs/onnx.md lists those that it has",
        )
    options.setdefault("max_batch", max(_MAX_BATCH, example.shape[0]))
    if example.device.type == "cuda":
        options.setdefault("device", example.device.index or 0)
    return CompiledModule(Engine.from_onnx(model, **options), example.dtype, sessions)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """(number, bytes) of a protobuf message's fields that hold bytes. The exporter wrote it, so it is well formed."""
    place = 0

    def varint() -> int:
        nonlocal place
        value, shift = 0, 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = varint()
        kind = key & 7
        if kind == 2:
            length = varint()
            yield key >> 3, message[place : place + length]
            place += length
        elif kind == 0:
            varint()
        else:
            place += 8 if kind == 1 else 4


def _operators(model: bytes) -> set[str]:
    """The operators of an ONNX model's nodes: ModelProto.graph.node.op_type."""
    return {
        bytes(name).decode()
        for field, graph in _fields(memoryview(model))
        if field == 7
        for node_field, node in _fields(graph)
        if node_field == 1
        for name_field, name in _fields(node)
        if name_field == 4
    }


def _export(module: torch.nn.Module, example: torch.Tensor) -> bytes:
    buffer = io.BytesIO()
    # The newer exporter needs packages that PyTorch does not bring (onnxscript), and splits what this one keeps whole.
    newer = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    with torch.no_grad():
        torch.onnx.export(
            module,
            (example,),
            buffer,
            input_names=["input"],
            output_names=["output"],
            opset_version=_OPSET,
            dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
            **newer,
        )
    return buffer.getvalue()


class _WithConstants(torch.nn.Module):
    """A graph of TorchDynamo, which takes parameters and buffers as inputs, as a module of the one real input."""

    def __init__(self, graph: torch.nn.Module, inputs: Sequence[Any], position: int) -> None:
        super().__init__()
        self._graph = graph
        self._constants = {index: value for index, value in enumerate(inputs) if index != position}
        self._position = position

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        arguments = [
            input if index == self._position else self._constants[index] for index in range(len(self._constants) + 1)
        ]
        outputs = self._graph(*arguments)
        return outputs[0] if isinstance(outputs, (tuple, list)) else outputs


def _static_inputs(graph: Any, example_inputs: Sequence[Any]) -> list[bool]:
    """Which inputs of a graph are the module's own parameters and buffers."""
    static = []
    for node, value in zip(
        (node for node in graph.graph.nodes if node.op == "placeholder"), example_inputs, strict=True
    ):
        source = type(getattr(node, "_dynamo_source", None)).__name__
        static.append(
            isinstance(value, torch.nn.Parameter)
            or hasattr(value, "_dynamo_static_input_type")
            or source in ("ParamBufferSource", "UnspecializedParamBufferSource")
        )
    return static


def dynamo_backend(graph: Any, example_inputs: Sequence[Any], **keywords: Any) -> Callable[..., Any]:
    """The backend "mobicuda" of `torch.compile`. Options of `Engine.from_onnx` come by `options={...}`.

    It takes graphs of one tensor to one with static weights: a whole classifier in eval mode, under `torch.no_grad()`.
    Anything else is an `UnsupportedError`; nothing falls back to PyTorch.
    """
    options = dict(keywords.get("options") or {})
    if torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs
    ):
        raise UnsupportedError(
            "unsupported",
            "torch.compile",
            "mobicuda computes no gradients",
            "call the module under torch.no_grad() or torch.inference_mode()",
        )
    static = _static_inputs(graph, example_inputs)
    free = [index for index, is_static in enumerate(static) if not is_static]
    tensors = [index for index in free if isinstance(example_inputs[index], torch.Tensor)]
    outputs = next(node for node in graph.graph.nodes if node.op == "output").args[0]
    count = len(outputs) if isinstance(outputs, (tuple, list)) else 1
    if len(tensors) != 1 or count != 1:
        raise UnsupportedError(
            "unsupported",
            "torch.compile",
            f"a graph must map one tensor to one, this one maps {len(tensors)} to {count}",
            "use compile_module() on the part that does, or fullgraph=True to see where graphs break",
        )
    (position,) = tensors
    example = example_inputs[position].detach()
    if len(free) > 1:  # a dynamic batch comes as a number of its own
        example = torch.empty([int(extent) for extent in example.shape], dtype=example.dtype, device=example.device)
    module = _WithConstants(
        graph,
        [
            value if index == position or not isinstance(value, torch.Tensor) else value.detach()
            for index, value in enumerate(example_inputs)
        ],
        position,
    )
    try:
        compiled = _compile(_export(module.eval(), example), example, 4, options)
    except Error as error:
        raise type(error)(error.code, "torch.compile: " + error.where, error.message, error.hint) from error

    def run(*arguments: Any) -> Any:
        return (compiled(arguments[position]),)

    return run
