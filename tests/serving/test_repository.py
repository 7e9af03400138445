"""mobicuda_triton_repository: from the configuration of mobicuda_stream to answers of a server."""

import json
import os
import subprocess

import numpy as np
import pytest

from conftest import CLASSES, encoded, expected, load_client, pixels, start_server, write_model

PROGRAM = os.environ.get("MOBICUDA_TRITON_REPOSITORY")
if PROGRAM is None:
    print("\nskipped: mobicuda_triton_repository was not built (MOBICUDA_BUILD_BENCH)")
    pytest.skip("not built", allow_module_level=True)
serving = load_client()


@pytest.fixture
def config(tmp_path):
    write_model(tmp_path / "models/one.onnx", seed=1)
    write_model(tmp_path / "models/two.onnx", seed=2)
    (tmp_path / "labels.txt").write_text("".join(f"class {i}\n" for i in range(CLASSES)))
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(4):
        (photos / f"{i}.jpg").write_bytes(encoded(i))
    values = {
        "models": ["one", {"file": "two.onnx", "name": 'Zwei "2"', "share": 2, "preprocess": "tf"}],
        "model_dir": "models",
        "img_dir": "photos",
        "result_dir": "results",
        "gpu_num": 0,
        "batchsize": 4,
        "top": 3,
        "labels": "labels.txt",
    }

    def write(**more):
        file = tmp_path / "config.json"
        file.write_text(json.dumps({key: value for key, value in {**values, **more}.items() if value is not None}))
        return file

    return write


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("options", [(), ("--disable-auto-complete-config",)])
def test_the_server_answers_as_the_stream(config, tmp_path, options):
    file = config()
    done = run(file, tmp_path / "repository")
    assert done.returncode == 0, done.stderr
    assert "wrote 2 models" in done.stdout and "'share' is left out" in done.stderr
    subprocess.run([os.environ["MOBICUDA_STREAM"], "--config", file, "--quiet"], check=True, timeout=300)
    answers = {}
    with start_server(tmp_path, tmp_path / "repository", *options) as server:
        pictures = [path.read_bytes() for path in sorted((tmp_path / "photos").iterdir())]
        for name in ("one", 'Zwei "2"'):
            with serving.Client(server.grpc_url, name) as client:
                answers[name] = client.infer(pictures)
    for line in (tmp_path / "results/results.jsonl").read_text().splitlines():
        result = json.loads(line)
        answer, picture = answers[result["model"]], int(result["picture"][0])
        assert [best["class"] for best in result["top"]] == answer["top_classes"][picture].tolist()
        assert [best["label"] for best in result["top"]] == [label.decode() for label in answer["top_labels"][picture]]
        assert [best["score"] for best in result["top"]] == pytest.approx(
            answer["top_scores"][picture].tolist(), rel=1e-6
        )


def test_images_of_8_bits(config, tmp_path):
    assert run(config(models=["one"]), tmp_path / "repository", "--input", "uint8").returncode == 0
    images = pixels(3)
    with start_server(tmp_path, tmp_path / "repository") as server, serving.Client(server.grpc_url, "one") as client:
        assert np.array_equal(
            client.infer(images)["output"], expected(tmp_path / "models/one.onnx", "pixels", list(images), tmp_path)
        )


def test_what_is_written(config, tmp_path):
    assert run(config(gpu_num=2, precision="fp16", decode="gpu"), tmp_path / "repository").returncode == 0
    text = (tmp_path / "repository/one/config.pbtxt").read_text()
    for part in (
        "max_batch_size: 4\n",
        "kind: KIND_GPU count: 2 gpus: [ 0, 1 ]",
        'key: "precision" value { string_value: "fp16" }',
        'key: "decode" value { string_value: "gpu" }',
        'key: "preprocess" value { string_value: "torch" }',
    ):
        assert part in text
    assert sorted(path.name for path in (tmp_path / "repository").iterdir()) == ['Zwei "2"', "one"]
    assert run(config(gpu_num=None, models=["one"]), tmp_path / "other", "--input", "fp32").returncode == 0
    text = (tmp_path / "other/one/config.pbtxt").read_text()
    assert "instance_group" not in text and "preprocess" not in text and "TYPE_FP32 dims: [ 3, 64, 64 ]" in text


def test_what_cannot_be_is_refused_and_nothing_is_left(config, tmp_path):
    repository = tmp_path / "repository"

    def refused(status, text, file, *options):
        done = run(file, repository, *options)
        assert done.returncode == status and text in done.stderr, done.stderr
        assert not repository.exists() or list(repository.iterdir()) == []

    refused(2, "'batchsize': must be a whole number", config(batchsize=0))
    refused(1, "three.onnx", config(models=["one", "three"]))
    refused(2, "is no name of a folder", config(models=["one", {"file": "one.onnx", "name": "../up"}]))
    (tmp_path / "models/broken.onnx").write_bytes(b"broken")
    done = run(config(models=["one", "broken"]), repository)
    assert done.returncode != 0 and "broken.onnx" in done.stderr
    assert list(repository.iterdir()) == []
    (tmp_path / "labels.txt").write_text("one\n")
    refused(2, "one line a class", config())
    assert run("--help").returncode == 0
    assert run().returncode != 0
    assert run(config(), repository, "--input", "fp16").returncode != 0


def test_models_that_are_there_stay(config, tmp_path):
    file = config(models=["one"])
    assert run(file, tmp_path / "repository").returncode == 0
    done = run(file, tmp_path / "repository")
    assert done.returncode == 2 and "is there already" in done.stderr
    assert run(config(models=["two"]), tmp_path / "repository").returncode == 0
    assert sorted(path.name for path in (tmp_path / "repository").iterdir()) == ["one", "two"]
