"""The messages of the Open Inference Protocol's gRPC service, as far as `mobicuda.ray.serve` has it, and what adds the
service to a server. Needs protobuf; a server needs grpcio too.

The classes are made from the table below, not generated: Ray Serve pickles requests, so that their classes must be
found by their module's name, which those of tritonclient are not, and generated code fits one range of protobuf's
versions. They have a pool of descriptors of their own, as tritonclient, which names its messages the same, may be in
the process.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "inference.GRPCInferenceService"
METHODS = ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")

_PACKAGE = "inference"
# Message -> its fields; the first has the number 1, and so on. "list" is repeated, "map" from string to
# InferParameter, "one" of the message's only oneof.
_MESSAGES: dict[str, tuple[str, ...]] = {
    "ServerLiveRequest": (),
    "ServerLiveResponse": ("bool live",),
    "ServerReadyRequest": (),
    "ServerReadyResponse": ("bool ready",),
    "ModelReadyRequest": ("string name", "string version"),
    "ModelReadyResponse": ("bool ready",),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": ("string name", "string version", "list string extensions"),
    "ModelMetadataRequest": ("string name", "string version"),
    "ModelMetadataResponse": (
        "string name",
        "list string versions",
        "string platform",
        "list ModelMetadataResponse.TensorMetadata inputs",
        "list ModelMetadataResponse.TensorMetadata outputs",
    ),
    "ModelMetadataResponse.TensorMetadata": ("string name", "string datatype", "list int64 shape"),
    "InferParameter": (
        "one bool bool_param",
        "one int64 int64_param",
        "one string string_param",
        "one double double_param",
        "one uint64 uint64_param",
    ),
    "InferTensorContents": (
        "list bool bool_contents",
        "list int32 int_contents",
        "list int64 int64_contents",
        "list uint32 uint_contents",
        "list uint64 uint64_contents",
        "list float fp32_contents",
        "list double fp64_contents",
        "list bytes bytes_contents",
    ),
    "ModelInferRequest": (
        "string model_name",
        "string model_version",
        "string id",
        "map parameters",
        "list ModelInferRequest.InferInputTensor inputs",
        "list ModelInferRequest.InferRequestedOutputTensor outputs",
        "list bytes raw_input_contents",
    ),
    "ModelInferRequest.InferInputTensor": (
        "string name",
        "string datatype",
        "list int64 shape",
        "map parameters",
        "InferTensorContents contents",
    ),
    "ModelInferRequest.InferRequestedOutputTensor": ("string name", "map parameters"),
    "ModelInferResponse": (
        "string model_name",
        "string model_version",
        "string id",
        "map parameters",
        "list ModelInferResponse.InferOutputTensor outputs",
        "list bytes raw_output_contents",
    ),
    "ModelInferResponse.InferOutputTensor": (
        "string name",
        "string datatype",
        "list int64 shape",
        "map parameters",
        "InferTensorContents contents",
    ),
}

_Field = descriptor_pb2.FieldDescriptorProto


def _add_field(message: Any, path: str, number: int, text: str) -> None:
    *kind, name = text.split()
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind[0] == "map":
        entry = message.nested_type.add(name="ParametersEntry")
        entry.options.map_entry = True
        _add_field(entry, path, 1, "string key")
        _add_field(entry, path, 2, "InferParameter value")
        kind = ["list", f"{path}.ParametersEntry"]
    if kind[0] == "list":
        field.label = _Field.LABEL_REPEATED
    if kind[0] == "one":
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0
    if kind[-1][0].isupper():
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind[-1]}"
    else:
        field.type = _Field.Type.Value(f"TYPE_{kind[-1].upper()}")


def _make_pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="open_inference.proto", package=_PACKAGE, syntax="proto3")
    made: dict[str, Any] = {}
    for path, fields in _MESSAGES.items():
        outer, _, name = path.rpartition(".")
        made[path] = (made[outer].nested_type if outer else file.message_type).add(name=name)
        for number, text in enumerate(fields, 1):
            _add_field(made[path], path, number, text)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _make_pool()


def _message(name: str) -> Any:
    made: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
    made.__module__ = __name__  # where pickle finds it
    return made


ServerLiveRequest = _message("ServerLiveRequest")
ServerLiveResponse = _message("ServerLiveResponse")
ServerReadyRequest = _message("ServerReadyRequest")
ServerReadyResponse = _message("ServerReadyResponse")
ModelReadyRequest = _message("ModelReadyRequest")
ModelReadyResponse = _message("ModelReadyResponse")
ServerMetadataRequest = _message("ServerMetadataRequest")
ServerMetadataResponse = _message("ServerMetadataResponse")
ModelMetadataRequest = _message("ModelMetadataRequest")
ModelMetadataResponse = _message("ModelMetadataResponse")
ModelInferRequest = _message("ModelInferRequest")
ModelInferResponse = _message("ModelInferResponse")


def request_class(method: str) -> Any:
    """Of a method of the service."""
    return globals()[f"{method}Request"]


def response_class(method: str) -> Any:
    """The same of its answer."""
    return globals()[f"{method}Response"]


def add_to_server(servicer: Any, server: Any) -> None:
    """Adds the service to a server of grpcio: what `grpc_servicer_functions` of Ray Serve names."""
    import grpc

    handlers = {
        method: grpc.unary_unary_rpc_method_handler(
            getattr(servicer, method),
            request_deserializer=request_class(method).FromString,
            response_serializer=response_class(method).SerializeToString,
        )
        for method in METHODS
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
