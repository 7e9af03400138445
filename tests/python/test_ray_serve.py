"""mobicuda.ray.serve on a Ray of this machine, with CPU engines, started by Ray Serve's own program.

MOBICUDA_SERVING_PYTHON, which has tritonclient, runs what tests/serving has for any server; without it these tests are
skipped. MOBICUDA_SERVE_KILLS: how many replicas are killed, and then as many processes that read requests (1).
"""

import asyncio
import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import mobicuda

ray = pytest.importorskip("ray", reason="Ray is not installed")
grpc = pytest.importorskip("grpc", reason="grpcio, which Ray Serve needs, is not installed")
pytest.importorskip("fastapi", reason="fastapi, which Ray Serve needs, is not installed")

import ray.serve  # noqa: E402
from ray.exceptions import ActorDiedError  # noqa: E402
from ray.serve.exceptions import BackPressureError  # noqa: E402
from ray_processes import children  # noqa: E402

from mobicuda.ray import messages, serve  # noqa: E402
from mobicuda.ray.batches import Closed  # noqa: E402
from mobicuda.ray.inference_protocol import Refusal, Why  # noqa: E402
from mobicuda.ray.serve_config import config_of  # noqa: E402

SERVING = pathlib.Path(__file__).resolve().parents[1] / "serving"
SERVING_PYTHON = os.environ.get("MOBICUDA_SERVING_PYTHON", "")
KILLS = int(os.environ.get("MOBICUDA_SERVE_KILLS", "1"))
MOST_KILLS = 20  # until a request was in a replica that was killed
REPLICAS, ONGOING, QUEUED = 2, 8, 16
MOST_TAKEN = REPLICAS * ONGOING + QUEUED
MOST_BATCH = 8
MOST_BODY = 2 * 2**20
RESOLUTION, SLOW_RESOLUTION = 64, 160
TIMEOUT = 120
needs_client = pytest.mark.skipif(not SERVING_PYTHON, reason="MOBICUDA_SERVING_PYTHON is not set")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def write_table(file, models, **keys):
    table = {
        "models": models,
        "gpus": 0,
        "replicas": REPLICAS,
        "models_per_replica": 2,
        "max_ongoing_requests": ONGOING,
        "max_queued_requests": QUEUED,
        "max_body_bytes": MOST_BODY,
        "timeout": TIMEOUT,
        **keys,
    }
    file.write_text(json.dumps(table))
    return file


@pytest.fixture(scope="module")
def table(write_model, tmp_path_factory):
    """The file, and the models' files."""
    folder = tmp_path_factory.mktemp("table")
    files = {
        # One whose requests are in a replica most of their time, for kills.
        "slow": write_model("--width", "1.0", "--resolution", str(SLOW_RESOLUTION), "--classes", "10"),
        "floats": write_model("--width", "0.35", "--resolution", str(RESOLUTION), "--classes", "10", "--seed", "1"),
        "pixels": write_model("--width", "0.35", "--resolution", str(RESOLUTION), "--classes", "10", "--seed", "2"),
    }
    models = [
        {"file": str(file), "name": name, "max_batch": MOST_BATCH, "input": "fp32" if name == "floats" else "uint8"}
        for name, file in files.items()
    ]
    return write_table(folder / "models.json", models), files


class Address:
    def __init__(self, http_port, grpc_port):
        self.http, self.grpc = f"127.0.0.1:{http_port}", f"127.0.0.1:{grpc_port}"
        self._channel = grpc.insecure_channel(self.grpc, [("grpc.max_send_message_length", -1)])

    def call(self, method, request):
        """A future of gRPC."""
        ask = self._channel.unary_unary(
            f"/{messages.SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.response_class(method).FromString,
        )
        return ask.future(request, timeout=TIMEOUT)

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.http, timeout=TIMEOUT)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def is_ready(self):
        try:
            return self.ask("GET", "/v2/health/ready")[0] == 200
        except OSError:
            return False


@pytest.fixture(scope="module")
def address(table, tmp_path_factory):
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        RAY_AUTH_MODE="disabled",
        RAY_worker_niceness="0",
        RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S="60",  # 5 are too few on a busy machine
    )
    ray.init(
        address="local",  # none that is there already
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=256 * 2**20,
        log_to_driver=False,
    )
    http_port, grpc_port = free_ports(2)
    config = tmp_path_factory.mktemp("serve") / "serve.json"  # which is YAML too
    config.write_text(
        json.dumps(
            {
                "http_options": {"host": "127.0.0.1", "port": http_port},
                "grpc_options": {
                    "port": grpc_port,
                    "grpc_servicer_functions": ["mobicuda.ray.serve.add_to_server"],
                },
                "applications": [
                    {
                        "name": "default",
                        "import_path": "mobicuda.ray.serve:app",
                        "args": {"config": str(table[0])},
                    }
                ],
            }
        )
    )
    try:
        run_serve("--non-blocking", "--address", ray.get_runtime_context().gcs_address, str(config))
        found = Address(http_port, grpc_port)
        wait_for(found.is_ready)
        yield found
    finally:
        ray.serve.shutdown()
        ray.shutdown()


def run_serve(*arguments, check=True):
    program = "from ray.serve.scripts import cli; cli()"
    ended = subprocess.run([sys.executable, "-c", program, "run", *arguments], capture_output=True, text=True)
    assert ended.returncode == 0 or not check, ended.stdout + ended.stderr
    return ended


def wait_for(condition, seconds=TIMEOUT):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module")
def run(table):
    """run(name, images): what a session gives."""
    sessions = {}
    for name, file in table[1].items():
        pixels = None if name == "floats" else mobicuda.PictureInput()
        engine = mobicuda.Engine.from_onnx(
            file, backend="cpu", max_batch=MOST_BATCH, threads=1, picture_input=pixels
        )
        sessions[name] = engine.create_session()
    return lambda name, images: sessions[name].run(images)


def images_of(name, n, seed=0):
    random = np.random.default_rng(seed)
    if name == "floats":
        return random.normal(size=(n, 3, RESOLUTION, RESOLUTION)).astype(np.float32)
    extent = SLOW_RESOLUTION if name == "slow" else RESOLUTION
    return random.integers(0, 256, (n, extent, extent, 3), np.uint8)


def entry(images, **more):
    datatype = "FP32" if images.dtype == np.float32 else "UINT8"
    return {"name": "input", "datatype": datatype, "shape": list(images.shape), **more}


def grpc_request(name, images):
    request = messages.ModelInferRequest(model_name=name)
    request.inputs.add(**entry(images))
    request.raw_input_contents.append(images.tobytes())
    return request


def outputs_of(answer):
    return np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(tuple(answer.outputs[0].shape))


@pytest.mark.parametrize("name", ["floats", "pixels"])
def test_every_way_has_the_bits_of_run(address, run, name):
    path = f"/v2/models/{name}/infer"
    for n in (1, 3, MOST_BATCH):
        images = images_of(name, n, seed=n)
        right = run(name, images)
        assert np.array_equal(outputs_of(address.call("ModelInfer", grpc_request(name, images)).result()), right)
        head = json.dumps(
            {
                "inputs": [entry(images, parameters={"binary_data_size": images.nbytes})],
                "parameters": {"binary_data_output": True},
            }
        ).encode()
        length = {"Inference-Header-Content-Length": str(len(head))}
        status, body, headers = address.ask("POST", path, head + images.tobytes(), length)
        assert status == 200 and body[int(headers["Inference-Header-Content-Length"]) :] == right.tobytes()
        body = json.dumps({"inputs": [entry(images, data=images.ravel().tolist())]})
        if len(body) <= MOST_BODY:
            status, body, _ = address.ask("POST", path, body)
            found = json.loads(body)["outputs"][0]["data"]
            assert status == 200 and np.array_equal(np.array(found, np.float32).reshape(right.shape), right)


@needs_client
def test_conformance(address, table):
    environment = {
        **os.environ,
        "MOBICUDA_PROTOCOL_HTTP": address.http,
        "MOBICUDA_PROTOCOL_GRPC": address.grpc,
        "MOBICUDA_PROTOCOL_MODEL": "floats",
        **({"MOBICUDA_PROTOCOL_FILE": str(table[1]["floats"])} if "MOBICUDA_SERVING_EXPECTED" in os.environ else {}),
    }
    ended = subprocess.run(
        [SERVING_PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", SERVING / "test_protocol.py"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0 and "skipped" not in ended.stdout, ended.stdout


def test_requests_of_several_clients_run_as_one(address, run):
    images = images_of("floats", 24)
    right = run("floats", images[:8])
    asked = [address.call("ModelInfer", grpc_request("floats", images[i : i + 1])) for i in range(24)]
    answers = [outputs_of(one.result())[0] for one in asked]
    assert np.array_equal(answers[:8], right)
    handle = ray.serve.get_deployment_handle(serve.REPLICA, "default")
    counts = [handle.counts.remote("floats").result() for _ in range(10)]
    assert any(one.images > one.runs > 0 for one in counts), counts


def test_more_models_than_a_replica_holds(address, run):
    names = ("slow", "floats", "pixels")
    right = {name: run(name, images_of(name, 2)) for name in names}

    def work(i):
        for j in range(6):
            name = names[(i + j) % 3]
            answer = address.call("ModelInfer", grpc_request(name, images_of(name, 2))).result()
            assert answer.model_name == name and np.array_equal(outputs_of(answer), right[name])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    handle = ray.serve.get_deployment_handle(serve.REPLICA, "default")
    loads = [handle.counts.remote("floats").result().loads for _ in range(10)]
    assert max(loads) > 2, loads  # two when it began: one of them went for the third


GOOD = images_of("floats", 1)
SIZE = GOOD.nbytes


@pytest.mark.parametrize(
    "method, path, body, headers, status",
    [
        ("POST", "/v2/models/floats/infer", b"{", {}, 400),
        ("POST", "/v2/models/floats/infer", b"[" * 100000, {}, 400),
        ("POST", "/v2/models/floats/infer", b"", {"Inference-Header-Content-Length": "x"}, 400),
        ("POST", "/v2/models/floats/infer", json.dumps({"inputs": [entry(images_of("floats", 9))]}), {}, 400),
        ("POST", "/v2/models/floats/infer", b"{}", {"Content-Encoding": "gzip"}, 415),
        ("POST", "/v2/models/floats/infer", bytes(MOST_BODY + 1), {}, 413),
        ("POST", "/v2/models/floats/infer", (bytes(2**20) for _ in range(3)), {}, 413),
        ("POST", "/v2/models/nobody/infer", b"{}", {}, 404),
        ("POST", "/v2/models/..%2Ffloats/infer", b"{}", {}, 404),
        ("GET", "/v2/models/floats/infer", None, {}, 405),
        ("DELETE", "/v2/models/floats", None, {}, 405),
        ("GET", "/", None, {}, 404),
    ],
)
def test_bad_requests_of_http(address, method, path, body, headers, status):
    found, text, _ = address.ask(method, path, body, headers)
    assert found == status and len(json.loads(text)["error"]) > 10, (found, text)
    assert "Traceback" not in str(text) and ".py" not in str(text)
    assert address.ask("GET", "/v2/health/ready")[0] == 200


@pytest.mark.parametrize(
    "change, code",
    [
        (lambda it: it.ClearField("inputs"), "INVALID_ARGUMENT"),
        (lambda it: it.raw_input_contents.append(bytes(MOST_BODY)), "INVALID_ARGUMENT"),
        (lambda it: it.inputs[0].shape.__setitem__(0, MOST_BATCH + 1), "INVALID_ARGUMENT"),
        (lambda it: it.inputs[0].shape.__setitem__(0, 2**62), "INVALID_ARGUMENT"),
        (lambda it: setattr(it, "model_name", "x\n\u00e9" * 3000), "NOT_FOUND"),
        (lambda it: setattr(it, "model_version", "2"), "NOT_FOUND"),
    ],
)
def test_bad_requests_of_grpc(address, run, change, code):
    request = grpc_request("floats", GOOD)
    change(request)
    with pytest.raises(grpc.RpcError) as failed:
        address.call("ModelInfer", request).result()
    assert failed.value.code().name == code
    assert len(failed.value.details()) > 10 and ".py" not in failed.value.details()
    answer = address.call("ModelInfer", grpc_request("floats", GOOD)).result()
    assert np.array_equal(outputs_of(answer), run("floats", GOOD))


def test_a_full_queue_is_refused_and_what_is_taken_is_answered(address, run):
    images = images_of("slow", MOST_BATCH)  # which take far longer to run than to send
    right = run("slow", images)
    asked = [address.call("ModelInfer", grpc_request("slow", images)) for _ in range(2 * MOST_TAKEN)]
    refused = 0
    for one in asked:
        if one.exception() is None:
            assert np.array_equal(outputs_of(one.result()), right)
        else:
            assert one.code() is grpc.StatusCode.UNAVAILABLE and "the queue is full" in one.details(), one.exception()
            refused += 1
    assert 0 < refused < len(asked)


# Kills.


def replicas_of(deployment):
    title = f"ray::ServeReplica:default:{deployment}"
    return [process for process, found in children().items() if found.startswith(title)]


def kill_one(address, deployment, count):
    """Kills a replica once all are there, and waits until they are again."""
    wait_for(lambda: len(replicas_of(deployment)) == count)
    before = replicas_of(deployment)
    os.kill(before[0], signal.SIGKILL)
    wait_for(lambda: before[0] not in replicas_of(deployment) and len(replicas_of(deployment)) == count)
    wait_for(address.is_ready)


class Load:
    """asking_again.py, as a context; `counts` at its end."""

    def __init__(self, address):
        self._command = [SERVING_PYTHON, SERVING / "asking_again.py", "slow", address.grpc]

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "ready\n"
        self._began = time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self._began
        answer, _ = self._process.communicate("\n")
        self.counts = json.loads(answer)
        print(f"{self.seconds:.1f} s: {self.counts}")


def check_nothing_lost(load):
    assert (load.counts["lost"], load.counts["wrong"], load.counts["different"]) == (0, 0, 0), load.counts
    assert load.counts["answers"] > 0


@needs_client
def test_nothing_is_lost_when_replicas_are_killed(address):
    ingress = ray.serve.get_deployment_handle(serve.INGRESS, "default")
    kills = 0

    def asked_again():
        return ingress.asked_again.remote().result()

    before = asked_again()
    with Load(address) as load:
        while kills < KILLS or asked_again() == before and kills < MOST_KILLS:
            time.sleep(0.5)
            kill_one(address, serve.REPLICA, REPLICAS)
            kills += 1
    print(f"{kills} replicas killed, {asked_again() - before} requests sent again")
    check_nothing_lost(load)
    assert load.counts["retries"] == 0  # clients see nothing of it
    assert asked_again() > before


@needs_client
def test_nothing_is_lost_when_what_reads_requests_is_killed(address):
    with Load(address) as load:
        for _ in range(KILLS):
            time.sleep(0.5)
            kill_one(address, serve.INGRESS, 1)
    print(f"{KILLS} processes that read requests killed")
    check_nothing_lost(load)
    assert load.counts["retries"] > 0


def test_wrong_configurations_end_serve_run(tmp_path, table):
    file = write_table(tmp_path / "models.json", [str(table[1]["floats"])], replicsa=1)
    ended = run_serve("mobicuda.ray.serve:app", f"config={file}", check=False)
    assert ended.returncode != 0 and f"{file}: 'replicsa': is not a known key" in ended.stderr, ended.stderr


# What reads requests, with replicas that fail as they are told to.


class Lost:
    """A model whose runs fail, then do not."""

    def __init__(self, *errors):
        self.batches, self.errors = self, list(errors)

    def submit(self, images):
        if self.errors:
            raise self.errors.pop(0)
        future = concurrent.futures.Future()
        future.set_result(images)
        return future

    def outputs_of(self, scores, names):
        return [scores for _ in names]


def infer_in_a_replica(*errors):
    replica = object.__new__(serve.Replica)
    model = Lost(*errors)

    async def load(name):
        return model

    replica._model = load
    return asyncio.run(replica.infer("m", GOOD, ["output"]))


def test_errors_of_a_replica(monkeypatch):
    (found,) = infer_in_a_replica(Closed())  # one that another model took the place of is loaded again
    assert np.array_equal(found, GOOD)
    for error, why, text in (
        (mobicuda.OutOfMemoryError("out_of_memory", "/a/path", "there is none left"), Why.UNAVAILABLE, "there is none"),
        (mobicuda.FileError("io", "/a/path", "is gone"), Why.UNAVAILABLE, "the server's log says why"),
        (mobicuda.InternalError("internal", "/a/path", "x"), Why.INTERNAL, "its log says why"),
        (KeyError("/a/path"), Why.INTERNAL, "its log says why"),
    ):
        found = infer_in_a_replica(error)
        assert found.why is why and text in found.text and "/a/path" not in found.text

    def end(status):
        raise SystemExit(status)

    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(SystemExit) as ended:
        infer_in_a_replica(mobicuda.DeviceLostError("device_lost", "GPU", "it is gone"))
    assert ended.value.code == serve.EXIT_DEVICE_LOST


class Handle:
    """Of a deployment whose method raises or returns what is next."""

    def __init__(self, *outcomes):
        self.outcomes, self.asked = list(outcomes), 0

    def options(self, **_):
        return self

    @property
    def infer(self):
        return self

    async def remote(self, *_):
        self.asked += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if outcome == "never":
            await asyncio.sleep(TIMEOUT)
        if isinstance(outcome, Exception) and not isinstance(outcome, Refusal):
            raise outcome
        return outcome


def ask(*outcomes, **keys):
    handle = Handle(*outcomes)
    ingress = serve.Ingress(config_of({"models": ["/m.onnx"], **keys}), handle)
    try:
        return asyncio.run(ingress.infer("m", GOOD, ["output"])), handle.asked
    except Refusal as refusal:
        return refusal, handle.asked


def test_requests_are_sent_again_within_bounds():
    died = ActorDiedError()
    assert ask(died, died, ["answer"]) == (["answer"], 3)
    found, asked = ask(died, attempts=3)
    assert (found.why, asked) == (Why.UNAVAILABLE, 3) and "3 replicas ended" in found.text
    began = time.monotonic()
    found, asked = ask(died, attempts=100, timeout=0.3)
    assert found.why in (Why.DEADLINE, Why.UNAVAILABLE) and 1 < asked < 100 and time.monotonic() - began < 5
    found, asked = ask("never", timeout=0.1)
    assert (found.why, asked) == (Why.DEADLINE, 1) and "within 0.1 s" in found.text


def test_what_would_fail_again_is_not_sent_again():
    for outcome, why, text in (
        (BackPressureError(3, 3), Why.UNAVAILABLE, "the queue is full"),
        (ValueError("/a/path.py"), Why.INTERNAL, "the server failed; its log says why"),
        (Refusal(Why.UNAVAILABLE, "no memory"), Why.UNAVAILABLE, "no memory"),
    ):
        found, asked = ask(outcome)
        assert (found.why, asked) == (why, 1) and text in found.text
