"""Runs: what arrays are taken, staged memory, times, closing, threads."""

import gc
import statistics
import threading
import time

import numpy as np
import pytest

import mobicuda
from mobicuda import _native
from conftest import in_threads


@pytest.fixture
def session(engine):
    with engine.create_session() as session:
        yield session


def test_run_gives_each_image_its_own_result(session, images):
    x = images(4)
    whole = session.run(x)
    assert whole.shape == (4, 1000) and whole.dtype == np.float32 and whole.flags.owndata and whole.flags.writeable
    for i in range(4):
        np.testing.assert_array_equal(session.run(x[i : i + 1])[0], whole[i])


def test_layouts_of_numpy_are_copied(session, images):
    x = images(2)
    wanted = session.run(x)
    wide = np.zeros((4, 3, 96, 192), np.float32)
    wide[::2, :, :, ::2] = x
    read_only = x.copy()
    read_only.flags.writeable = False
    turned = np.ascontiguousarray(x[::-1])[::-1]
    for given in (
        wide[::2, :, :, ::2],
        np.asfortranarray(x),
        read_only,
        turned,
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    ):
        np.testing.assert_array_equal(session.run(given), wanted)
    np.testing.assert_array_equal(session.run(np.broadcast_to(x[:1], (2, 3, 96, 96))), np.repeat(wanted[:1], 2, 0))


def test_other_dlpack_tensors_of_the_host(session, images):
    class Tensor:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **arguments):
            return self.array.__dlpack__(**arguments)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    x = images(2)
    out = np.zeros((2, 1000), np.float32)
    given = Tensor(out)
    assert session.run(Tensor(x), given) is given
    np.testing.assert_array_equal(out, session.run(x))
    assert isinstance(session.run(Tensor(x)), np.ndarray)
    with pytest.raises(TypeError, match="float64"):
        session.run(Tensor(x.astype(np.float64)))


def test_out(session, images):
    x = images(3)
    out = np.zeros((3, 1000), np.float32)
    assert session.run(x, out) is out
    np.testing.assert_array_equal(out, session.run(x))
    part = np.zeros((9, 1000), np.float32)
    session.run(x, part[3:6])
    np.testing.assert_array_equal(part[3:6], out)
    assert not part[:3].any() and not part[6:].any()


@pytest.mark.parametrize(
    "change, kind, text",
    [
        (lambda x: x.astype(np.float64), TypeError, r"input must be float32 of shape \(n, 3, 96, 96\), got float64"),
        (lambda x: x.astype(np.float16), TypeError, "got float16"),
        (lambda x: x.astype(np.int8), TypeError, "got int8"),
        (lambda x: x.astype(np.uint8), TypeError, "got uint8"),
        (lambda x: x > 0, TypeError, "got bool"),
        (lambda x: x.astype(np.complex64), TypeError, "got complex64"),
        (lambda x: x.astype(">f4"), TypeError, "got ndarray, dtype >f4"),
        (lambda x: x.astype(object), TypeError, "dtype object"),
        (lambda x: x.astype("U3"), TypeError, "dtype <U3"),
        (lambda x: x.astype("M8[s]"), TypeError, "datetime64"),
        (lambda x: x.view([("a", "f4")]), TypeError, "dtype"),
        (lambda x: x[0], ValueError, r"got shape \(3, 96, 96\); x\[None\] adds the axis"),
        (lambda x: x[:0], ValueError, r"got shape \(0, 3, 96, 96\)"),
        (lambda x: x[..., :95], ValueError, r"got shape \(2, 3, 96, 95\)"),
        (lambda x: x.transpose(0, 2, 3, 1), ValueError, r"got shape \(2, 96, 96, 3\)"),
        (lambda x: x[..., None], ValueError, r"got shape \(2, 3, 96, 96, 1\)"),
        (lambda x: np.float32(3), TypeError, "must be a NumPy array"),
        (lambda x: np.array(3, np.float32), ValueError, r"got shape \(\)"),
        (lambda x: np.zeros((1,) * 40, np.float32), ValueError, r"got shape \(1, 1"),
        (lambda x: np.repeat(x, 3, 0), mobicuda.InvalidArgumentError, "must be 1 to 4, got 6"),
        (lambda x: np.broadcast_to(x[:1], (2**40, 3, 96, 96)), mobicuda.InvalidArgumentError, "must be 1 to 4"),
        (lambda x: x.tolist(), TypeError, "got list"),
        (lambda x: None, TypeError, "got NoneType"),
        (lambda x: b"bytes", TypeError, "got bytes"),
        (lambda x: object(), TypeError, "got object"),
    ],
)
def test_wrong_inputs_are_told(session, images, change, kind, text):
    with pytest.raises(kind, match=text):
        session.run(change(images(2)))
    assert session.run(images(1)).shape == (1, 1000)


def test_wrong_outs_are_told(session, images):
    x = images(2)
    read_only = np.zeros((2, 1000), np.float32)
    read_only.flags.writeable = False
    for out, kind, text in [
        (read_only, ValueError, "out is read-only"),
        (np.zeros((3, 1000), np.float32), ValueError, "as many images as input, 2, got 3"),
        (np.zeros((2, 1000)), TypeError, "out must be float32 of shape .*got float64"),
        (np.zeros((2, 2000), np.float32)[:, ::2], ValueError, "without gaps"),
        (np.zeros((1000, 2), np.float32).T, ValueError, "without gaps"),
        (np.zeros((2, 1001), np.float32), ValueError, "got shape"),
        ([0], TypeError, "out must be a NumPy array"),
    ]:
        before = np.copy(out)
        with pytest.raises(kind, match=text):
            session.run(x, out)
        np.testing.assert_array_equal(out, before)


def test_what_is_on_a_device_is_refused_by_the_cpu_engine(session, images):
    class OnDevice:
        ndim = 4
        shape = (2, 3, 96, 96)

        def __dlpack__(self, **_):
            raise AssertionError("must not be asked")

        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(TypeError, match="cpu engine takes arrays in host memory"):
        session.run(OnDevice())
    with pytest.raises(TypeError, match="cpu engine takes arrays in host memory"):
        session.run(images(2), OnDevice())
    with pytest.raises(TypeError, match="stream is for tensors on a CUDA device"):
        session.run(images(2), stream=0)

    class CudaArrayInterface:
        __cuda_array_interface__ = {}

    with pytest.raises(TypeError, match="cupy.asarray"):
        session.run(CudaArrayInterface())

    class Broken:
        def __dlpack__(self, **_):
            raise BufferError("no")

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(TypeError, match="cannot be read as a NumPy array: no"):
        session.run(Broken())


def test_staged_runs(engine, images):
    x = images(3)
    session = engine.create_session()
    wanted = session.run(x)
    staged = session.staged_input(3)
    assert staged.shape == (3, 3, 96, 96) and staged.dtype == np.float32
    staged[:] = x
    output = session.run_staged(3)
    np.testing.assert_array_equal(output, wanted)
    assert not output.flags.writeable and not output.flags.owndata
    session.enqueue_staged(2)
    session.synchronize()
    np.testing.assert_array_equal(session.staged_output(2), wanted[:2])
    for n in (0, 5):
        with pytest.raises(ValueError):
            session.staged_input(n)
    # Views keep the memory that they show.
    session.close()
    del session
    gc.collect()
    staged[:] = 1
    np.testing.assert_array_equal(output, wanted)


def test_staged_pictures(mobilenet):
    engine = mobicuda.Engine.from_onnx(mobilenet, backend="cpu", picture_input=mobicuda.PictureInput(), max_batch=2)
    pixels = np.random.default_rng(1).integers(0, 256, (2, 96, 96, 3), np.uint8)
    with engine.create_session() as session:
        staged = session.staged_input(2)
        assert staged.shape == (2, 96, 96, 3) and staged.dtype == np.uint8
        staged[:] = pixels
        np.testing.assert_array_equal(session.run_staged(2).copy(), session.run(pixels))


def test_times(session, engine):
    times = session.time(2, iterations=5, runs=2)
    assert len(times) == 5 and min(times) > 0
    for mode in ("as_run", "serialized"):
        profiled = session.profile(2, iterations=2, mode=mode)
        assert len(profiled.layers) == len(engine.layers(2)) and profiled.whole > 0
    session.warm_up()
    session.warm_up([1, 3])
    for wrong in (
        lambda: session.time(0),
        lambda: session.time(iterations=0),
        lambda: session.profile(mode="wrong"),
        lambda: session.warm_up([9]),
        lambda: session.time(5),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_a_closed_session_says_so(engine, images):
    with engine.create_session() as session:
        assert not session.closed and session.engine is engine
    assert session.closed and repr(session).endswith("closed>")
    session.close()
    for call in (
        lambda: session.run(images(1)),
        lambda: session.staged_input(1),
        lambda: session.time(),
        session.synchronize,
        session.warm_up,
    ):
        with pytest.raises(mobicuda.InvalidArgumentError, match="session: is closed"):
            call()


def test_the_gil_is_released(engine):
    """While one thread is in a long call, another gets on."""
    session = engine.create_session()
    iterations = int(1000 / statistics.median(session.time(4, iterations=5))) + 1  # a second, or more beside others
    begun, ended = threading.Event(), threading.Event()

    def run():
        begun.set()
        session.time(4, iterations=iterations)
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    turns = 0
    while not ended.is_set():
        time.sleep(0.01)
        turns += 1
    thread.join()
    # With the lock held throughout, a turn may begin before the call and one end behind it.
    assert turns > 5


def test_a_session_refuses_a_second_thread(engine):
    session = engine.create_session()
    inside = threading.Event()
    refused = []

    def run():
        inside.set()
        session.time(4, iterations=400)

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait()
    while thread.is_alive() and not refused:
        try:
            session.synchronize()
        except mobicuda.InvalidArgumentError as error:
            refused.append(error)
    thread.join()
    assert "in use by another thread" in str(refused[0])


def test_closing_lets_a_run_end(engine):
    session = engine.create_session()
    inside = threading.Event()
    times = []

    def run():
        inside.set()
        times.extend(session.time(4, iterations=50))

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait()
    session.close()
    thread.join()
    assert len(times) in (0, 50)


def test_many_threads_with_sessions_of_their_own(engine, images):
    x = [images(4) + i for i in range(8)]
    single = engine.create_session()
    wanted = [single.run(batch) for batch in x]

    def run(i):
        with engine.create_session() as session:
            for _ in range(5):
                np.testing.assert_array_equal(session.run(x[i]), wanted[i])

    in_threads(8, run)


def test_capsules(session, images):
    """What tensors of a device arrive as in the native module: here of the host's memory."""
    x, out = images(2), np.zeros((2, 1000), np.float32)
    for version in ({}, {"max_version": (1, 0)}):
        out[:] = 0
        session._object.run_host(x.__dlpack__(**version), out.__dlpack__(**version))
        np.testing.assert_array_equal(out, session.run(x))
    used = x.__dlpack__()
    session._object.run_host(used, out)
    with pytest.raises(TypeError, match="got PyCapsule"):
        session._object.run_host(used, out)
    with pytest.raises(TypeError, match="got float64 of shape"):
        session._object.run_host(x.astype(np.float64).__dlpack__(), None)
    on_device = _native.capsule_of_pointer(4096, x.shape, "float32", 2, 3)
    with pytest.raises(TypeError, match="input must be in host memory, got cuda:3"):
        session._object.run_host(on_device, None)
    on_device = _native.capsule_of_pointer(4096, out.shape, "float32", 13, 0)
    with pytest.raises(TypeError, match="out must be in host memory, got managed memory"):
        session._object.run_host(x, on_device)
