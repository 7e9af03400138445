"""Errors: each code's class, and how they travel."""

import concurrent.futures
import multiprocessing
import os
import pickle
import resource

import numpy as np
import pytest

import mobicuda
from mobicuda import errors


@pytest.mark.parametrize(
    "code, kind, builtin",
    [
        ("invalid_argument", mobicuda.InvalidArgumentError, ValueError),
        ("invalid_model", mobicuda.InvalidModelError, ValueError),
        ("unsupported", mobicuda.UnsupportedError, NotImplementedError),
        ("io", mobicuda.FileError, OSError),
        ("out_of_memory", mobicuda.OutOfMemoryError, MemoryError),
        ("device_unavailable", mobicuda.DeviceUnavailableError, RuntimeError),
        ("device_lost", mobicuda.DeviceLostError, RuntimeError),
        ("internal", mobicuda.InternalError, RuntimeError),
    ],
)
def test_each_code_has_a_class(code, kind, builtin):
    error = errors._make_error(code, "where", "what", "do this")
    assert type(error) is kind and isinstance(error, mobicuda.Error) and isinstance(error, builtin)
    assert str(error) == f"{code}: where: what; do this"
    assert str(errors._make_error(code, "", "what", "")) == f"{code}: what"
    same = pickle.loads(pickle.dumps(error))
    assert type(same) is kind and str(same) == str(error)
    assert (same.code, same.where, same.message, same.hint) == (code, "where", "what", "do this")


def test_missing_files(tmp_path):
    missing = tmp_path / "missing"
    for load in (mobicuda.Engine.from_onnx, mobicuda.Engine.load, mobicuda.InferenceSession):
        with pytest.raises(FileNotFoundError) as caught:
            load(missing)
        error = caught.value
        assert isinstance(error, mobicuda.FileError) and error.code == "io" and error.filename == str(missing)
        assert str(pickle.loads(pickle.dumps(error))) == str(error) == f"io: {missing}: there is no such file"
    with pytest.raises(mobicuda.FileError) as caught:
        mobicuda.Engine.from_onnx(tmp_path)
    assert not isinstance(caught.value, FileNotFoundError)


def test_what_the_library_raises(lenet, engine, tmp_path):
    with pytest.raises(mobicuda.InvalidModelError) as caught:
        mobicuda.Engine.from_onnx(b"no model")
    assert caught.value.code == "invalid_model" and caught.value.where == "<bytes>" and caught.value.hint
    plan = engine.serialize()
    with pytest.raises(mobicuda.InvalidModelError, match="<bytes>: .*damaged"):
        mobicuda.Engine.deserialize(plan[:-1])
    with pytest.raises(mobicuda.InvalidModelError):
        mobicuda.Engine.deserialize(b"")
    limited = mobicuda.Engine.from_onnx(lenet, backend="cpu", max_memory_bytes=1000)
    with pytest.raises(MemoryError) as out_of_memory:
        limited.create_session()
    assert out_of_memory.value.code == "out_of_memory" and "max_memory_bytes" in out_of_memory.value.where
    with pytest.raises(mobicuda.FileError):
        engine.save(tmp_path / "no" / "such" / "folder")
    with pytest.raises(mobicuda.UnsupportedError) as unsupported:
        mobicuda.Engine.from_onnx(lenet, backend="cpu", precision="fp16")
    assert "fp32 or fp64" in unsupported.value.message
    if not mobicuda.devices()[0].usable:
        with pytest.raises(mobicuda.DeviceUnavailableError) as unavailable:
            mobicuda.Engine.from_onnx(lenet, backend="custom")
        assert unavailable.value.code == "device_unavailable" and unavailable.value.hint


def test_names_that_are_no_text(lenet, tmp_path):
    name = os.fsencode(str(tmp_path)) + b"/\xff\x1b[31m.onnx"
    try:
        with open(name, "wb") as file:
            file.write(b"no model")
    except OSError:
        pytest.skip("this file system takes no such name")
    with pytest.raises(mobicuda.InvalidModelError) as caught:
        mobicuda.Engine.from_onnx(os.fsdecode(name))
    assert "\x1b" not in str(caught.value) and "\\xff" in str(caught.value)
    with open(name, "wb") as file:
        file.write(lenet.read_bytes())
    assert mobicuda.Engine.from_onnx(os.fsdecode(name), backend="cpu").max_batch == 1
    # The tensors of a model may have any bytes as names, too.
    model = lenet.read_bytes().replace(b"\x05input", b"\x05in\xffut")
    engine = mobicuda.Engine.from_onnx(model, backend="cpu")
    assert engine.input.name == "in\\xffut"
    assert mobicuda.InferenceSession(model, backend="cpu").run(
        None, {"in\\xffut": np.zeros((1, 1, 28, 28), np.float32)}
    )


def _load_broken(_):
    mobicuda.Engine.from_onnx(b"no model")


def test_errors_cross_between_processes():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        with pytest.raises(mobicuda.InvalidModelError, match="<bytes>"):
            pool.submit(_load_broken, 0).result()


def test_memory_that_is_not_there(write_model):
    """An arena beyond the address space is a MemoryError, not the end of the process."""
    model = write_model("--width", "1", "--resolution", "224").read_bytes()
    child = multiprocessing.get_context("spawn").Process(target=_ask_for_too_much, args=(model,))
    child.start()
    child.join()
    assert child.exitcode == 0


def _ask_for_too_much(model):
    engine = mobicuda.Engine.from_onnx(model, backend="cpu", max_batch=4096, threads=1)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    try:
        engine.create_session()
    except mobicuda.OutOfMemoryError:
        return
    raise AssertionError("no OutOfMemoryError")
