"""The Open Inference Protocol (KServe v2) as any server of it must speak it: REST (JSON, binary tensors) and gRPC.

Without more it starts a Triton Inference Server of its own. Pointed at another one by the environment it asks that:
    MOBICUDA_PROTOCOL_HTTP=host:port MOBICUDA_PROTOCOL_GRPC=host:port MOBICUDA_PROTOCOL_MODEL=name
    MOBICUDA_PROTOCOL_FILE=model.onnx    what the model was made of, for the right answers; else answers are compared
                                         with each other
    MOBICUDA_PROTOCOL_WITHOUT=binary     parts that the server has not: binary, versions
The model takes FP32 images, (N, C, H, W), of two a batch at least.
"""

import http.client
import json
import os

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conftest import BATCH_8, add_model, expected, start_server

WITHOUT = os.environ.get("MOBICUDA_PROTOCOL_WITHOUT", "").split(",")
TIMEOUT = 60


class Target:
    def __init__(self, http_url, grpc_url, model, file):
        self.http_url, self.grpc_url, self.model, self.file = http_url, grpc_url, model, file
        self.channel = grpc.insecure_channel(grpc_url)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.is_triton = self.ask("GET", "/v2")[1]["name"] == "triton"

    def ask(self, method, path, body=None, headers=None):
        """(status, parsed answer or bytes, headers)"""
        connection = http.client.HTTPConnection(self.http_url, timeout=TIMEOUT)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            content = answer.read()
            try:
                return answer.status, json.loads(content), answer.headers
            except ValueError:
                return answer.status, content, answer.headers
        finally:
            connection.close()

    def refuses(self, status, found):
        """Whether that is the answer to a bad request. Triton's frontend says 500 where it cannot parse one."""
        return found["error"] and (
            400 <= status < 500 or self.is_triton and status == 500 and "parse" in found["error"]
        )

    def infer_path(self):
        return f"/v2/models/{self.model}/infer"

    def infer_json(self, body, path=None):
        text = body if isinstance(body, (str, bytes)) else json.dumps(body)
        return self.ask("POST", path or self.infer_path(), text, {"Content-Type": "application/json"})


@pytest.fixture(scope="module")
def target(folder):
    if "MOBICUDA_PROTOCOL_HTTP" in os.environ:
        yield Target(
            os.environ["MOBICUDA_PROTOCOL_HTTP"],
            os.environ["MOBICUDA_PROTOCOL_GRPC"],
            os.environ["MOBICUDA_PROTOCOL_MODEL"],
            os.environ.get("MOBICUDA_PROTOCOL_FILE"),
        )
        return
    file = add_model(folder / "repository", "classifier", BATCH_8)
    with start_server(folder, folder / "repository") as server:
        yield Target(server.http_url, server.grpc_url, "classifier", file)


@pytest.fixture(scope="module")
def metadata(target):
    status, metadata, _ = target.ask("GET", f"/v2/models/{target.model}")
    assert status == 200
    return metadata


@pytest.fixture(scope="module")
def images(metadata):
    shape = [int(extent) for extent in metadata["inputs"][0]["shape"][1:]]
    return np.random.default_rng(1).normal(size=(2, *shape)).astype(np.float32)


def json_input(metadata, images):
    return {
        "name": metadata["inputs"][0]["name"],
        "datatype": "FP32",
        "shape": list(images.shape),
        "data": [float(value) for value in images.ravel()],
    }


def grpc_request(target, metadata, images):
    request = service_pb2.ModelInferRequest(model_name=target.model, id="7")
    request.inputs.add(name=metadata["inputs"][0]["name"], datatype="FP32", shape=images.shape)
    request.raw_input_contents.append(images.tobytes())
    return request


def grpc_output(answer, name):
    index = [output.name for output in answer.outputs].index(name)
    output = answer.outputs[index]
    values = (
        np.frombuffer(answer.raw_output_contents[index], np.float32)
        if answer.raw_output_contents
        else np.array(output.contents.fp32_contents, np.float32)
    )
    return values.reshape(tuple(output.shape))


@pytest.fixture(scope="module")
def answer(target, metadata, images, tmp_path_factory):
    """The right outputs: the library's, where the model's file is known."""
    if target.file:
        return expected(target.file, "floats", list(images), tmp_path_factory.mktemp("expected"))
    found = target.stub.ModelInfer(grpc_request(target, metadata, images), timeout=TIMEOUT)
    return grpc_output(found, metadata["outputs"][0]["name"])


def test_health(target):
    for path in ("/v2/health/live", "/v2/health/ready", f"/v2/models/{target.model}/ready"):
        assert target.ask("GET", path)[0] == 200
    assert target.stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=TIMEOUT).live
    assert target.stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=TIMEOUT).ready
    assert target.stub.ModelReady(service_pb2.ModelReadyRequest(name=target.model), timeout=TIMEOUT).ready


def test_server_metadata(target):
    status, metadata, _ = target.ask("GET", "/v2")
    assert status == 200
    assert metadata["name"] and metadata["version"] and isinstance(metadata["extensions"], list)
    found = target.stub.ServerMetadata(service_pb2.ServerMetadataRequest(), timeout=TIMEOUT)
    assert (found.name, found.version) == (metadata["name"], metadata["version"])


def test_model_metadata(target, metadata):
    assert metadata["name"] == target.model
    assert len(metadata["inputs"]) == 1 and metadata["inputs"][0]["datatype"] == "FP32"
    assert [int(metadata[kind][0]["shape"][0]) for kind in ("inputs", "outputs")] == [-1, -1]
    found = target.stub.ModelMetadata(service_pb2.ModelMetadataRequest(name=target.model), timeout=TIMEOUT)
    for kind in ("inputs", "outputs"):
        assert [(one.name, one.datatype, list(one.shape)) for one in getattr(found, kind)] == [
            (one["name"], one["datatype"], [int(extent) for extent in one["shape"]]) for one in metadata[kind]
        ]


def test_json(target, metadata, images, answer):
    body = {"id": "7", "inputs": [json_input(metadata, images)]}
    status, found, headers = target.infer_json(body)
    assert status == 200 and headers["Content-Type"].startswith("application/json")
    assert (found["id"], found["model_name"]) == ("7", target.model)
    output = found["outputs"][0]
    assert (output["name"], output["datatype"], output["shape"]) == (
        metadata["outputs"][0]["name"],
        "FP32",
        list(answer.shape),
    )
    assert np.array_equal(np.array(output["data"], np.float32).reshape(answer.shape), answer)


def test_nested_json(target, metadata, images, answer):
    body = {"inputs": [{**json_input(metadata, images), "data": images.tolist()}]}
    status, found, _ = target.infer_json(body)
    assert status == 200
    assert np.array_equal(np.array(found["outputs"][0]["data"], np.float32).reshape(answer.shape), answer)


@pytest.mark.skipif("binary" in WITHOUT, reason="the server has no binary tensors")
def test_binary(target, metadata, images, answer):
    data = images.tobytes()
    entry = {key: value for key, value in json_input(metadata, images).items() if key != "data"}
    head = json.dumps(
        {
            "inputs": [{**entry, "parameters": {"binary_data_size": len(data)}}],
            "outputs": [{"name": metadata["outputs"][0]["name"], "parameters": {"binary_data": True}}],
        }
    ).encode()
    status, found, headers = target.ask(
        "POST", target.infer_path(), head + data, {"Inference-Header-Content-Length": str(len(head))}
    )
    assert status == 200 and isinstance(found, bytes)
    length = int(headers["Inference-Header-Content-Length"])
    output = json.loads(found[:length])["outputs"][0]
    assert output["parameters"]["binary_data_size"] == len(found) - length
    assert np.array_equal(np.frombuffer(found[length:], np.float32).reshape(answer.shape), answer)


def test_grpc(target, metadata, images, answer):
    found = target.stub.ModelInfer(grpc_request(target, metadata, images), timeout=TIMEOUT)
    assert (found.id, found.model_name) == ("7", target.model)
    assert np.array_equal(grpc_output(found, metadata["outputs"][0]["name"]), answer)


def test_grpc_typed_contents(target, metadata, images, answer):
    request = grpc_request(target, metadata, images)
    del request.raw_input_contents[:]
    request.inputs[0].contents.fp32_contents.extend(images.ravel().tolist())
    found = target.stub.ModelInfer(request, timeout=TIMEOUT)
    assert np.array_equal(grpc_output(found, metadata["outputs"][0]["name"]), answer)


def test_an_image_is_the_same_in_any_batch(target, metadata, images, answer):
    name = metadata["outputs"][0]["name"]
    for i in range(len(images)):
        found = target.stub.ModelInfer(grpc_request(target, metadata, images[i : i + 1]), timeout=TIMEOUT)
        assert np.array_equal(grpc_output(found, name)[0], answer[i])


def test_chosen_outputs(target, metadata, images):
    name = metadata["outputs"][0]["name"]
    request = grpc_request(target, metadata, images)
    request.outputs.add(name=name)
    assert [output.name for output in target.stub.ModelInfer(request, timeout=TIMEOUT).outputs] == [name]
    status, found, _ = target.infer_json({"inputs": [json_input(metadata, images)], "outputs": [{"name": name}]})
    assert status == 200 and [output["name"] for output in found["outputs"]] == [name]


@pytest.mark.skipif("versions" in WITHOUT, reason="the server has no versions")
def test_versions(target, metadata, images, answer):
    version = metadata["versions"][0]
    status, found, _ = target.infer_json(
        {"inputs": [json_input(metadata, images)]}, f"/v2/models/{target.model}/versions/{version}/infer"
    )
    assert status == 200 and found["model_version"] == version
    assert np.array_equal(np.array(found["outputs"][0]["data"], np.float32).reshape(answer.shape), answer)
    status, _, _ = target.infer_json(
        {"inputs": [json_input(metadata, images)]}, f"/v2/models/{target.model}/versions/99/infer"
    )
    assert 400 <= status < 500


def test_unknown_model(target, metadata, images):
    assert 400 <= target.ask("GET", "/v2/models/nobody")[0] < 500
    assert 400 <= target.infer_json({"inputs": [json_input(metadata, images)]}, "/v2/models/nobody/infer")[0] < 500
    request = grpc_request(target, metadata, images)
    request.model_name = "nobody"
    with pytest.raises(grpc.RpcError) as failed:
        target.stub.ModelInfer(request, timeout=TIMEOUT)
    assert failed.value.code() in (
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.INVALID_ARGUMENT,
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda body: "",
        lambda body: "{",
        lambda body: "[]",
        lambda body: {},
        lambda body: {"inputs": []},
        lambda body: {"inputs": [{**body["inputs"][0], "name": "nobody"}]},
        lambda body: {"inputs": [{**body["inputs"][0], "datatype": "INT8"}]},
        lambda body: {"inputs": [{**body["inputs"][0], "shape": body["inputs"][0]["shape"][1:]}]},
        lambda body: {"inputs": [{**body["inputs"][0], "data": body["inputs"][0]["data"][:-1]}]},
        lambda body: {"inputs": [{**body["inputs"][0], "data": "text"}]},
        lambda body: {**body, "outputs": [{"name": "nobody"}]},
    ],
    ids=[
        "empty",
        "no JSON",
        "a list",
        "no inputs",
        "an empty list",
        "name",
        "datatype",
        "shape",
        "too few",
        "text",
        "output",
    ],
)
def test_bad_json(target, metadata, images, change):
    body = {"inputs": [json_input(metadata, images)]}
    status, found, _ = target.infer_json(change(body))
    assert target.refuses(status, found), (status, found)
    assert target.infer_json(body)[0] == 200


@pytest.mark.parametrize(
    "change",
    [
        lambda request: request.ClearField("inputs"),
        lambda request: setattr(request.inputs[0], "name", "nobody"),
        lambda request: setattr(request.inputs[0], "datatype", "INT8"),
        lambda request: request.inputs[0].shape.pop(),
        lambda request: request.raw_input_contents.pop(),
        lambda request: request.raw_input_contents.append(request.raw_input_contents.pop()[:-4]),
        lambda request: request.outputs.add(name="nobody"),
    ],
    ids=["no inputs", "name", "datatype", "shape", "no bytes", "too few bytes", "output"],
)
def test_bad_grpc(target, metadata, images, change):
    request = grpc_request(target, metadata, images)
    change(request)
    with pytest.raises(grpc.RpcError) as failed:
        target.stub.ModelInfer(request, timeout=TIMEOUT)
    assert failed.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
    assert failed.value.details()
    target.stub.ModelInfer(grpc_request(target, metadata, images), timeout=TIMEOUT)
