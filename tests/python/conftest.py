"""What the tests of the Python package share. CMake sets MOBICUDA_WRITE_MODEL, and PYTHONPATH to the built package."""

import concurrent.futures
import os
import subprocess
import threading

import numpy as np
import pytest

import mobicuda

WRITE_MODEL = os.environ.get("MOBICUDA_WRITE_MODEL", "")


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU that the library can use")


def why_no_gpu():
    device = mobicuda.devices()[0]
    return "" if device.usable else f"no GPU can be used: {device.reason}"


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and why_no_gpu():
        pytest.skip(why_no_gpu())


def pytest_terminal_summary(terminalreporter):
    """Tells ctest that nothing ran, and why."""
    reports = terminalreporter.stats
    if reports.get("skipped") and not any(reports.get(outcome) for outcome in ("passed", "failed", "error")):
        reason = reports["skipped"][0].longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"skipped: {reason}")


def in_threads(count, work):
    """Calls work(i) in `count` threads that begin together; raises what one of them raised."""
    barrier = threading.Barrier(count)

    def begin(i):
        barrier.wait()
        return work(i)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


@pytest.fixture(scope="session")
def write_model(tmp_path_factory):
    """write_model(*options) -> path of a model with seeded weights."""
    if not WRITE_MODEL:
        pytest.skip("MOBICUDA_WRITE_MODEL is not set")
    folder = tmp_path_factory.mktemp("models")
    written = {}

    def write(*options):
        if options not in written:
            path = folder / f"{len(written)}.onnx"
            subprocess.run([WRITE_MODEL, "--output", path, *options], check=True, stdout=subprocess.DEVNULL)
            written[options] = path
        return written[options]

    return write


@pytest.fixture(scope="session")
def mobilenet(write_model):
    """MobileNetV2, width 0.35, at 96 px."""
    return write_model("--width", "0.35", "--resolution", "96")


@pytest.fixture(scope="session")
def lenet(write_model):
    return write_model("--network", "lenet")


@pytest.fixture(scope="session")
def images():
    """images(n, *image) -> float32 from a normal distribution, always the same."""
    return lambda n, *image: np.random.default_rng(7).standard_normal((n, *(image or (3, 96, 96))), np.float32)


@pytest.fixture(scope="session")
def engine(mobilenet):
    return mobicuda.Engine.from_onnx(mobilenet, backend="cpu", max_batch=4, threads=2)


@pytest.fixture(scope="session")
def small(lenet):
    """An engine of a network so small that a test can run it thousands of times."""
    return mobicuda.Engine.from_onnx(lenet, backend="cpu", max_batch=2, threads=1)
