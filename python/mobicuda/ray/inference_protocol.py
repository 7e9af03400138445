"""The Open Inference Protocol (KServe v2) without a network: requests of REST, with JSON or binary tensors, and of gRPC
to arrays, and arrays to answers. Needs no Ray; gRPC's messages need protobuf."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from mobicuda._native import version

VERSION = "1"
"""Of every model: a table's line has one."""
EXTENSIONS = ("binary_tensor_data",)
HEADER_LENGTH = "Inference-Header-Content-Length"

_NAME = "mobicuda"
_MOST_SHOWN = 100  # characters of what a client sent, in an error
_TYPES: dict[str, np.dtype[Any]] = {"FP32": np.dtype("<f4"), "UINT8": np.dtype("u1"), "INT32": np.dtype("<i4")}
_CONTENTS = {"FP32": "fp32_contents", "UINT8": "uint_contents"}  # of gRPC's typed tensors
_REFUSED_PARAMETERS = ("shared_memory_region", "classification")


class Why(Enum):
    """A request was not answered: HTTP's and gRPC's code."""

    INVALID = (400, "INVALID_ARGUMENT")
    UNKNOWN = (404, "NOT_FOUND")
    METHOD = (405, "UNIMPLEMENTED")
    TOO_LARGE = (413, "INVALID_ARGUMENT")
    ENCODING = (415, "INVALID_ARGUMENT")
    INTERNAL = (500, "INTERNAL")
    UNAVAILABLE = (503, "UNAVAILABLE")
    DEADLINE = (504, "DEADLINE_EXCEEDED")

    @property
    def http(self) -> int:
        return self.value[0]

    @property
    def grpc(self) -> str:
        return self.value[1]


class Refusal(Exception):
    """Why a request is not answered, in words for who sent it. Can be pickled."""

    def __init__(self, why: Why, text: str) -> None:
        super().__init__(why, text)
        self.why, self.text = why, text


class Tensor(NamedTuple):
    """An input or output of a model."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    """Without the batch."""


class Description(NamedTuple):
    """What clients may know of a model."""

    name: str
    input: Tensor
    outputs: tuple[Tensor, ...]
    max_batch: int


class Inference(NamedTuple):
    """A request that was read."""

    id: str
    images: np.ndarray[Any, Any]
    outputs: tuple[str, ...]
    binary: frozenset[str] = frozenset()
    """Outputs that the answer has as binary tensors; of HTTP alone."""


class Answer(NamedTuple):
    """Of HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes


class Models(Protocol):
    """Who has the models. Both methods may raise `Refusal`."""

    async def describe(self, name: str) -> Description:
        """Raises `Refusal` where there is no such model."""

    async def infer(
        self, name: str, images: np.ndarray[Any, Any], outputs: Sequence[str]
    ) -> Sequence[np.ndarray[Any, Any]]:
        """An array, (n, ...), for each of these outputs."""

    async def ready(self) -> bool:
        """Whether all models can be asked."""


def _invalid(text: str) -> NoReturn:
    raise Refusal(Why.INVALID, text)


def _shown(value: object) -> str:
    """What a client sent, for an error's text."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _check_version(name: str, version: str) -> None:
    if version not in ("", VERSION):
        raise Refusal(Why.UNKNOWN, f"model {_shown(name)} has the version {VERSION} alone, not {_shown(version)}")


def _check_input(model: Description, name: object, datatype: object, shape: object) -> tuple[int, ...]:
    """The shape, which the model takes."""
    expected = model.input
    if name != expected.name:
        _invalid(f"the model's input is {expected.name!r}, got one named {_shown(name)}")
    if datatype != expected.datatype:
        _invalid(f"input {expected.name!r}: the model takes {expected.datatype}, got {_shown(datatype)}")
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not all(type(extent) is int for extent in shape):
        _invalid(f"input {expected.name!r}: the shape must be a list of whole numbers, got {_shown(shape)}")
    if len(shape) != 1 + len(expected.shape) or tuple(shape[1:]) != expected.shape:
        wanted = ", ".join(["n", *map(str, expected.shape)])
        _invalid(f"input {expected.name!r}: the model takes the shape [{wanted}], got {_shown(list(shape))}")
    if not 1 <= shape[0] <= model.max_batch:
        _invalid(f"input {expected.name!r}: a request has 1 to {model.max_batch} images, got {shape[0]}")
    return tuple(shape)


def _of_bytes(data: Any, datatype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    kind = _TYPES[datatype]
    expected = math.prod(shape) * kind.itemsize
    if len(data) != expected:
        _invalid(f"a tensor of {datatype} and the shape {list(shape)} has {expected} bytes, got {len(data)}")
    return np.frombuffer(data, kind).reshape(shape)


def _of_numbers(data: object, datatype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A tensor in JSON: its numbers in a row, or nested as its shape is."""
    if not isinstance(data, list):
        _invalid(f"'data' must be a list of numbers, got {_shown(data)}")
    try:
        given = np.array(data)
    except ValueError:
        _invalid("'data' must be a list of numbers, or lists of the tensor's shape: its lists differ in length")
    if given.dtype.kind not in ("iu" if datatype == "UINT8" else "iuf") and given.size:
        wanted = "whole numbers" if datatype == "UINT8" else "numbers"
        _invalid(f"'data' must hold {wanted} alone, which fit 64 bits, for a tensor of {datatype}")
    if given.ndim != 1 and given.shape != shape or given.size != math.prod(shape):
        _invalid(f"'data' has the shape {list(given.shape)}, which is neither {list(shape)} nor the same in a row")
    if datatype == "UINT8" and (given.min() < 0 or given.max() > 255):
        _invalid("'data' must hold numbers from 0 to 255 for a tensor of UINT8")
    with np.errstate(over="ignore"):
        made = given.astype(_TYPES[datatype]).reshape(shape)
    if datatype == "FP32" and not np.isfinite(made).all():
        _invalid("'data' holds a number that is too large for FP32")
    return made


def _check_outputs(model: Description, names: Sequence[object]) -> tuple[str, ...]:
    """Names of the outputs that are wanted: all where none is named."""
    known = [output.name for output in model.outputs]
    for i, name in enumerate(names):
        if name not in known:
            _invalid(f"the model has no output {_shown(name)}; it has {', '.join(map(repr, known))}")
        if name in names[:i]:
            _invalid(f"output {_shown(name)} is asked for twice")
    return tuple(str(name) for name in names) or tuple(known)


def _refuse_parameters(of: str, names: Any) -> None:
    for name in _REFUSED_PARAMETERS:
        if name in names:
            _invalid(f"{of}: parameter '{name}' is nothing that this server has")


# HTTP.


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        _invalid(f"{what} must be an object, got {_shown(value)}")
    return value


def _objects(body: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    values = body.get(key, [])
    if not isinstance(values, list):
        _invalid(f"'{key}' must be a list, got {_shown(values)}")
    return [_object(value, f"'{key}[{i}]'") for i, value in enumerate(values)]


def _parameters(of: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    found = _object(of.get("parameters", {}), f"'parameters' of {what}")
    _refuse_parameters(what, found)
    return found


def _flag(parameters: Mapping[str, Any], name: str, otherwise: bool) -> bool:
    value = parameters.get(name, otherwise)
    if not isinstance(value, bool):
        _invalid(f"parameter '{name}' must be true or false, got {_shown(value)}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no value of it")


def _split(body: bytes, header_length: str | None) -> tuple[Mapping[str, Any], memoryview]:
    """The JSON of a body, and what is behind it."""
    length = len(body)
    if header_length is not None:
        if not header_length.isascii() or not header_length.isdigit() or not 0 < int(header_length[:20]) <= len(body):
            _invalid(
                f"{HEADER_LENGTH} must be the length of the JSON before the tensors, 1 to {len(body)} here, got "
                f"{_shown(header_length)}"
            )
        length = int(header_length)
    try:
        parsed = json.loads(body[:length], parse_constant=_refuse_constant)
    except RecursionError:
        _invalid("the request is nested too deeply")
    except ValueError as error:  # no JSON, no UTF-8, or a number of too many digits
        _invalid(f"the request is no JSON: {str(error)[:_MOST_SHOWN]}")
    return _object(parsed, "the request"), memoryview(body)[length:]


def read_http(model: Description, body: bytes, header_length: str | None = None) -> Inference:
    """Reads the body of a POST to infer. `header_length`: the header HEADER_LENGTH, with which tensors follow the JSON.
    Raises `Refusal`."""
    request, tensors = _split(body, header_length)
    identity = request.get("id", "")
    if not isinstance(identity, str):
        _invalid(f"'id' must be a text, got {_shown(identity)}")
    inputs = _objects(request, "inputs")
    if len(inputs) != 1:
        _invalid(f"the model takes one input, {model.input.name!r}; 'inputs' has {len(inputs)}")
    entry = inputs[0]
    shape = _check_input(model, entry.get("name"), entry.get("datatype"), entry.get("shape"))
    size = _parameters(entry, f"input {model.input.name!r}").get("binary_data_size")
    if size is None:
        if "data" not in entry:
            _invalid(f"input {model.input.name!r} has neither 'data' nor the parameter 'binary_data_size'")
        if len(tensors):
            _invalid(f"{len(tensors)} bytes behind the JSON belong to no input")
        images = _of_numbers(entry["data"], model.input.datatype, shape)
    else:
        if "data" in entry:
            _invalid(f"input {model.input.name!r} has both 'data' and the parameter 'binary_data_size'")
        if type(size) is not int or size != len(tensors):
            _invalid(f"parameter 'binary_data_size' is {_shown(size)}, {len(tensors)} bytes are behind the JSON")
        images = _of_bytes(tensors, model.input.datatype, shape)
    all_binary = _flag(_parameters(request, "the request"), "binary_data_output", False)
    wanted = _objects(request, "outputs")
    outputs = _check_outputs(model, [one.get("name") for one in wanted])
    if wanted:
        binary = [
            str(one["name"])
            for one in wanted
            if _flag(_parameters(one, f"output {_shown(one['name'])}"), "binary_data", all_binary)
        ]
    else:
        binary = list(outputs) if all_binary else []
    return Inference(identity, images, outputs, frozenset(binary))


def _datatype(model: Description, name: str) -> str:
    return next(output.datatype for output in model.outputs if output.name == name)


def _to_bytes(array: np.ndarray[Any, Any], datatype: str) -> bytes:
    if datatype == "BYTES":
        elements = [str(element).encode() for element in array.ravel()]
        return b"".join(struct.pack("<I", len(element)) + element for element in elements)
    return array.astype(_TYPES[datatype], copy=False).tobytes()


def write_http(model: Description, request: Inference, arrays: Sequence[np.ndarray[Any, Any]]) -> Answer:
    """The answer to a request. Raises `Refusal` for numbers that JSON has not."""
    outputs: list[dict[str, Any]] = []
    tensors: list[bytes] = []
    for name, array in zip(request.outputs, arrays, strict=True):
        datatype = _datatype(model, name)
        entry: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(array.shape)}
        if name in request.binary:
            tensors.append(_to_bytes(array, datatype))
            entry["parameters"] = {"binary_data_size": len(tensors[-1])}
        else:
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                _invalid(f"output {name!r} has numbers that JSON has not (NaN, infinity): ask for 'binary_data'")
            entry["data"] = array.ravel().tolist()
        outputs.append(entry)
    answer: dict[str, Any] = {"model_name": model.name, "model_version": VERSION, "outputs": outputs}
    if request.id:
        answer["id"] = request.id
    head = json.dumps(answer).encode()
    if not tensors:
        return Answer(200, {"Content-Type": "application/json"}, head)
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(head))}
    return Answer(200, headers, b"".join([head, *tensors]))


def _json_answer(status: int, value: object, **headers: str) -> Answer:
    return Answer(status, {"Content-Type": "application/json", **headers}, json.dumps(value).encode())


def _metadata(tensor: Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": [-1, *tensor.shape]}


# gRPC.


def read_grpc(model: Description, request: Any) -> Inference:
    """Reads a ModelInferRequest. Raises `Refusal`."""
    if len(request.inputs) != 1:
        _invalid(f"the model takes one input, {model.input.name!r}; 'inputs' has {len(request.inputs)}")
    entry = request.inputs[0]
    shape = _check_input(model, entry.name, entry.datatype, list(entry.shape))
    _refuse_parameters(f"input {entry.name!r}", entry.parameters)
    fields = [field.name for field, _ in entry.contents.ListFields()]
    if request.raw_input_contents:
        if fields:
            _invalid(f"input {entry.name!r} has both 'contents' and 'raw_input_contents'")
        if len(request.raw_input_contents) != 1:
            _invalid(f"'raw_input_contents' has {len(request.raw_input_contents)} tensors for one input")
        images = _of_bytes(request.raw_input_contents[0], entry.datatype, shape)
    else:
        expected = _CONTENTS[entry.datatype]
        if fields != [expected]:
            found = " and ".join(f"'{field}'" for field in fields) or "nothing"
            _invalid(f"a tensor of {entry.datatype} has 'raw_input_contents' or '{expected}', got {found}")
        values = np.array(getattr(entry.contents, expected))
        if values.size != math.prod(shape):
            _invalid(f"a tensor of the shape {list(shape)} has {math.prod(shape)} values, got {values.size}")
        if entry.datatype == "UINT8" and values.max() > 255:
            _invalid("a tensor of UINT8 has values from 0 to 255")
        images = values.astype(_TYPES[entry.datatype]).reshape(shape)
    for output in request.outputs:
        _refuse_parameters(f"output {_shown(output.name)}", output.parameters)
    return Inference(request.id, images, _check_outputs(model, [output.name for output in request.outputs]))


def write_grpc(model: Description, request: Inference, arrays: Sequence[np.ndarray[Any, Any]], answer: Any) -> None:
    """Fills a ModelInferResponse."""
    answer.model_name, answer.model_version, answer.id = model.name, VERSION, request.id
    for name, array in zip(request.outputs, arrays, strict=True):
        datatype = _datatype(model, name)
        answer.outputs.add(name=name, datatype=datatype, shape=array.shape)
        answer.raw_output_contents.append(_to_bytes(array, datatype))


# Both.


class _Path(NamedTuple):
    what: str
    model: str = ""


def _route(path: str) -> _Path:
    """What a path of HTTP is about. Raises `Refusal`."""
    parts = path.strip("/").split("/")
    if parts == ["v2"] or parts in (["v2", "health", "live"], ["v2", "health", "ready"]):
        return _Path("/".join(parts))
    if parts[:2] == ["v2", "models"] and len(parts) > 2:
        rest = parts[3:]
        if len(rest) >= 2 and rest[0] == "versions":
            _check_version(parts[2], rest[1])
            rest = rest[2:]
        if rest in ([], ["ready"], ["infer"]):
            return _Path("/".join(["model", *rest]), parts[2])
    raise Refusal(Why.UNKNOWN, f"there is nothing at {_shown(path)}")


class Server:
    """Answers requests of both interfaces with models that others have."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def http(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        read: Callable[[], Awaitable[bytes]] | None = None,
    ) -> Answer:
        """Answers a request of HTTP, whatever it is. `headers`: names in lower case. `read` gives the body, where it is
        needed, and may raise `Refusal`."""
        try:
            return await self._http(method, path, headers or {}, read)
        except Refusal as refusal:
            more = {"Allow": "POST" if path.endswith("/infer") else "GET"} if refusal.why is Why.METHOD else {}
            return _json_answer(refusal.why.http, {"error": refusal.text}, **more)

    async def _http(
        self, method: str, path: str, headers: Mapping[str, str], read: Callable[[], Awaitable[bytes]] | None
    ) -> Answer:
        what, name = _route(path)
        if method != ("POST" if what == "model/infer" else "GET"):
            raise Refusal(Why.METHOD, f"{_shown(method)} is no method of {_shown(path)}")
        if what == "v2":
            return _json_answer(200, {"name": _NAME, "version": version, "extensions": EXTENSIONS})
        if what == "v2/health/live":
            return _json_answer(200, {"live": True})
        if what == "v2/health/ready":
            ready = await self._models.ready()
            return _json_answer(200 if ready else Why.UNAVAILABLE.http, {"ready": ready})
        model = await self._models.describe(name)
        if what == "model/ready":
            return _json_answer(200, {"name": name, "ready": True})
        if what == "model":
            inputs, outputs = [_metadata(model.input)], [_metadata(output) for output in model.outputs]
            about = {"name": name, "versions": [VERSION], "platform": _NAME, "inputs": inputs, "outputs": outputs}
            return _json_answer(200, about)
        encoding = headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise Refusal(Why.ENCODING, f"a body is taken as it is, not in the encoding {_shown(encoding)}")
        assert read is not None
        request = read_http(model, await read(), headers.get(HEADER_LENGTH.lower()))
        return write_http(model, request, await self._models.infer(name, request.images, request.outputs))

    async def grpc(self, method: str, request: Any, answer: Any) -> None:
        """Fills the answer of one of gRPC's methods. Raises `Refusal`."""
        if method == "ServerLive":
            answer.live = True
        elif method == "ServerReady":
            answer.ready = await self._models.ready()
        elif method == "ServerMetadata":
            answer.name, answer.version = _NAME, version
            answer.extensions.extend(EXTENSIONS)
        elif method == "ModelReady":
            with contextlib.suppress(Refusal):
                _check_version(request.name, request.version)
                await self._models.describe(request.name)
                answer.ready = True
        elif method == "ModelMetadata":
            _check_version(request.name, request.version)
            model = await self._models.describe(request.name)
            answer.name, answer.platform = model.name, _NAME
            answer.versions.append(VERSION)
            for tensors, found in ((answer.inputs, (model.input,)), (answer.outputs, model.outputs)):
                for tensor in found:
                    tensors.add(name=tensor.name, datatype=tensor.datatype, shape=[-1, *tensor.shape])
        else:
            _check_version(request.model_name, request.model_version)
            model = await self._models.describe(request.model_name)
            read = read_grpc(model, request)
            write_grpc(model, read, await self._models.infer(model.name, read.images, read.outputs), answer)
