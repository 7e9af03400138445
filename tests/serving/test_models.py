"""Models that come, change and go in a Triton Inference Server, and those that cannot come."""

import base64
import json
import os
import shutil
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from conftest import BATCH_8, UINT8, add_model, expected, floats, pixels, start_server, write_model

RELOADS = 25  # before memory is looked at, and again after it
NO_GPU = "device" if os.environ.get("MOBICUDA_HAS_CUDA") == "ON" else "without CUDA"  # of GPU 63
MOST_GROWTH = 24 << 20  # bytes; every engine and session that stayed would take more than 2 MB, RELOADS times


@pytest.fixture(scope="module")
def repository(folder):
    add_model(folder / "repository", "steady", BATCH_8)
    add_model(folder / "repository", "changing", f"{BATCH_8} {UINT8}")
    return folder / "repository"


@pytest.fixture(scope="module")
def server(folder, repository):
    with start_server(folder, repository) as server:
        yield server
        assert server.alive(), server.log()


@pytest.fixture(scope="module")
def rpc(server):
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        yield client


def ask(client, model, images):
    tensor = grpc_client.InferInput("input", list(images.shape), "FP32" if images.dtype == np.float32 else "UINT8")
    tensor.set_data_from_numpy(images)
    return client.infer(model, [tensor]).as_numpy("output")


class Load:
    """Threads that ask for a model until the block ends; what they were answered."""

    def __init__(self, url, model, images, right):
        self.answers, self.wrong, self.failures = 0, 0, []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(url, model, images, right)) for _ in range(2)]

    def _run(self, url, model, images, right):
        with grpc_client.InferenceServerClient(url) as client:
            while not self._ended.is_set():
                try:
                    answer = ask(client, model, images)
                except grpc_client.InferenceServerException as error:
                    self.failures.append(str(error))
                    continue
                self.answers += 1
                self.wrong += not any(np.array_equal(answer, one) for one in right)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self._ended.set()
        for thread in self._threads:
            thread.join()


def test_reloads_under_load(server, rpc, repository, folder):
    """A model's file is replaced and loaded again while it is asked, another one comes and goes beside it."""
    images = pixels(3)
    files = [write_model(folder / f"seed_{seed}.onnx", seed) for seed in (1, 2)]
    right = [expected(file, "pixels", list(images), folder) for file in files]
    assert not np.array_equal(*right)
    add_model(repository, "guest", BATCH_8)
    images_of_guest = floats(1)
    seen = set()

    def reload(count):
        for i in range(count):
            copy = folder / "new.onnx"
            shutil.copy(files[(i + 1) % 2], copy)
            os.replace(copy, repository / "changing/1/model.onnx")
            (repository / "changing/1").touch()
            rpc.load_model("changing")
            answer = ask(rpc, "changing", images)
            seen.add(next(i for i in range(2) if np.array_equal(answer, right[i])))
            rpc.load_model("guest")
            # Triton 2.51 may end with a segmentation fault when a model is unloaded the moment it is loaded: its
            # StopBackendThread() reads a queue that the model's thread is about to fill; by its answer it all but surely has.
            ask(rpc, "guest", images_of_guest)
            rpc.unload_model("guest")

    with (
        Load(server.grpc_url, "changing", images, right) as load,
        Load(
            server.grpc_url,
            "steady",
            floats(2),
            [expected(repository / "steady/1/model.onnx", "floats", list(floats(2)), folder)],
        ) as steady,
    ):
        reload(RELOADS)
        before = server.resident_bytes()
        reload(RELOADS)
        growth = server.resident_bytes() - before
    assert seen == {0, 1}
    for one in (load, steady):
        assert (one.wrong, one.failures) == (0, []) and one.answers > RELOADS
    assert growth < MOST_GROWTH, growth


def test_versions_side_by_side(rpc, repository, folder):
    """The rollout of docs/serving.md: version 2 beside version 1, then version 1 goes."""
    both = "version_policy { all { } }"
    file_1 = add_model(repository, "versions", f"{BATCH_8} {both}", seed=1)
    rpc.load_model("versions")
    images = floats(2)
    file_2 = add_model(repository, "versions", f"{BATCH_8} {both}", seed=2, version=2)
    rpc.load_model("versions")
    for version, file in (("1", file_1), ("2", file_2)):
        tensor = grpc_client.InferInput("input", list(images.shape), "FP32")
        tensor.set_data_from_numpy(images)
        answer = rpc.infer("versions", [tensor], model_version=version).as_numpy("output")
        assert np.array_equal(answer, expected(file, "floats", list(images), folder))
    shutil.rmtree(file_1.parent)
    rpc.load_model("versions")
    assert rpc.get_model_metadata("versions", as_json=True)["versions"] == ["2"]


def test_a_model_of_the_request(rpc, folder):
    """The repository's interface takes files; where that is open, what they hold is checked like any other."""
    content = write_model(folder / "sent.onnx", seed=4).read_bytes()
    config = json.dumps({"backend": "mobicuda", "max_batch_size": 2})
    rpc.load_model("sent", config=config, files={"file:1/model.onnx": content})
    assert np.array_equal(
        ask(rpc, "sent", floats(2)), expected(folder / "sent.onnx", "floats", list(floats(2)), folder)
    )
    rpc.unload_model("sent")
    for path in ("file:1/../../escaped.onnx", "file:../escaped.onnx"):
        with pytest.raises(grpc_client.InferenceServerException):
            rpc.load_model("sent", config=config, files={path: content})
    with pytest.raises(grpc_client.InferenceServerException, match="model.onnx"):
        rpc.load_model("sent", config=config, files={"file:1/model.onnx": base64.b64encode(content)})


def without_model(folder):
    (folder / "1/model.onnx").unlink()


def with_both(folder):
    shutil.copy(folder / "1/model.onnx", folder / "1/model.plan")


def with_other_name(folder):
    (folder / "1/model.onnx").rename(folder / "1/network.onnx")


def with_nonsense(folder):
    (folder / "1/model.onnx").write_bytes(b"\x08\x07nonsense")


def cut(folder):
    content = (folder / "1/model.onnx").read_bytes()
    (folder / "1/model.onnx").write_bytes(content[: len(content) // 2])


def with_nonsense_as_plan(folder):
    (folder / "1/model.onnx").rename(folder / "1/model.plan")


def with_link(folder):
    (folder / "1/model.onnx").rename(folder.parent.parent / "elsewhere.onnx")
    (folder / "1/model.onnx").symlink_to(folder.parent.parent / "elsewhere.onnx")


def with_few_labels(folder):
    (folder / "1/labels.txt").write_text("one\n")


def configured(text):
    def configure(folder):
        (folder / "config.pbtxt").write_text(f'backend: "mobicuda"\n{text}\n')

    return configure


def parameter(key, value):
    return configured(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}')


@pytest.mark.parametrize(
    "spoil, text",
    [
        (without_model, "put the model there as model.onnx"),
        (with_both, "remove one of them"),
        (with_other_name, "other names are not looked for"),
        (with_nonsense, "model.onnx"),
        (cut, "model.onnx"),
        (with_nonsense_as_plan, "model.plan"),
        (with_link, "put the file itself there"),
        (with_few_labels, "one line a class"),
        (parameter("presicion", "fp16"), "device, max_memory_bytes, max_queue_size, precision"),
        (parameter("precision", "fp12"), 'must be one of "fp16"'),
        (parameter("top", "11"), "10 classes"),
        (parameter("max_memory_bytes", "1000"), "out_of_memory"),
        (configured('input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]'), "must be 'input'"),
        (
            configured("input [ { data_type: TYPE_FP32 dims: [ 3, 32, 32 ] } ]"),
            "must be 'input' TYPE_FP32 [ 3, 64, 64 ]",
        ),
        (configured("input [ { data_type: TYPE_INT32 } ]"), "TYPE_STRING encoded pictures"),
        (configured('output [ { name: "nobody" data_type: TYPE_FP32 dims: [ 10 ] } ]'), "the model has 'output'"),
        (
            configured(
                'instance_group [ { kind: KIND_MODEL } ] parameters { key: "device" value { string_value: "63" } }'
            ),
            NO_GPU,
        ),
        (configured("sequence_batching { }"), "sequence_batching"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_models_that_cannot_be_loaded(rpc, repository, folder, spoil, text):
    name = "spoilt"
    shutil.rmtree(repository / name, ignore_errors=True)
    add_model(repository, name, BATCH_8)
    spoil(repository / name)
    with pytest.raises(grpc_client.InferenceServerException) as failed:
        rpc.load_model(name)
    assert text in failed.value.message(), failed.value
    assert name in failed.value.message()
    assert ask(rpc, "steady", floats(1)).shape == (1, 10)
