"""mobicuda.ray.serve as far as it goes without Ray: its configuration, the protocol, batches."""

import asyncio
import gc
import json
import pathlib
import pickle
import re
import struct
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import mobicuda
from mobicuda.ray.batches import Batches, Closed, Model
from mobicuda.ray.cluster import require_ray
from mobicuda.ray.inference_protocol import HEADER_LENGTH, Refusal, Server, Why
from mobicuda.ray.serve_config import VARIABLE, ServedModel, config_of, parse_serve_config

IMAGE = (3, 32, 32)
CLASSES = 10
MOST = 4
LABELS = [f"class {i}" for i in range(CLASSES)]


# The configuration.


def parse(folder="/table", **keys):
    return parse_serve_config(json.dumps({"models": ["m.onnx"], **keys}), "models.json", folder)


def test_a_configuration_and_what_it_fills_in(tmp_path):
    config = parse()
    assert config.models == (
        ServedModel("m", "/table/m.onnx", "fp16", "fp32", "torch", max_batch=64, labels=None, top=0),
    )
    assert (config.replicas, config.gpus, config.sessions, config.models_per_replica) == (1, 1.0, 2, 1)
    models = [
        {"file": "a.onnx", "precision": "fp32", "input": "uint8", "preprocess": "tf", "max_batch": 8, "labels": "l"},
        {"file": "/other/b.plan", "name": "B", "top": 3},
    ]
    config = parse(models=models, model_dir="zoo", gpus=0, models_per_replica=1, timeout=2.5)
    a, b = config.models
    assert a == ServedModel("a", "/table/zoo/a.onnx", "fp32", "uint8", "tf", 8, "/table/zoo/l", 5)
    assert (b.name, b.file, b.top, b.is_plan) == ("B", "/other/b.plan", 3, True)
    assert (config.gpus, config.sessions, config.models_per_replica, config.timeout) == (0.0, 1, 1, 2.5)
    assert config.model("B") is b and config.model("b") is None
    assert pickle.loads(pickle.dumps(config)) == config
    assert parse("", models=["m.onnx"]).models[0].file == str(pathlib.Path("m.onnx").absolute())


@pytest.mark.parametrize(
    "keys, text",
    [
        ({"replica": 2}, "'replica': is not a known key; known are: .*max_ongoing_requests.*replicas"),
        ({"models": []}, "'models': must be a list of 1 to 256 models"),
        ({"models": [{"file": "m.onnx", "batch": 2}]}, r"'models\[0\].batch': is not a known key"),
        ({"models": ["m.onnx", "x/m.plan"]}, 'another model named "m"'),
        ({"models": ["m"]}, "must end in .onnx or .plan"),
        ({"models": [{"file": "m.plan", "precision": "fp32"}]}, r"'models\[0\].precision': is the plan file's own"),
        ({"models": [{"file": "m.onnx", "name": "a/b"}]}, "must not hold a slash"),
        ({"models": [{"file": "m.onnx", "precision": "int8"}]}, 'must be one of "fp16", "fp32", "fp32_split", "fp64", got "int8"'),
        ({"models": [{"file": "m.onnx", "max_batch": 0}]}, "must be a whole number from 1 to 1024, got 0"),
        ({"replicas": "2"}, 'must be a whole number from 1 to 4096, got "2"'),
        ({"gpus": 2}, "'gpus': must be a number from 0 to 1, got 2"),
        ({"gpus": True}, "'gpus': must be a number"),
        ({"timeout": 0}, "'timeout': must be a number from 0.1 to 3600"),
    ],
)
def test_wrong_configurations_are_refused_by_name(keys, text):
    with pytest.raises(mobicuda.InvalidArgumentError, match=text):
        parse(**keys)


def test_where_the_configuration_comes_from(tmp_path):
    file = tmp_path / "models.json"
    file.write_text(json.dumps({"models": ["m.onnx"], "replicas": 3}))
    expected = str(tmp_path / "m.onnx")
    for found in (config_of({"config": str(file)}), config_of({}, {VARIABLE: str(file)})):
        assert (found.models[0].file, found.replicas) == (expected, 3)
    assert config_of({"models": ["/zoo/m.onnx"], "gpus": 0}).models[0].precision == "fp32"
    with pytest.raises(mobicuda.InvalidArgumentError, match=f"config=FILE, or {VARIABLE}"):
        config_of({}, {})
    with pytest.raises(mobicuda.InvalidArgumentError, match="have replicas beside 'config'"):
        config_of({"config": str(file), "replicas": "2"})
    with pytest.raises(mobicuda.InvalidArgumentError, match="'config'.*must be a file's path, got 3"):
        config_of({"config": 3})
    with pytest.raises(mobicuda.InvalidArgumentError, match="the application's arguments: 'model': is not a known key"):
        config_of({"models": ["m.onnx"], "model": "x"})
    with pytest.raises(mobicuda.FileError, match="missing.json"):
        config_of({"config": str(tmp_path / "missing.json")})


def test_without_ray(monkeypatch):
    code = "import mobicuda.ray.batches, mobicuda.ray.serve_config, sys; assert not {'ray', 'grpc'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'mobicuda\[serve\]', or 'ray\[serve\]'"):
        require_ray("ray.serve", "serve")


# Models and batches.


@pytest.fixture(scope="module")
def onnx(write_model):
    return write_model("--width", "0.35", "--resolution", "32", "--classes", str(CLASSES))


@pytest.fixture(scope="module")
def model(onnx, tmp_path_factory):
    labels = tmp_path_factory.mktemp("labels") / "labels.txt"
    labels.write_text("\n".join(LABELS))
    made = Model(ServedModel("floats", str(onnx), "fp32", "fp32", "torch", MOST, str(labels), 3), gpu=False, threads=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def pixel_model(onnx):
    made = Model(ServedModel("pixels", str(onnx), "fp32", "uint8", "torch", MOST, None, 0), gpu=False, threads=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def engine(onnx):
    return mobicuda.Engine.from_onnx(onnx, backend="cpu", max_batch=MOST, threads=1)


@pytest.fixture(scope="module")
def run(engine):
    session = engine.create_session()
    return lambda images: session.run(np.ascontiguousarray(images))


def floats(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, *IMAGE)).astype(np.float32)


def test_what_waits_together_runs_as_one(engine, run):
    batches = Batches(engine)
    images = floats(40)
    first = batches.submit(images[:1])  # the others come while it runs
    others = [batches.submit(images[i : i + n]) for i, n in zip(range(1, 37, 3), [1, 2, 3] * 4)]
    assert np.array_equal(first.result(60), run(images[:1]))
    for i, n, one in zip(range(1, 37, 3), [1, 2, 3] * 4, others):
        assert np.array_equal(one.result(60), run(images[i : i + n]))
    assert batches.images == 25
    assert batches.runs < len(others)
    batches.close()


class Blocked:
    """An engine that runs when it is told to."""

    def __init__(self, most):
        self.max_batch, self.go, self.ran = most, threading.Semaphore(0), []

    def create_session(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ran.append("closed")

    def warm_up(self, batches):
        pass

    def staged_input(self, n):
        self.staged = np.zeros((n, 1), np.float32)
        return self.staged

    def run_staged(self, n):
        self.go.acquire()
        self.ran.append(self.staged.ravel().tolist())
        if -1 in self.staged:
            raise mobicuda.InternalError("internal", "run", "failed")
        return 2 * self.staged

    def allow(self, runs):
        for _ in range(runs):
            self.go.release()


def of(*values):
    return np.array(values, np.float32).reshape(-1, 1)


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_batches_keep_their_order_and_their_bound():
    engine = Blocked(4)
    batches = Batches(engine)
    first = batches.submit(of(1))
    wait_for(first.running)
    waiting = [batches.submit(of(*values)) for values in ([2, 3], [4], [5, 6], [7, 8, 9])]
    engine.allow(4)
    assert [one.result(60).ravel().tolist() for one in waiting] == [[4, 6], [8], [10, 12], [14, 16, 18]]
    assert engine.ran == [[1], [2, 3, 4], [5, 6], [7, 8, 9]]
    assert (batches.images, batches.runs) == (9, 4)
    batches.close()


def test_one_that_was_given_up_is_not_run_and_an_error_is_its_batch_s_alone():
    engine = Blocked(4)
    batches = Batches(engine)
    first = batches.submit(of(1))
    wait_for(first.running)
    given_up, bad = batches.submit(of(2)), batches.submit(of(-1))
    assert given_up.cancel() and not first.cancel()
    engine.allow(2)
    assert first.result(60) == 2
    with pytest.raises(mobicuda.InternalError):
        bad.result(60)
    good = batches.submit(of(3))
    engine.allow(1)
    assert good.result(60) == 6
    assert engine.ran == [[1], [-1], [3]]
    batches.close()


def test_what_waits_when_it_is_closed_is_answered():
    engine = Blocked(1)
    batches = Batches(engine, sessions=2)
    waiting = [batches.submit(of(i)) for i in range(5)]
    batches.close()
    batches.close()
    with pytest.raises(Closed):
        batches.submit(of(9))
    engine.allow(5)
    assert [one.result(60).item() for one in waiting] == [0, 2, 4, 6, 8]
    wait_for(lambda: engine.ran.count("closed") == 2)


def test_a_model_that_nobody_has_is_freed(onnx):
    made = Model(ServedModel("m", str(onnx), "fp32", "fp32", "torch", 1, None, 0), gpu=False, threads=1)
    engine = weakref.ref(made.batches._engine)
    result = made.batches.submit(floats(1))
    del made
    assert result.result(60).shape == (1, CLASSES)

    def is_gone():
        gc.collect()
        return engine() is None

    del result
    wait_for(is_gone)


def test_models_that_cannot_be(onnx, tmp_path):
    def load(file=str(onnx), **more):
        keys = {"precision": "fp32", "input": "fp32", "preprocess": "torch", "max_batch": 1, "labels": None, "top": 0}
        return Model(ServedModel("m", file, **{**keys, **more}), gpu=False)

    with pytest.raises(mobicuda.MissingFileError, match="missing.onnx"):
        load(str(tmp_path / "missing.onnx"))
    with pytest.raises(ValueError, match="m: 'top' is 11, the model has 10 classes"):
        load(top=11)
    (tmp_path / "short.txt").write_text("one\ntwo\n")
    with pytest.raises(ValueError, match="names 2 classes, the model has 10"):
        load(labels=str(tmp_path / "short.txt"))


def test_a_plan_brings_its_own(onnx, tmp_path, run):
    mobicuda.Engine.from_onnx(onnx, backend="cpu", max_batch=2).save(tmp_path / "m.plan")
    config = parse(str(tmp_path), models=["m.plan"], gpus=0)
    made = Model(config.models[0], gpu=False)
    assert made.description.max_batch == 2
    assert np.array_equal(made.batches.submit(floats(2)).result(60), run(floats(2)))
    made.close()


# The protocol, with models of this process.


class Local:
    def __init__(self, *models):
        self.models = {model.description.name: model for model in models}
        self.is_ready = True

    async def describe(self, name):
        if name not in self.models:
            raise Refusal(Why.UNKNOWN, f"there is no model {name!r}")
        return self.models[name].description

    async def infer(self, name, images, outputs):
        model = self.models[name]
        return model.outputs_of(model.batches.submit(images).result(60), outputs)

    async def ready(self):
        return self.is_ready


@pytest.fixture(scope="module")
def local(model, pixel_model):
    return Local(model, pixel_model)


@pytest.fixture(scope="module")
def ask(local):
    def ask(method, path, body=b"", **headers):
        async def read():
            return body

        found = {key.replace("_", "-"): value for key, value in headers.items()}
        return asyncio.run(Server(local).http(method, path, found, read))

    return ask


@pytest.fixture(scope="module")
def infer(ask):
    """infer(body, tensors) -> (status, JSON, what is behind it)."""

    def infer(body, tensors=None, model="floats", length=None, **more):
        head = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {}
        if tensors is not None:
            headers[HEADER_LENGTH.lower().replace("-", "_")] = str(len(head)) if length is None else length
        answer = ask("POST", f"/v2/models/{model}/infer", head + (tensors or b""), **headers, **more)
        end = int(answer.headers.get(HEADER_LENGTH, len(answer.body)))
        return answer.status, json.loads(answer.body[:end]), answer.body[end:]

    return infer


def entry(images, **more):
    made = {"name": "input", "datatype": "FP32", "shape": list(images.shape), "data": images.ravel().tolist(), **more}
    return {key: value for key, value in made.items() if value is not None}


def binary_entry(images, **more):
    return entry(images, **{"data": None, "parameters": {"binary_data_size": images.nbytes}, **more})


def test_health_and_metadata(ask, local):
    assert json.loads(ask("GET", "/v2").body) == {
        "name": "mobicuda",
        "version": mobicuda.__version__,
        "extensions": ["binary_tensor_data"],
    }
    for path in ("health/live", "health/ready", "models/floats/ready", "models/floats/versions/1/ready"):
        assert ask("GET", f"/v2/{path}").status == 200
    local.is_ready = False
    assert (ask("GET", "/v2/health/live").status, ask("GET", "/v2/health/ready").status) == (200, 503)
    local.is_ready = True
    for path in ("/v2/models/floats", "/v2/models/floats/versions/1"):
        assert json.loads(ask("GET", path).body) == {
            "name": "floats",
            "versions": ["1"],
            "platform": "mobicuda",
            "inputs": [{"name": "input", "datatype": "FP32", "shape": [-1, *IMAGE]}],
            "outputs": [
                {"name": "output", "datatype": "FP32", "shape": [-1, CLASSES]},
                {"name": "top_classes", "datatype": "INT32", "shape": [-1, 3]},
                {"name": "top_scores", "datatype": "FP32", "shape": [-1, 3]},
                {"name": "top_labels", "datatype": "BYTES", "shape": [-1, 3]},
            ],
        }
    assert json.loads(ask("GET", "/v2/models/pixels").body)["inputs"] == [
        {"name": "input", "datatype": "UINT8", "shape": [-1, 32, 32, 3]}
    ]


@pytest.mark.parametrize("nested", [False, True])
def test_json_has_the_bits_of_run(infer, run, nested):
    images = floats(3)
    found = entry(images, data=images.tolist()) if nested else entry(images)
    status, answer, _ = infer({"id": "7", "inputs": [found], "outputs": [{"name": "output"}]})
    assert (status, answer["id"], answer["model_name"], answer["model_version"]) == (200, "7", "floats", "1")
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("output", "FP32", [3, CLASSES])
    assert np.array_equal(np.array(output["data"], np.float32).reshape(3, CLASSES), run(images))


def test_binary_tensors_have_the_bits_of_run(infer, run):
    images = floats(2)
    wanted = [{"name": "output", "parameters": {"binary_data": True}}]
    status, answer, tensors = infer({"inputs": [binary_entry(images)], "outputs": wanted}, images.tobytes())
    assert (status, answer["outputs"][0]["parameters"]) == (200, {"binary_data_size": len(tensors)})
    assert "id" not in answer
    assert tensors == run(images).tobytes()
    body = {"inputs": [entry(images)], "parameters": {"binary_data_output": True}}
    body["outputs"] = [{"name": "output"}, {"name": "top_classes", "parameters": {"binary_data": False}}]
    status, answer, tensors = infer(body)
    assert status == 200 and tensors == run(images).tobytes() and len(answer["outputs"][1]["data"]) == 6


def test_bytes_are_normalised(infer, onnx):
    pixels = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), np.uint8)
    engine = mobicuda.Engine.from_onnx(
        onnx, backend="cpu", max_batch=MOST, picture_input=mobicuda.PictureInput(), threads=1
    )
    right = engine.create_session().run(pixels)
    for found, tensors in (
        (binary_entry(pixels, datatype="UINT8"), pixels.tobytes()),
        (entry(pixels, datatype="UINT8"), None),
    ):
        status, answer, _ = infer({"inputs": [found]}, tensors, model="pixels")
        assert status == 200
        assert np.array_equal(np.array(answer["outputs"][0]["data"], np.float32).reshape(2, -1), right)
    for value in (-1, 256, 1.5):
        data = pixels.ravel().tolist()
        data[5] = value
        status, answer, _ = infer({"inputs": [entry(pixels, datatype="UINT8", data=data)]}, model="pixels")
        assert status == 400 and ("0 to 255" in answer["error"] or "whole numbers" in answer["error"])


def test_the_best_classes(infer, run):
    images = floats(2)
    order = np.argsort(-run(images), axis=1, kind="stable")[:, :3]
    status, answer, _ = infer({"inputs": [entry(images)]})
    assert status == 200
    found = {output["name"]: output for output in answer["outputs"]}
    assert list(found) == ["output", "top_classes", "top_scores", "top_labels"]
    assert found["top_classes"]["data"] == order.ravel().tolist()
    assert found["top_scores"]["data"] == np.take_along_axis(run(images), order, 1).ravel().tolist()
    assert found["top_labels"]["data"] == [LABELS[i] for i in order.ravel()]
    wanted = [{"name": name, "parameters": {"binary_data": True}} for name in ("top_labels", "top_classes")]
    status, answer, tensors = infer({"inputs": [entry(images)], "outputs": wanted})
    texts = b"".join(struct.pack("<I", len(LABELS[i])) + LABELS[i].encode() for i in order.ravel())
    assert status == 200 and tensors == texts + order.astype("<i4").tobytes()
    assert answer["outputs"][0]["parameters"] == {"binary_data_size": len(texts)}


def test_the_lower_class_is_first_among_equals_and_no_number_is_last(model):
    scores = np.array([[1, 3, np.nan, 3, 2, 0, 0, 0, 0, 0], [np.nan] * 9 + [5]], np.float32)
    classes, values = model.outputs_of(scores, ["top_classes", "top_scores"])
    assert classes.tolist() == [[1, 3, 4], [9, 0, 1]] and values[0].tolist() == [3, 3, 2]


def test_numbers_that_are_none(infer):
    images = floats(1)
    images[0, 0, 0, 0] = np.nan
    body = {"inputs": [binary_entry(images)], "outputs": [{"name": "output"}]}
    status, answer, _ = infer(body, images.tobytes())
    assert status == 400 and "ask for 'binary_data'" in answer["error"]
    body["parameters"] = {"binary_data_output": True}
    assert infer(body, images.tobytes())[0] == 200


GOOD = floats(1)
ENTRY = entry(GOOD)
BAD = {
    "nothing": (b"", "no JSON"),
    "a brace": (b"{", "no JSON"),
    "a list": (b"[]", "the request must be an object"),
    "null": (b"null", "the request must be an object"),
    "no UTF-8": (b'{"inputs": "\xff\xfe"}', "no JSON"),
    "deep": (b"[" * 100000, "nested too deeply"),
    "many digits": (b"1" * 100000, "no JSON"),
    "NaN": (b'{"inputs": NaN}', "NaN is no value of it"),
    "no inputs": ({}, "'inputs' has 0"),
    "inputs null": ({"inputs": None}, "'inputs' must be a list"),
    "inputs an object": ({"inputs": ENTRY}, "'inputs' must be a list"),
    "an input that is none": ({"inputs": [3]}, r"'inputs\[0\]' must be an object"),
    "two inputs": ({"inputs": [ENTRY, ENTRY]}, "'inputs' has 2"),
    "id": ({"id": 7, "inputs": [ENTRY]}, "'id' must be a text"),
    "name": ({"inputs": [{**ENTRY, "name": "nobody"}]}, "the model's input is 'input', got one named 'nobody'"),
    "a long name": ({"inputs": [{**ENTRY, "name": "x" * 5000}]}, r"named 'x{99}\.\.\.$"),
    "no name": ({"inputs": [{**ENTRY, "name": None}]}, "got one named None"),
    "datatype": ({"inputs": [{**ENTRY, "datatype": "INT8"}]}, "takes FP32, got 'INT8'"),
    "shape text": ({"inputs": [{**ENTRY, "shape": "1"}]}, "must be a list of whole numbers"),
    "shape fractions": ({"inputs": [{**ENTRY, "shape": [1.5, *IMAGE]}]}, "must be a list of whole numbers"),
    "shape of flags": ({"inputs": [{**ENTRY, "shape": [True, *IMAGE]}]}, "must be a list of whole numbers"),
    "no shape": ({"inputs": [{**ENTRY, "shape": None}]}, "must be a list of whole numbers"),
    "no batch": ({"inputs": [{**ENTRY, "shape": list(IMAGE)}]}, r"takes the shape \[n, 3, 32, 32\]"),
    "other rows": ({"inputs": [{**ENTRY, "shape": [1, 3, 31, 32]}]}, r"takes the shape \[n, 3, 32, 32\]"),
    "batch 0": ({"inputs": [{**ENTRY, "shape": [0, *IMAGE]}]}, "1 to 4 images, got 0"),
    "batch -1": ({"inputs": [{**ENTRY, "shape": [-1, *IMAGE]}]}, "1 to 4 images, got -1"),
    "batch 5": ({"inputs": [entry(floats(5))]}, "1 to 4 images, got 5"),
    "batch 2^62": ({"inputs": [{**ENTRY, "shape": [2**62, *IMAGE]}]}, "1 to 4 images, got 4611686018427387904"),
    "no data": ({"inputs": [entry(GOOD, data=None)]}, "neither 'data' nor the parameter"),
    "data null": ({"inputs": [{**ENTRY, "data": None}]}, "'data' must be a list of numbers, got None"),
    "data text": ({"inputs": [{**ENTRY, "data": "0"}]}, "'data' must be a list of numbers"),
    "data of text": ({"inputs": [{**ENTRY, "data": ["1"] * GOOD.size}]}, "must hold numbers alone"),
    "data of flags": ({"inputs": [{**ENTRY, "data": [True] * GOOD.size}]}, "must hold numbers alone"),
    "data with null": ({"inputs": [{**ENTRY, "data": [None, *ENTRY["data"][1:]]}]}, "must hold numbers alone"),
    "data too large": ({"inputs": [{**ENTRY, "data": [1e39, *ENTRY["data"][1:]]}]}, "too large for FP32"),
    "data too long": ({"inputs": [{**ENTRY, "data": [10**400, *ENTRY["data"][1:]]}]}, "must hold numbers alone"),
    "too few": ({"inputs": [{**ENTRY, "data": ENTRY["data"][1:]}]}, r"has the shape \[3071\]"),
    "too many": ({"inputs": [{**ENTRY, "data": [*ENTRY["data"], 0]}]}, r"has the shape \[3073\]"),
    "no numbers": ({"inputs": [{**ENTRY, "data": []}]}, r"has the shape \[0\]"),
    "lists that differ": ({"inputs": [{**ENTRY, "data": [[1, 2], [3]]}]}, "its lists differ in length"),
    "nested otherwise": ({"inputs": [{**ENTRY, "data": GOOD.reshape(32, 96).tolist()}]}, "neither"),
    "output": ({"inputs": [ENTRY], "outputs": [{"name": "nobody"}]}, "no output 'nobody'; it has 'output', 'top_cl"),
    "output without a name": ({"inputs": [ENTRY], "outputs": [{}]}, "no output None"),
    "output twice": ({"inputs": [ENTRY], "outputs": [{"name": "output"}] * 2}, "asked for twice"),
    "outputs text": ({"inputs": [ENTRY], "outputs": "output"}, "'outputs' must be a list"),
    "a list for a name": ({"inputs": [ENTRY], "outputs": [{"name": ["output"]}]}, "no output"),
    "parameters": ({"inputs": [ENTRY], "parameters": 3}, "'parameters' of the request must be an object"),
    "binary_data text": (
        {"inputs": [ENTRY], "outputs": [{"name": "output", "parameters": {"binary_data": "yes"}}]},
        "'binary_data' must be true or false",
    ),
    "binary size without bytes": ({"inputs": [binary_entry(GOOD)]}, "is 12288, 0 bytes are behind the JSON"),
    "shared memory": (
        {"inputs": [entry(GOOD, data=None, parameters={"shared_memory_region": "x"})]},
        "'shared_memory_region' is nothing that this server has",
    ),
    "classification": (
        {"inputs": [ENTRY], "outputs": [{"name": "output", "parameters": {"classification": 3}}]},
        "'classification' is nothing",
    ),
}


@pytest.mark.parametrize("body, text", BAD.values(), ids=BAD.keys())
def test_bad_json(infer, body, text):
    status, answer, _ = infer(body)
    assert status == 400
    assert re.search(text, answer["error"]), answer
    assert infer({"inputs": [ENTRY]})[0] == 200


@pytest.mark.parametrize(
    "change, tensors, length, text",
    [
        ({}, GOOD.tobytes()[:-1], None, "is 12288, 12287 bytes are behind"),
        ({}, GOOD.tobytes() + b"x", None, "is 12288, 12289 bytes are behind"),
        ({"parameters": {"binary_data_size": 8}}, bytes(8), None, "has 12288 bytes, got 8"),
        ({"parameters": {"binary_data_size": 10**12}}, GOOD.tobytes(), None, "is 1000000000000, 12288 bytes"),
        ({"parameters": {"binary_data_size": "12288"}}, GOOD.tobytes(), None, "is '12288', 12288 bytes"),
        ({"parameters": {"binary_data_size": -1}}, b"", None, "is -1, 0 bytes"),
        ({"data": ENTRY["data"]}, GOOD.tobytes(), None, "both 'data' and the parameter"),
        ({"parameters": {}, "data": ENTRY["data"]}, GOOD.tobytes(), None, "12288 bytes behind the JSON belong to no"),
        ({}, GOOD.tobytes(), "0", "must be the length of the JSON"),
        ({}, GOOD.tobytes(), "-5", "must be the length of the JSON"),
        ({}, GOOD.tobytes(), "1e3", "must be the length of the JSON"),
        ({}, GOOD.tobytes(), "\u0665", "must be the length of the JSON"),
        ({}, GOOD.tobytes(), "9" * 30, "must be the length of the JSON"),
        ({}, GOOD.tobytes(), "20", "no JSON"),
    ],
)
def test_bad_binary_tensors(infer, change, tensors, length, text):
    status, answer, _ = infer({"inputs": [binary_entry(GOOD, **change)]}, tensors, length=length)
    assert status == 400 and text in answer["error"], answer


def test_other_requests(ask, infer):
    for path in ("/", "/v1", "/v2/models", "/v2/models/floats/config", "/v2/models/floats/infer/x", "/v2/health"):
        assert ask("GET", path).status == 404
    assert ask("GET", "/v2/models/nobody").status == 404
    assert ask("GET", "/v2/models/../floats").status == 404
    assert infer({"inputs": [ENTRY]}, model="nobody")[0] == 404
    for path in ("/v2/models/floats/versions/2", "/v2/models/floats/versions/99/ready"):
        answer = ask("GET", path)
        assert answer.status == 404 and b"the version 1 alone" in answer.body
    for method, path, allowed in (("POST", "/v2", "GET"), ("GET", "/v2/models/floats/infer", "POST")):
        answer = ask(method, path)
        assert (answer.status, answer.headers["Allow"]) == (405, allowed)
    status, answer, _ = infer({"inputs": [ENTRY]}, content_encoding="gzip")
    assert status == 415 and "gzip" in answer["error"]


# gRPC's messages.

messages = None
try:
    from mobicuda.ray import messages
except ModuleNotFoundError:
    pass
needs_protobuf = pytest.mark.skipif(messages is None, reason="protobuf is not installed")


def call(local, method, request):
    answer = messages.response_class(method)()
    request = messages.request_class(method).FromString(request.SerializeToString())
    asyncio.run(Server(local).grpc(method, request, answer))
    return answer


def infer_request(images, datatype="FP32", model="floats"):
    request = messages.ModelInferRequest(model_name=model, id="7")
    request.inputs.add(name="input", datatype=datatype, shape=images.shape)
    request.raw_input_contents.append(images.tobytes())
    return request


def add_parameter(to, name):
    to.parameters[name].string_param = "x"


@needs_protobuf
def test_grpc_has_the_bits_of_run(local, run):
    images = floats(3)
    request = infer_request(images)
    request.outputs.add(name="output")
    raw = call(local, "ModelInfer", request)
    assert (raw.id, raw.model_name, raw.model_version) == ("7", "floats", "1")
    assert [(one.name, one.datatype, list(one.shape)) for one in raw.outputs] == [("output", "FP32", [3, CLASSES])]
    assert raw.raw_output_contents[0] == run(images).tobytes()
    del request.raw_input_contents[:]
    request.inputs[0].contents.fp32_contents.extend(images.ravel().tolist())
    assert call(local, "ModelInfer", request).raw_output_contents[0] == run(images).tobytes()
    pixels = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), np.uint8)
    request = infer_request(pixels, "UINT8", "pixels")
    raw = call(local, "ModelInfer", request).raw_output_contents[0]
    del request.raw_input_contents[:]
    request.inputs[0].contents.uint_contents.extend(pixels.ravel().tolist())
    assert call(local, "ModelInfer", request).raw_output_contents[0] == raw


@needs_protobuf
def test_grpc_s_other_methods(local):
    assert call(local, "ServerLive", messages.ServerLiveRequest()).live
    assert call(local, "ServerReady", messages.ServerReadyRequest()).ready
    found = call(local, "ServerMetadata", messages.ServerMetadataRequest())
    assert (found.name, found.version, list(found.extensions)) == (
        "mobicuda",
        mobicuda.__version__,
        ["binary_tensor_data"],
    )
    for name, version, ready in (("floats", "", True), ("floats", "1", True), ("floats", "2", False), ("x", "", False)):
        assert call(local, "ModelReady", messages.ModelReadyRequest(name=name, version=version)).ready == ready
    found = call(local, "ModelMetadata", messages.ModelMetadataRequest(name="floats"))
    assert (found.name, list(found.versions), found.platform) == ("floats", ["1"], "mobicuda")
    assert [(one.name, one.datatype, list(one.shape)) for one in found.inputs] == [("input", "FP32", [-1, *IMAGE])]
    assert [one.name for one in found.outputs] == ["output", "top_classes", "top_scores", "top_labels"]


@needs_protobuf
@pytest.mark.parametrize(
    "change, why, text",
    [
        (lambda it: it.ClearField("inputs"), Why.INVALID, "'inputs' has 0"),
        (lambda it: it.inputs.add(name="x"), Why.INVALID, "'inputs' has 2"),
        (lambda it: setattr(it.inputs[0], "datatype", "INT8"), Why.INVALID, "takes FP32, got 'INT8'"),
        (lambda it: it.inputs[0].shape.pop(), Why.INVALID, "takes the shape"),
        (lambda it: it.inputs[0].shape.__setitem__(0, 2**62), Why.INVALID, "1 to 4 images"),
        (lambda it: it.raw_input_contents.pop(), Why.INVALID, "got nothing"),
        (lambda it: it.raw_input_contents.append(b"x"), Why.INVALID, "has 2 tensors for one input"),
        (lambda it: it.raw_input_contents.__setitem__(0, b"x"), Why.INVALID, "has 12288 bytes, got 1"),
        (lambda it: it.inputs[0].contents.fp32_contents.append(1), Why.INVALID, "both 'contents' and"),
        (lambda it: add_parameter(it.inputs[0], "shared_memory_region"), Why.INVALID, "nothing that this server has"),
        (lambda it: it.outputs.add(name="nobody"), Why.INVALID, "no output 'nobody'"),
        (lambda it: setattr(it, "model_name", "nobody"), Why.UNKNOWN, "nobody"),
        (lambda it: setattr(it, "model_version", "2"), Why.UNKNOWN, "the version 1 alone"),
    ],
)
def test_bad_grpc(local, change, why, text):
    request = infer_request(GOOD)
    change(request)
    with pytest.raises(Refusal) as caught:
        call(local, "ModelInfer", request)
    assert caught.value.why is why and text in caught.value.text
    assert caught.value.why.grpc in ("INVALID_ARGUMENT", "NOT_FOUND")


@needs_protobuf
@pytest.mark.parametrize(
    "field, values, text",
    [
        ("fp32_contents", GOOD.ravel().tolist()[1:], "has 3072 values, got 3071"),
        ("fp64_contents", GOOD.ravel().tolist(), "'raw_input_contents' or 'fp32_contents', got 'fp64_contents'"),
    ],
)
def test_bad_typed_contents(local, field, values, text):
    request = infer_request(GOOD)
    del request.raw_input_contents[:]
    getattr(request.inputs[0].contents, field).extend(values)
    with pytest.raises(Refusal) as caught:
        call(local, "ModelInfer", request)
    assert text in caught.value.text


@needs_protobuf
def test_messages_can_be_pickled_and_have_the_protocol_s_bytes():
    request = infer_request(GOOD)
    request.parameters["priority"].uint64_param = 3
    request.outputs.add(name="output").parameters["binary_data"].bool_param = True
    assert pickle.loads(pickle.dumps(request)) == request
    assert messages.ModelInferRequest.__module__ == messages.__name__  # where a process that has not made one finds it
    small = messages.ModelInferRequest(model_name="m", id="7", raw_input_contents=[b"xyz"])
    small.inputs.add(name="i", datatype="FP32", shape=[1, -1]).contents.uint_contents.append(5)
    small.parameters["p"].string_param = "v"
    # As tritonclient's classes, made by protoc, have it.
    assert small.SerializeToString().hex() == (
        "0a016d1a0137"
        "2208" "0a0170" "12031a0176"
        "2a1b" "0a0169" "120446503332" "1a0b01ffffffffffffffffff01" "2a032201" "05"
        "3a0378797a"
    )


def test_refusals_can_be_pickled():
    found = pickle.loads(pickle.dumps(Refusal(Why.TOO_LARGE, "text")))
    assert (found.why, found.text, found.why.http) == (Why.TOO_LARGE, "text", 413)
