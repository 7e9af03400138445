"""What takes a GPU. gpu_check.py, beside this file, is the longer check by hand."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import mobicuda

pytestmark = pytest.mark.gpu
HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def gpu_engine(mobilenet):
    return mobicuda.Engine.from_onnx(mobilenet, backend="custom", max_batch=8)


def test_auto_takes_it(mobilenet):
    assert mobicuda.Engine.from_onnx(mobilenet).backend == "custom"


def test_host_runs_are_those_of_the_cpu_engine(gpu_engine, engine, images):
    x = images(4)
    given, wanted = gpu_engine.create_session().run(x), engine.create_session().run(x)
    assert np.linalg.norm(given - wanted) / np.linalg.norm(wanted) < 1e-4
    with gpu_engine.create_session() as session:
        session.staged_input(4)[:] = x
        np.testing.assert_array_equal(session.run_staged(4), given)
        assert len(session.time(4, iterations=3)) == 3


def test_the_longer_check(mobilenet):
    """Wants PyTorch; says what is missing where it is not there."""
    ended = subprocess.run(
        [sys.executable, HERE / "gpu_check.py", mobilenet, "--programs", "50"],
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(ended.stdout)
    assert ended.returncode == 0, json.dumps(told, indent=2) + ended.stderr
