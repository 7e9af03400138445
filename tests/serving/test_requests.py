"""Requests to a Triton Inference Server with the backend: what it answers, how it batches, what it refuses."""

import http.client
import json
import struct
import threading
import time
import urllib.parse

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conftest import (
    BATCH_8,
    CLASSES,
    ENCODED,
    RESOLUTION,
    UINT8,
    add_model,
    encoded,
    expected,
    floats,
    pixels,
    start_server,
)

TIMEOUT = 60
TOP_3 = 'parameters { key: "top" value { string_value: "3" } }'
IMAGE = 3 * RESOLUTION * RESOLUTION


@pytest.fixture(scope="module")
def files(folder):
    repository = folder / "repository"
    return {
        "floats": add_model(repository, "floats", BATCH_8),
        "pixels": add_model(repository, "pixels", f"{BATCH_8} {UINT8}"),
        "encoded": add_model(repository, "encoded", f"{BATCH_8} {ENCODED} {TOP_3}", labels=True),
        # One instance whose requests wait for each other, so that they become batches.
        "batched": add_model(
            repository, "batched", f"{BATCH_8} dynamic_batching {{ max_queue_delay_microseconds: 200000 }}"
        ),
    }


@pytest.fixture(scope="module")
def server(folder, files):
    with start_server(folder, folder / "repository") as server:
        yield server
        assert server.alive(), server.log()


@pytest.fixture(scope="module")
def rest(server):
    with http_client.InferenceServerClient(server.http_url, concurrency=2, network_timeout=TIMEOUT) as client:
        yield client


@pytest.fixture(scope="module")
def rpc(server):
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        yield client


def infer(client, module, model, array, datatype, binary=True, outputs=()):
    tensor = module.InferInput("input", list(array.shape), datatype)
    more = {} if module is grpc_client else {"binary_data": binary}
    tensor.set_data_from_numpy(array, **more)
    wanted = [module.InferRequestedOutput(name, **more) for name in outputs or ["output"]]
    return client.infer(model, [tensor], outputs=wanted)


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("model, make, datatype", [("floats", floats, "FP32"), ("pixels", pixels, "UINT8")])
def test_every_way_has_the_bits_of_the_library(rest, rpc, files, folder, model, make, datatype, count):
    images = make(count, seed=count)
    right = expected(files[model], model, list(images), folder)
    for client, module, binary in ((rest, http_client, True), (rest, http_client, False), (rpc, grpc_client, True)):
        assert np.array_equal(infer(client, module, model, images, datatype, binary).as_numpy("output"), right)


def test_encoded_pictures(rest, rpc, files, folder):
    pictures = [encoded(0), encoded(1, "PNG"), encoded(2, size=(300, 40)), encoded(3, "PPM", (20, 20))]
    right = expected(files["encoded"], "encoded", pictures, folder)
    array = np.array(pictures, dtype=object).reshape(-1, 1)
    for client, module in ((rest, http_client), (rpc, grpc_client)):
        answer = infer(
            client, module, "encoded", array, "BYTES", outputs=("output", "top_classes", "top_scores", "top_labels")
        )
        assert np.array_equal(answer.as_numpy("output"), right)
        order = np.argsort(-right, axis=1, kind="stable")[:, :3]
        assert np.array_equal(answer.as_numpy("top_classes"), order)
        assert np.array_equal(answer.as_numpy("top_scores"), np.take_along_axis(right, order, 1))
        assert [[label.decode() for label in row] for row in answer.as_numpy("top_labels")] == [
            [f"class {i}" for i in row] for row in order
        ]


def test_pictures_that_cannot_be_decoded_say_which(rpc):
    good = encoded(0)
    for bad, text in (
        (b"", "picture 1"),
        (b"GIF89a", "picture 1"),
        (good[: len(good) // 2], "picture 1"),
        (b"P6\n100000 100000\n255\n", "picture 1"),
    ):
        with pytest.raises(grpc_client.InferenceServerException, match=text) as failed:
            infer(rpc, grpc_client, "encoded", np.array([[good], [bad]], dtype=object), "BYTES")
        assert failed.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_single_images_become_batches(server, rpc, files, folder):
    images = floats(64, seed=5)
    right = expected(files["batched"], "floats", list(images), folder)
    before = rpc.get_inference_statistics("batched", as_json=True)["model_stats"][0]
    answers = [None] * len(images)
    with grpc_client.InferenceServerClient(server.grpc_url) as client:

        def ask(i):
            answers[i] = infer(client, grpc_client, "batched", images[i : i + 1], "FP32").as_numpy("output")[0]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(images))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert np.array_equal(np.array(answers), right)
    count = {"inference_count": 0}
    end = time.monotonic() + TIMEOUT
    while count["inference_count"] < len(images) and time.monotonic() < end:  # an answer comes before it is counted
        statistics = rpc.get_inference_statistics("batched", as_json=True)["model_stats"][0]
        count = {key: int(statistics[key]) - int(before.get(key, 0)) for key in ("inference_count", "execution_count")}
    assert count["inference_count"] == len(images)
    assert count["execution_count"] <= len(images) // 2, statistics
    for part in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert int(statistics["inference_stats"][part]["count"]) >= len(images)
        assert 0 < int(statistics["inference_stats"][part]["ns"]) < 600e9


def test_metrics(server, rest):
    infer(rest, http_client, "floats", floats(1), "FP32")
    page = server.metrics_page()
    for name in (
        "nv_inference_request_success",
        "nv_inference_pending_request_count",
        "mobicuda_waiting_requests",
        "nv_inference_exec_count",
        'mobicuda_memory_bytes{model="floats",processor="cpu",version="1",what="weights"}',
        'mobicuda_failed_requests{model="floats",version="1"}',
        'mobicuda_decoded_pictures{decoder="cpu",model="encoded"',
    ):
        assert name in page, name


def unregister(rpc):
    end = time.monotonic() + TIMEOUT
    while True:  # an answer may come before the server has let go of the memory
        try:
            return rpc.unregister_system_shared_memory()
        except grpc_client.InferenceServerException:
            if time.monotonic() > end:
                raise


def test_system_shared_memory(server, rpc, files, folder):
    from tritonclient.utils import shared_memory

    images = pixels(2)
    right = expected(files["pixels"], "pixels", list(images), folder)
    inputs = shared_memory.create_shared_memory_region("input", f"/mobicuda_input_{server.grpc}", images.nbytes)
    outputs = shared_memory.create_shared_memory_region("output", f"/mobicuda_output_{server.grpc}", right.nbytes)
    try:
        shared_memory.set_shared_memory_region(inputs, [images])
        rpc.register_system_shared_memory("input", f"/mobicuda_input_{server.grpc}", images.nbytes)
        rpc.register_system_shared_memory("output", f"/mobicuda_output_{server.grpc}", right.nbytes)
        tensor = grpc_client.InferInput("input", list(images.shape), "UINT8")
        tensor.set_shared_memory("input", images.nbytes)
        wanted = grpc_client.InferRequestedOutput("output")
        wanted.set_shared_memory("output", right.nbytes)
        rpc.infer("pixels", [tensor], outputs=[wanted])
        assert np.array_equal(shared_memory.get_contents_as_numpy(outputs, np.float32, right.shape), right)
    finally:
        unregister(rpc)
        shared_memory.destroy_shared_memory_region(inputs)
        shared_memory.destroy_shared_memory_region(outputs)


# What is wrong with a request: (shape, datatype, bytes, name, model). Of HTTP with JSON see below.
GOOD = ([1, 3, RESOLUTION, RESOLUTION], "FP32", bytes(4 * IMAGE), "input", "floats")


def bad(index, value):
    return tuple(value if i == index else part for i, part in enumerate(GOOD))


def element(data):
    return struct.pack("<I", len(data)) + data


BAD = {
    "no shape": bad(0, []),
    "one extent": bad(0, [1]),
    "no batch": bad(0, [3, RESOLUTION, RESOLUTION]),
    "5 extents": bad(0, [1, 1, 3, 64, 64]),
    "batch 0": bad(0, [0, 3, 64, 64]),
    "batch 0 without bytes": ([0, 3, 64, 64], "FP32", b"", "input", "floats"),
    "batch 2 with the bytes of 1": bad(0, [2, 3, 64, 64]),
    "batch 9": ([9, 3, 64, 64], "FP32", bytes(9 * 4 * IMAGE), "input", "floats"),
    "batch 2^31": bad(0, [2**31, 3, 64, 64]),
    "batch 2^62": bad(0, [2**62, 3, 64, 64]),
    "batch 2^63-1": bad(0, [2**63 - 1, 3, 64, 64]),
    "channels first": bad(0, [1, 64, 64, 3]),
    "1 channel": bad(0, [1, 1, 64, 192]),
    "0 channels": bad(0, [1, 0, 64, 64]),
    "other rows": bad(0, [1, 3, 63, 64]),
    "huge rows": bad(0, [1, 3, 2**40, 64]),
    "rows that overflow": bad(0, [1, 3, 2**62, 2**62]),
    "INT8": bad(1, "INT8"),
    "FP16": bad(1, "FP16"),
    "FP64": bad(1, "FP64"),
    "UINT8": bad(1, "UINT8"),
    "BYTES": bad(1, "BYTES"),
    "nonsense": bad(1, "FLOAT"),
    "no type": bad(1, ""),
    "no bytes": bad(2, b""),
    "1 byte": bad(2, b"x"),
    "a byte less": bad(2, bytes(4 * IMAGE - 1)),
    "a byte more": bad(2, bytes(4 * IMAGE + 1)),
    "twice the bytes": bad(2, bytes(8 * IMAGE)),
    "other name": bad(3, "inputs"),
    "no name": bad(3, ""),
    "name with a zero": bad(3, "in\0put"),
    "long name": bad(3, "x" * 5000),
    "no such model": bad(4, "nobody"),
    "path as the model": bad(4, "../floats"),
    "pixels as floats": (GOOD[0], "FP32", GOOD[2], "input", "pixels"),
    "planar pixels": ([1, 3, 64, 64], "UINT8", bytes(IMAGE), "input", "pixels"),
    "pixels with alpha": ([1, 64, 64, 4], "UINT8", bytes(4 * 64 * 64), "input", "pixels"),
    "too few pixels": ([1, 64, 64, 3], "UINT8", bytes(IMAGE - 1), "input", "pixels"),
    "batch 9 of pixels": ([9, 64, 64, 3], "UINT8", bytes(9 * IMAGE), "input", "pixels"),
    "floats as pictures": (GOOD[0], "FP32", GOOD[2], "input", "encoded"),
    "no picture": ([1, 1], "BYTES", b"", "input", "encoded"),
    "length alone": ([1, 1], "BYTES", struct.pack("<I", 5), "input", "encoded"),
    "length that lies": ([1, 1], "BYTES", struct.pack("<I", 2**32 - 1) + b"x", "input", "encoded"),
    "half a length": ([1, 1], "BYTES", b"ab", "input", "encoded"),
    "one picture of two": ([2, 1], "BYTES", element(b"x"), "input", "encoded"),
    "two pictures of one": ([1, 1], "BYTES", element(b"x") * 2, "input", "encoded"),
    "two a row": ([1, 2], "BYTES", element(b"x") * 2, "input", "encoded"),
    "no picture at all": ([1, 1], "BYTES", element(b"not a picture"), "input", "encoded"),
    "an empty picture": ([1, 1], "BYTES", element(b""), "input", "encoded"),
}


def check_lives(rpc, files, folder, right={}):
    images = floats(1, seed=3)
    if not right:
        right["floats"] = expected(files["floats"], "floats", list(images), folder)
    assert np.array_equal(infer(rpc, grpc_client, "floats", images, "FP32").as_numpy("output"), right["floats"])


def is_clear(text):
    return len(text) > 10 and "internal" not in text.lower() and "terminate" not in text


@pytest.mark.parametrize("shape, datatype, data, name, model", BAD.values(), ids=BAD.keys())
def test_bad_grpc_requests(server, rpc, files, folder, shape, datatype, data, name, model):
    with grpc.insecure_channel(server.grpc_url) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name=model)
        request.inputs.add(name=name, datatype=datatype, shape=shape)
        request.raw_input_contents.append(data)
        with pytest.raises(grpc.RpcError) as failed:
            stub.ModelInfer(request, timeout=TIMEOUT)
    allowed = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED)
    assert failed.value.code() in allowed, failed.value
    assert is_clear(failed.value.details()), failed.value
    check_lives(rpc, files, folder)


@pytest.mark.parametrize("shape, datatype, data, name, model", BAD.values(), ids=BAD.keys())
def test_bad_http_requests_with_binary_tensors(server, rpc, files, folder, shape, datatype, data, name, model):
    model = urllib.parse.quote(model, safe="")
    head = json.dumps(
        {
            "inputs": [
                {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(data)}}
            ]
        }
    ).encode()
    status, text = post(
        server, f"/v2/models/{model}/infer", head + data, {"Inference-Header-Content-Length": str(len(head))}
    )
    check_refused(status, text)
    check_lives(rpc, files, folder)


def post(server, path, body, headers=None):
    connection = http.client.HTTPConnection(server.http_url, timeout=TIMEOUT)
    try:
        connection.request("POST", path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def check_refused(status, text):
    # The server's own frontend answers what it cannot parse with 500.
    assert 400 <= status < 500 or (status == 500 and "parse" in text), (status, text)
    assert is_clear(text), text


ENTRY = {"name": "input", "datatype": "FP32", "shape": [1, 3, 64, 64], "data": [0.0] * IMAGE}
# Left out is a shape of more elements than memory holds: the frontend of server 2.51 ends with std::length_error, before
# any backend is asked (docs/serving.md).
BAD_JSON = {
    "nothing": "",
    "a brace": "{",
    "a list": "[]",
    "a number": "1",
    "text": '"x"',
    "null": "null",
    "no UTF-8": b'{"inputs": "\xff\xfe"}',
    "deep": "[" * 100000,
    "no inputs": {},
    "inputs null": {"inputs": None},
    "inputs empty": {"inputs": []},
    "inputs an object": {"inputs": ENTRY},
    "an input twice": {"inputs": [ENTRY, ENTRY]},
    "two inputs": {"inputs": [ENTRY, {**ENTRY, "name": "other"}]},
    "no name": {"inputs": [{**ENTRY, "name": None}]},
    "shape text": {"inputs": [{**ENTRY, "shape": "1"}]},
    "shape fractions": {"inputs": [{**ENTRY, "shape": [1.5, 3, 64, 64]}]},
    "shape below 0": {"inputs": [{**ENTRY, "shape": [-1, 3, 64, 64]}]},
    "shape of text": {"inputs": [{**ENTRY, "shape": ["1", 3, 64, 64]}]},
    "data text": {"inputs": [{**ENTRY, "data": "0"}]},
    "data null": {"inputs": [{**ENTRY, "data": None}]},
    "data of text": {"inputs": [{**ENTRY, "data": ["x"] * IMAGE}]},
    "too few": {"inputs": [{**ENTRY, "data": ENTRY["data"][1:]}]},
    "too many": {"inputs": [{**ENTRY, "data": [*ENTRY["data"], 0]}]},
    "datatype": {"inputs": [{**ENTRY, "datatype": "FP8"}]},
    "output unknown": {"inputs": [ENTRY], "outputs": [{"name": "nobody"}]},
    "output without a name": {"inputs": [ENTRY], "outputs": [{}]},
    "outputs text": {"inputs": [ENTRY], "outputs": "output"},
    "binary size that lies": {
        "inputs": [{**{k: ENTRY[k] for k in ("name", "datatype", "shape")}, "parameters": {"binary_data_size": 10**12}}]
    },
    "shared memory that is not there": {
        "inputs": [
            {
                **{k: ENTRY[k] for k in ("name", "datatype", "shape")},
                "parameters": {"shared_memory_region": "x", "shared_memory_byte_size": 10},
            }
        ]
    },
}


@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_bad_http_requests_with_json(server, rpc, files, folder, body):
    status, text = post(server, "/v2/models/floats/infer", json.dumps(body) if isinstance(body, dict) else body)
    check_refused(status, text)
    check_lives(rpc, files, folder)


@pytest.mark.parametrize("batch", [2**32 + 1, 2**62 + 1])
def test_a_batch_that_the_server_cuts_to_32_bits_is_that_of_its_bytes(server, rpc, batch):
    """Server 2.51 keeps 32 bits of a batch. With the bytes of so many images as are left, the request is a good one."""
    with grpc.insecure_channel(server.grpc_url) as channel:
        request = service_pb2.ModelInferRequest(model_name="floats")
        request.inputs.add(name="input", datatype="FP32", shape=[batch, 3, RESOLUTION, RESOLUTION])
        request.raw_input_contents.append(floats(1).tobytes())
        try:
            answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            return
    assert list(answer.outputs[0].shape) == [1, CLASSES]
    right = infer(rpc, grpc_client, "floats", floats(1), "FP32").as_numpy("output")
    assert answer.raw_output_contents[0] == right.tobytes()


def test_numbers_that_are_none_are_answered(rest):
    images = floats(2)
    images[0, 0, 0, 0], images[1, 0, 0, 0] = np.nan, np.inf
    answer = infer(rest, http_client, "floats", images, "FP32").as_numpy("output")
    assert answer.shape == (2, CLASSES)


def test_there_were_enough_bad_requests():
    assert 2 * len(BAD) + len(BAD_JSON) >= 100
