"""Engines: values against ONNX Runtime and NumPy, options, descriptions, plans."""

import copy
import dataclasses
import gc
import os
import pickle
import subprocess
import weakref

import numpy as np
import pytest

import mobicuda


def relative_l2(given, wanted):
    return np.linalg.norm(given.astype(np.float64) - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("precision, bound", [("fp32", 5e-5), ("fp64", 5e-5)])
def test_values_are_those_of_onnx_runtime(mobilenet, images, precision, bound):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    x = images(3)
    wanted = onnxruntime.InferenceSession(mobilenet).run(None, {"input": x})[0]
    engine = mobicuda.Engine.from_onnx(mobilenet, backend="cpu", precision=precision, max_batch=3)
    assert relative_l2(engine.create_session().run(x), wanted) < bound


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_values_are_those_of_a_c_plus_plus_program(mobilenet, images, tmp_path, precision):
    """bench_engine runs the same engine: bit for bit."""
    program = os.environ.get("MOBICUDA_BENCH_ENGINE")
    if not program:
        pytest.skip("bench_engine is not built")
    np.save(tmp_path / "in.npy", images(3))
    options = f"--impl cpu --precision {precision} --batch 3 --threads 2 --duration 0 --iterations 1 --warmUp 0".split()
    subprocess.run(
        [program, "--model", mobilenet, *options, "--loadInputs", "in.npy", "--saveOutputs", "out.npy"],
        cwd=tmp_path, check=True, stdout=subprocess.DEVNULL,
    )
    engine = mobicuda.Engine.from_onnx(mobilenet, backend="cpu", precision=precision, max_batch=3, threads=2)
    np.testing.assert_array_equal(engine.create_session().run(images(3)), np.load(tmp_path / "out.npy"))


def test_probabilities(write_model, images):
    path = write_model("--width", "0.35", "--resolution", "32", "--blocks", "1", "--classes", "5", "--softmax")
    y = mobicuda.Engine.from_onnx(path, backend="cpu", max_batch=2).create_session().run(images(2, 3, 32, 32))
    np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-6)
    assert y.shape == (2, 5) and (y > 0).all()


def test_path_pathlike_and_bytes_give_the_same_bits(mobilenet, images):
    x = images(1)
    made = [
        mobicuda.Engine.from_onnx(model, backend="cpu")
        for model in (str(mobilenet), mobilenet, mobilenet.read_bytes(), bytearray(mobilenet.read_bytes()))
    ]
    first, *others = [engine.create_session().run(x) for engine in made]
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_description(engine):
    assert (engine.backend, engine.precision, engine.max_batch, engine.device) == ("cpu", "fp32", 4, 0)
    assert engine.input == mobicuda.TensorInfo("input", np.dtype("float32"), (None, 3, 96, 96), "NCHW")
    assert engine.output == mobicuda.TensorInfo("output", np.dtype("float32"), (None, 1000), "")
    assert engine.inputs == [engine.input] and engine.outputs == [engine.output]
    assert engine.input.image_shape == (3, 96, 96)
    assert engine.picture_input is None and engine.upload_ms == 0
    memory = engine.memory
    assert memory.total == sum(dataclasses.astuple(memory)) and min(dataclasses.astuple(memory)) > 0
    layers = engine.layers()
    assert layers == engine.layers(1)
    assert layers[-1].value == "output" and layers[-1].output == (1, 1000)
    assert sum(layer.flops for layer in layers) > 1e6
    assert "MobileNet" not in repr(engine) and "cpu fp32" in repr(engine)
    with pytest.raises(mobicuda.InvalidArgumentError, match="must be 1 to 4"):
        engine.layers(5)


def test_auto_says_what_it_chose(lenet):
    told = []
    engine = mobicuda.Engine.from_onnx(lenet, log=lambda level, text: told.append((level, text)))
    usable = mobicuda.devices()[0].usable
    assert engine.backend == ("custom" if usable else "cpu")
    chosen = [entry for entry in told if entry[1].startswith("backend auto: the " + engine.backend)]
    assert [level for level, _ in chosen] == ["info" if usable else "warning"]


def test_precision_never_changes_by_itself(lenet):
    if mobicuda.devices()[0].usable:
        assert mobicuda.Engine.from_onnx(lenet, precision="fp16").precision == "fp16"
    else:
        with pytest.raises(mobicuda.UnsupportedError, match="fp16.*backend 'auto' chose the cpu engine"):
            mobicuda.Engine.from_onnx(lenet, precision="fp16")


def test_picture_input(mobilenet, images):
    given = mobicuda.PictureInput.tf()
    engine = mobicuda.Engine.from_onnx(mobilenet, backend="cpu", max_batch=2, picture_input=given)
    assert engine.input == mobicuda.TensorInfo("input", np.dtype("uint8"), (None, 96, 96, 3), "NHWC")
    np.testing.assert_allclose(engine.picture_input, given, rtol=1e-6)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 96, 96, 3), np.uint8)
    floats = pixels.astype(np.float32) * np.float32(1 / 127.5) + np.float32(-1)
    plain = mobicuda.Engine.from_onnx(mobilenet, backend="cpu", max_batch=2)
    wanted = plain.create_session().run(floats.transpose(0, 3, 1, 2))
    assert relative_l2(engine.create_session().run(pixels), wanted) < 1e-6
    with pytest.raises(TypeError, match="must be uint8 of shape"):
        engine.create_session().run(images(2))
    torch = mobicuda.PictureInput.torch()
    np.testing.assert_allclose(
        (0.25 - np.array([0.485, 0.456, 0.406])) / [0.229, 0.224, 0.225],
        np.array(torch.scale) * 63.75 + torch.shift,
        rtol=1e-12,
    )


def test_plans_keep_the_engine(engine, tmp_path, images):
    wanted = engine.create_session().run(images(4))
    engine.save(tmp_path / "engine.plan")
    plan = engine.serialize()
    assert plan == (tmp_path / "engine.plan").read_bytes()
    for restored in (
        mobicuda.Engine.load(tmp_path / "engine.plan", threads=1),
        mobicuda.Engine.deserialize(plan),
        mobicuda.Engine.deserialize(memoryview(plan)),
    ):
        assert (restored.input, restored.output, restored.max_batch) == (engine.input, engine.output, 4)
        np.testing.assert_array_equal(restored.create_session().run(images(4)), wanted)
    with pytest.raises(TypeError, match="precision"):
        mobicuda.Engine.load(tmp_path / "engine.plan", precision="fp64")
    with pytest.raises(TypeError, match="Engine.load"):
        mobicuda.Engine.deserialize(str(tmp_path / "engine.plan"))


@pytest.mark.parametrize(
    "options, kind, text",
    [
        ({"backend": "gpu"}, ValueError, "backend must be one of 'auto', 'custom', 'cpu', got 'gpu'"),
        ({"backend": 1}, TypeError, "backend must be a str, got int"),
        ({"precision": "fp8"}, ValueError, "precision must be one of 'fp32', 'fp32_split', 'fp16', 'fp64', got 'fp8'"),
        ({"max_batch": "8"}, TypeError, "max_batch must be an int, got str"),
        ({"max_batch": True}, TypeError, "max_batch must be an int, got bool"),
        ({"max_batch": 0}, ValueError, "max_batch must be 1 to"),
        ({"max_batch": 2**70}, ValueError, "max_batch must be 1 to"),
        ({"max_batch": 2**40}, mobicuda.InvalidArgumentError, "max_batch: must be 1 to 65536"),
        ({"device": -1}, ValueError, "device must be 0 to"),
        ({"threads": 1.5}, TypeError, "threads must be an int, got float"),
        ({"cuda_graph": 1}, TypeError, "cuda_graph must be a bool, got int"),
        ({"picture_input": 3}, TypeError, "picture_input must be a PictureInput"),
        ({"picture_input": ((1, 1), (0, 0, 0))}, TypeError, "picture_input.scale must be three numbers"),
        ({"picture_shape": "3"}, TypeError, "picture_shape must be a sequence of ints, got str"),
        ({"plan_batches": [0]}, ValueError, r"plan_batches\[0\] must be 1 to"),
        ({"kernel_variants": [1]}, TypeError, "kernel_variants must map"),
        ({"kernel_variants": {"gemm": 1}}, TypeError, r"kernel_variants\['gemm'\] must be a str"),
        ({"timing_cache": 5}, TypeError, "timing_cache must be a path"),
        ({"code_cache": None}, TypeError, "code_cache must be a path"),
        ({"host_transfer": "fast"}, ValueError, "host_transfer must be one of 'auto', 'copy', 'direct'"),
        ({"specialise": "no"}, ValueError, "specialise must be one of"),
        ({"log": 3}, TypeError, "log must be callable"),
        ({"batch": 3}, TypeError, "batch"),
    ],
)
def test_wrong_options_are_named(lenet, options, kind, text):
    with pytest.raises(kind, match=text):
        mobicuda.Engine.from_onnx(lenet, **{"backend": "cpu", **options})


def test_what_is_no_model():
    with pytest.raises(TypeError, match="model must be a path"):
        mobicuda.Engine.from_onnx(3)
    with pytest.raises(ValueError, match="null character"):
        mobicuda.Engine.from_onnx("a\0b")
    with pytest.raises(TypeError, match="Engine.from_onnx"):
        mobicuda.Engine()
    with pytest.raises(TypeError, match="engine must be a mobicuda.Engine"):
        mobicuda.Session("engine")


def test_copies_are_refused_with_the_remedy(engine):
    session = engine.create_session()
    for refused in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="serialize"):
            refused(engine)
        with pytest.raises(TypeError, match="one from the engine for each thread"):
            refused(session)


def test_the_log_is_not_kept(lenet):
    class Log:
        def __call__(self, level, text):
            pass

    log = Log()
    gone = weakref.ref(log)
    engine = mobicuda.Engine.from_onnx(lenet, log=log)
    del log
    gc.collect()
    assert gone() is None
    assert engine.max_batch == 1


@pytest.mark.parametrize("raised", [ValueError("of the log"), KeyboardInterrupt()])
def test_what_a_log_raises_is_raised(lenet, raised):
    if mobicuda.devices()[0].usable:
        pytest.skip("the library has nothing to warn of")
    calls = []

    def log(level, text):
        calls.append(text)
        raise raised

    with pytest.raises(type(raised)) as caught:
        mobicuda.Engine.from_onnx(lenet, log=log)
    assert caught.value is raised and len(calls) == 1
    with pytest.raises(type(raised)):  # also where the library fails behind it
        mobicuda.Engine.from_onnx(lenet, log=log, precision="fp16")
    assert mobicuda.Engine.from_onnx(lenet, backend="cpu").backend == "cpu"
