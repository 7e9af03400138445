"""The session shaped as ONNX Runtime's, beside ONNX Runtime where that is installed."""

import copy
import pickle

import numpy as np
import pytest

import mobicuda
from conftest import in_threads

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"


@pytest.fixture(scope="module")
def session(mobilenet):
    return mobicuda.InferenceSession(mobilenet, providers=[CPU], max_batch=2, threads=1)


def test_the_same_program_as_for_onnx_runtime(mobilenet, images):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    results = []
    for package in (onnxruntime, mobicuda):
        session = package.InferenceSession(str(mobilenet), providers=[CPU])
        (given,), (wanted,) = session.get_inputs(), session.get_outputs()
        assert (given.name, given.type, given.shape[1:]) == ("input", "tensor(float)", [3, 96, 96])
        assert (wanted.name, wanted.type, wanted.shape[1:]) == ("output", "tensor(float)", [1000])
        assert isinstance(given.shape[0], str) and session.get_providers() == [CPU]
        (whole,) = session.run(None, {given.name: images(5)})
        (named,) = session.run([wanted.name], {given.name: images(5)})
        np.testing.assert_array_equal(whole, named)
        binding = session.io_binding()
        binding.bind_cpu_input(given.name, images(2))
        binding.bind_output(wanted.name)
        session.run_with_iobinding(binding)
        (bound,) = binding.copy_outputs_to_cpu()
        assert bound.shape == (2, 1000) and binding.get_outputs()[0].numpy().shape == (2, 1000)
        results.append(whole)
        with pytest.raises(ValueError):
            session.run(None, {})
        with pytest.raises(Exception):
            session.run(["wrong"], {given.name: images(1)})
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-3 * np.abs(results[0]).max())


def test_larger_batches_run_in_parts(session, mobilenet, images):
    x = images(7)
    whole = mobicuda.Engine.from_onnx(mobilenet, backend="cpu", max_batch=7).create_session().run(x)
    for n in (1, 2, 3, 7):
        (y,) = session.run(None, {"input": x[:n]})
        np.testing.assert_array_equal(y, whole[:n])


def test_eight_threads(session, images):
    x = [images(3) * (i + 1) for i in range(8)]
    wanted = [session.run(None, {"input": batch})[0] for batch in x]

    def run(i):
        for _ in range(8):
            np.testing.assert_array_equal(session.run(None, {"input": x[i]})[0], wanted[i])

    in_threads(8, run)
    assert 1 <= len(session._pool._idle) <= 4


def test_a_failed_run_gives_its_session_back(session, images):
    for _ in range(9):
        with pytest.raises(TypeError):
            session.run(None, {"input": images(1).astype(np.float64)})
    assert session.run(None, {"input": images(1)})[0].shape == (1, 1000)


def test_plans(session, engine, tmp_path, images):
    wanted = engine.create_session().run(images(2))
    engine.save(tmp_path / "engine.plan")
    for model in (tmp_path / "engine.plan", engine.serialize()):
        same = mobicuda.InferenceSession(model, threads=1)
        assert same.engine.max_batch == 4
        np.testing.assert_array_equal(same.run(None, {"input": images(2)})[0], wanted)
        with pytest.raises(ValueError, match="plan is of CPUExecutionProvider"):
            mobicuda.InferenceSession(model, providers=[CUDA])


def test_providers(mobilenet):
    usable = mobicuda.devices()[0].usable
    for providers, backend in [
        (None, "auto"),
        ([CUDA, CPU], "auto"),
        ([CPU], "cpu"),
        ([CPU, CUDA], "cpu"),
        ([], "auto"),
        ([(CUDA, {"device_id": 0}), CPU], "auto"),
        ([CUDA], "custom"),
    ]:
        if backend == "custom" and not usable:
            with pytest.raises(mobicuda.DeviceUnavailableError):
                mobicuda.InferenceSession(mobilenet, providers=providers)
            continue
        wanted = {"auto": "custom" if usable else "cpu"}.get(backend, backend)
        session = mobicuda.InferenceSession(mobilenet, providers=providers)
        assert session.engine.backend == wanted
        assert session.get_providers() == [CUDA if wanted == "custom" else CPU]
    for providers, kind, text in [
        (["TensorrtExecutionProvider"], ValueError, "is not known"),
        (CPU, TypeError, "sequence"),
        ([(CUDA, {"arena": 1})], ValueError, "device_id"),
        ([(CPU, {"x": 1})], ValueError, "device_id"),
    ]:
        with pytest.raises(kind, match=text):
            mobicuda.InferenceSession(mobilenet, providers=providers)


@pytest.mark.parametrize(
    "arguments, kind, text",
    [
        ((None, {"wrong": 0}), ValueError, "no input 'wrong': the model's is 'input'"),
        ((None, {}), ValueError, "lacks 'input'"),
        ((None, [1]), TypeError, "input_feed must map"),
        ((["wrong"], {}), ValueError, "no output 'wrong': the model's is 'output'"),
        ((None, {"input": [1.0]}), TypeError, "got list"),
        ((None, {"input": np.zeros((1, 3, 96, 96))}), TypeError, "got float64"),
        ((None, {"input": np.zeros((9, 3, 96, 95), np.float32)}), ValueError, "got shape"),
        ((None, {}, object()), TypeError, "run_options"),
    ],
)
def test_wrong_arguments(session, arguments, kind, text):
    with pytest.raises(kind, match=text):
        session.run(*arguments)


def test_bindings(session, images):
    x = images(2)
    (wanted,) = session.run(None, {"input": x})
    binding = session.io_binding()
    for failing in (
        lambda: session.run_with_iobinding(binding),
        binding.get_outputs,
        lambda: binding.bind_cpu_input("wrong", x),
        lambda: binding.bind_output("wrong"),
        lambda: binding.bind_input("input", "cuda", 0, np.float32),
        lambda: binding.bind_input("input", "tpu"),
        lambda: binding.bind_input("input", "cuda", 0, np.float32, None, 256),
        lambda: binding.bind_input("input", "cpu", 0, np.float32, x.shape, x.ctypes.data),
        lambda: binding.bind_input("input", "cuda", 0, np.float32, x.shape, 0),
    ):
        with pytest.raises(ValueError):
            failing()
    for failing in (
        lambda: binding.bind_input("input", "cuda", 0, np.float64, x.shape, 256),
        lambda: binding.bind_input("input", x, 0, None, x.shape),
        lambda: binding.bind_cpu_input("input", 3),
    ):
        with pytest.raises(TypeError):
            failing()
    binding.bind_input("input", x)
    out = np.zeros((2, 1000), np.float32)
    binding.bind_output("output", out)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, wanted)
    (value,) = binding.get_outputs()
    assert value.device_name() == "cpu" and value.shape() == [2, 1000] and value.numpy() is out
    np.testing.assert_array_equal(np.from_dlpack(value), wanted)
    other = session.io_binding()
    other.bind_ortvalue_input("input", mobicuda.OrtValue(x))
    other.bind_ortvalue_output("output", mobicuda.OrtValue(np.zeros_like(out)))
    session.run_with_iobinding(other)
    np.testing.assert_array_equal(other.copy_outputs_to_cpu()[0], wanted)
    binding.clear_binding_outputs()
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0] is not out
    binding.clear_binding_inputs()
    with pytest.raises(ValueError, match="not bound"):
        session.run_with_iobinding(binding)
    binding.bind_input("input", "cuda", 0, np.float32, x.shape, 4096)  # an address that the cpu engine must not touch
    with pytest.raises(TypeError, match="cpu engine takes arrays in host memory"):
        session.run_with_iobinding(binding)


def test_close_copies_and_arguments(mobilenet, images):
    with mobicuda.InferenceSession(mobilenet, backend="cpu", sessions=1) as session:
        assert session.engine.max_batch == 32
        session.run(None, {"input": images(1)})
        for refused in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="serialize"):
                refused(session)
    with pytest.raises(ValueError, match="closed"):
        session.run(None, {"input": images(1)})
    for wrong, kind in [
        ({"sessions": 0}, ValueError),
        ({"sess_options": object()}, TypeError),
        ({"wrong": 1}, TypeError),
    ]:
        with pytest.raises(kind):
            mobicuda.InferenceSession(mobilenet, **wrong)


def test_session_options(mobilenet, monkeypatch):
    asked = []

    def from_onnx(model, **options):
        asked.append(options.get("threads"))
        return whole(model, **options)

    whole = mobicuda.Engine.from_onnx
    monkeypatch.setattr(mobicuda.Engine, "from_onnx", staticmethod(from_onnx))
    cpu = {"providers": ["CPUExecutionProvider"]}
    for options, more in (
        (mobicuda.SessionOptions(), {}),
        (mobicuda.SessionOptions(intra_op_num_threads=2), {}),
        (mobicuda.SessionOptions(intra_op_num_threads=2), {"threads": 1}),  # what is named is what is meant
    ):
        mobicuda.InferenceSession(mobilenet, options, **cpu, **more)
    assert asked == [None, 2, 1]
    with pytest.raises(ValueError, match="intra_op_num_threads must be 0"):
        mobicuda.InferenceSession(mobilenet, mobicuda.SessionOptions(-1), **cpu)
    with pytest.raises(TypeError, match="sess_options must be SessionOptions"):
        mobicuda.InferenceSession(mobilenet, {"intra_op_num_threads": 1}, **cpu)


def test_onnx_runtimes_session_options(mobilenet, images):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = mobicuda.InferenceSession(mobilenet, options, providers=["CPUExecutionProvider"])
    peer = onnxruntime.InferenceSession(mobilenet, options, providers=["CPUExecutionProvider"])
    (given,), (wanted,) = (one.run(None, {"input": images(2)}) for one in (session, peer))
    assert np.linalg.norm(given - wanted) / np.linalg.norm(wanted) < 1e-4
    for name, value in (("enable_profiling", True), ("optimized_model_filepath", "optimised.onnx")):
        options = onnxruntime.SessionOptions()
        setattr(options, name, value)
        with pytest.raises(ValueError, match=f"sess_options.{name} is .* not supported"):
            mobicuda.InferenceSession(mobilenet, options, providers=["CPUExecutionProvider"])
