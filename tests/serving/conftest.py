"""What the tests of serving share. ctest sets the environment (tests/serving/CMakeLists.txt)."""

import importlib.util
import io
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [os.path.dirname(__file__), str(ROOT / "scripts/lib")]
from triton_server import Server  # noqa: E402

RESOLUTION, CLASSES = 64, 10


def pytest_terminal_summary(terminalreporter):
    """Tells ctest that nothing ran, and why."""
    reports = terminalreporter.stats
    if reports.get("skipped") and not any(reports.get(outcome) for outcome in ("passed", "failed", "error")):
        reason = reports["skipped"][0].longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"skipped: {reason}")


def write_model(file, seed=1, resolution=RESOLUTION, classes=CLASSES):
    file.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            os.environ["MOBICUDA_WRITE_MODEL"],
            "--output",
            file,
            "--width",
            "0.35",
            "--resolution",
            str(resolution),
            "--classes",
            str(classes),
            "--seed",
            str(seed),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return file


def add_model(repository, name, config="", seed=1, labels=False, version=1):
    """A model of the repository, whose configuration is completed by the backend."""
    file = write_model(repository / name / str(version) / "model.onnx", seed)
    (repository / name / "config.pbtxt").write_text(f'backend: "mobicuda"\n{config}\n')
    if labels:
        (file.parent / "labels.txt").write_text("".join(f"class {i}\n" for i in range(CLASSES)))
    return file


def start_server(folder, repository, *options, name="server", **more):
    return Server(
        os.environ["MOBICUDA_TRITON_SERVER"],
        os.environ["MOBICUDA_TRITON_BACKENDS"],
        repository,
        folder / f"{name}.log",
        *options,
        **more,
    )


def expected(model, kind, inputs, folder):
    """What the library computes without a server: float32, (images, classes)."""
    files = []
    for i, one in enumerate(inputs):
        files.append(folder / f"expected_input_{i}")
        files[-1].write_bytes(one if isinstance(one, bytes) else one.tobytes())
    done = subprocess.run(
        [os.environ["MOBICUDA_SERVING_EXPECTED"], model, kind, *files], check=True, stdout=subprocess.PIPE
    )
    return np.frombuffer(done.stdout, np.float32).reshape(len(inputs), -1)


def floats(count, seed=0, resolution=RESOLUTION):
    return np.random.default_rng(seed).normal(size=(count, 3, resolution, resolution)).astype(np.float32)


def pixels(count, seed=0, resolution=RESOLUTION):
    return np.random.default_rng(seed).integers(0, 256, (count, resolution, resolution, 3), dtype=np.uint8)


def encoded(seed=0, kind="JPEG", size=(90, 70)):
    noise = np.random.default_rng(seed).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).resize(size).save(file, kind)
    return file.getvalue()


def load_client():
    """mobicuda.serving alone: it needs no library."""
    spec = importlib.util.spec_from_file_location("mobicuda_serving", ROOT / "python/mobicuda/serving.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


UINT8 = "input [ { data_type: TYPE_UINT8 } ]"
ENCODED = "input [ { data_type: TYPE_STRING } ]"
BATCH_8 = "max_batch_size: 8"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("serving")
