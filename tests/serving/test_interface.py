"""The backend's library beside the server's: what it takes from it, and what it gives."""

import json
import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.request

import yaml

from conftest import BATCH_8, ENCODED, add_model, encoded, load_client, start_server

ROOT = pathlib.Path(__file__).parents[2]


def symbols(file, *options):
    listed = subprocess.run(["nm", "-D", *options, file], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines()}


def test_the_server_has_every_function_that_is_declared():
    declared = set(
        re.findall(r"\b(TRITON(?:BACKEND|SERVER)_\w+)\(", (ROOT / "serving/triton/triton_api.h").read_text())
    )
    server = next(
        pathlib.Path(os.environ["MOBICUDA_TRITON_SERVER"], "nvidia_pytriton.libs").glob("libtritonserver-*.so")
    )
    assert len(declared) > 40
    assert declared <= symbols(server, "--defined-only")
    backend = pathlib.Path(os.environ["MOBICUDA_TRITON_BACKENDS"], "mobicuda/libtriton_mobicuda.so")
    used = {name for name in symbols(backend, "--undefined-only") if name.startswith("TRITON")}
    assert used == declared


def test_the_backend_gives_what_the_server_asks_for_and_nothing_else():
    backend = pathlib.Path(os.environ["MOBICUDA_TRITON_BACKENDS"], "mobicuda/libtriton_mobicuda.so")
    assert symbols(backend, "--defined-only") == {
        f"TRITONBACKEND_{name}"
        for name in (
            "Initialize",
            "Finalize",
            "GetBackendAttribute",
            "ModelInitialize",
            "ModelFinalize",
            "ModelInstanceInitialize",
            "ModelInstanceFinalize",
            "ModelInstanceExecute",
        )
    }


def test_installed(tmp_path, monkeypatch):
    """What cmake --install leaves is all that a server needs."""
    prefix = tmp_path / "prefix"
    for component in ("runtime", "pictures", "triton"):
        subprocess.run(
            ["cmake", "--install", os.environ["MOBICUDA_BUILD_FOLDER"], "--prefix", prefix, "--component", component],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    assert (prefix / "bin/mobicuda_triton_repository").exists() == ("MOBICUDA_TRITON_REPOSITORY" in os.environ)
    add_model(tmp_path / "repository", "pictures", ENCODED)
    monkeypatch.setenv("MOBICUDA_TRITON_BACKENDS", str(prefix / "backends"))
    with start_server(tmp_path, tmp_path / "repository") as server:
        with load_client().Client(server.grpc_url, "pictures") as client:
            assert client.infer([encoded()])["output"].shape == (1, 10)
        mapped = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()
        assert f"{prefix}/" in mapped and os.environ["MOBICUDA_BUILD_FOLDER"] not in mapped


def example(name):
    return (ROOT / "serving/examples" / name).read_text()


def arguments(of):
    if of == "compose.yaml":
        given = yaml.safe_load(example(of))["services"]["triton"]["command"]
    else:
        given = next(yaml.safe_load_all(example(of)))["spec"]["template"]["spec"]["containers"][0]["args"]
    assert given[:2] == ["tritonserver", "--model-repository=/models"]
    return [re.sub(r"\$[{(][^)}]*[)}]", "secret", one) for one in given[2:]]


def test_examples(tmp_path):
    """Examples parse; the server takes their options, restricts what they restrict, and has the dashboard's metrics."""
    assert yaml.safe_load(example("prometheus.yaml"))["scrape_configs"]
    assert arguments("compose.yaml") == arguments("kubernetes.yaml")
    add_model(tmp_path / "repository", "pictures", f"{BATCH_8} {ENCODED}")
    with start_server(tmp_path, tmp_path / "repository", *arguments("compose.yaml")) as server:
        with load_client().Client(server.grpc_url, "pictures") as client:
            client.infer([encoded()])
        url = f"http://{server.http_url}/v2/repository/index"
        for headers, status in (({}, 403), ({"admin-key": "wrong"}, 403), ({"admin-key": "secret"}, 200)):
            try:
                with urllib.request.urlopen(urllib.request.Request(url, b"{}", headers), timeout=60) as answer:
                    assert answer.status == status
            except urllib.error.HTTPError as error:
                assert error.code == status
        page = server.metrics_page()
    expressions = [
        target["expr"] for panel in json.loads(example("grafana.json"))["panels"] for target in panel["targets"]
    ]
    metrics = {name for expression in expressions for name in re.findall(r"\b(?:nv|mobicuda)_\w+", expression)}
    assert len(metrics) > 8
    for name in metrics:
        assert f"# TYPE {name} " in page, name
