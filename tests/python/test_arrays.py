"""How tensors of a device find their stream and memory: with stand-ins for PyTorch and CuPy, and no GPU."""

import contextlib
import sys
import types

import numpy as np
import pytest

from mobicuda import Session, _arrays


class Device(contextlib.nullcontext):
    def __init__(self, index):
        super().__init__()
        self.id = self.index = index

    def __eq__(self, other):
        return self.index == other.index

    def __hash__(self):
        return hash(self.index)


class Tensor:
    """Of a framework with a current stream."""

    def __init__(self, shape=(2, 1, 28, 28), device=0, device_type=2, old=False):
        self.shape, self.ndim, self.old = shape, len(shape), old
        self.device = Device(device)
        self.kind = device_type
        self.asked = []

    def __dlpack__(self, *, stream=None, **version):
        if self.old and version:
            raise TypeError("max_version")
        self.asked.append(stream)
        return self

    def __dlpack_device__(self):
        return self.kind, self.device.index


class CupyArray(Tensor):
    pass


@pytest.fixture
def frameworks(monkeypatch):
    """torch and cupy whose current stream is `frameworks.stream`, and which note on which stream they made tensors."""
    world = types.SimpleNamespace(stream=7, made=[], asked=0)

    @contextlib.contextmanager
    def on(stream):
        before, world.stream = world.stream, stream
        yield
        world.stream = before

    def empty(shape, **_):
        world.made.append((world.stream, shape))
        return (TorchTensor if world.torch else CupyArray)(shape)

    class TorchTensor(Tensor):
        pass

    world.torch, world.Torch = True, TorchTensor
    def current_stream(device):
        world.asked += 1
        return types.SimpleNamespace(cuda_stream=world.stream)

    cuda = types.SimpleNamespace(
        current_stream=current_stream,
        stream=on,
        ExternalStream=lambda handle, device: handle,
    )
    monkeypatch.setitem(
        sys.modules, "torch", types.SimpleNamespace(Tensor=TorchTensor, cuda=cuda, empty=empty, float32="f")
    )
    cupy = types.SimpleNamespace(
        get_current_stream=lambda device: types.SimpleNamespace(ptr=world.stream), ExternalStream=on
    )
    monkeypatch.setitem(
        sys.modules, "cupy", types.SimpleNamespace(ndarray=CupyArray, cuda=cupy, empty=empty, float32="f")
    )
    return world


@pytest.fixture
def session():
    """A session of a GPU engine whose native part notes what it is called with."""
    made = object.__new__(Session)
    made._torch_run = None  # DLPack's way
    calls = []
    made._engine = types.SimpleNamespace(backend="custom", output=types.SimpleNamespace(image_shape=(10,)))
    made._object = types.SimpleNamespace(
        run_device=lambda *arguments: calls.append(arguments), require_batch=lambda n: None
    )
    return types.SimpleNamespace(run=made.run, calls=calls)


def test_the_default_is_the_framework_s_stream(frameworks, session):
    x, out = frameworks.Torch(), frameworks.Torch((2, 10))
    assert session.run(x, out) is out
    assert session.calls == [(x, out, 7)] and x.asked == out.asked == [-1] and frameworks.asked == 1
    made = session.run(x)
    assert frameworks.made == [(7, (2, 10))] and session.calls[-1] == (x, made, 7)
    frameworks.stream = 0
    session.run(x, out)
    assert session.calls[-1][2] == 0 and x.asked[-1] == -1


def test_another_stream_waits_for_the_framework_s(frameworks, session):
    x, out = frameworks.Torch(), frameworks.Torch((2, 10))
    session.run(x, out, stream=9)
    assert session.calls == [(x, out, 9)] and x.asked == out.asked == [9]
    session.run(x, out, stream=0)  # DLPack calls the legacy default stream 1
    assert session.calls[-1][2] == 0 and x.asked[-1] == out.asked[-1] == 1
    made = session.run(x, stream=9)
    assert frameworks.made == [(9, (2, 10))] and frameworks.stream == 7 and session.calls[-1] == (x, made, 9)


def test_several_frameworks(frameworks, session):
    frameworks.torch = False
    x = CupyArray()
    made = session.run(x)
    assert session.calls == [(x, made, 7)] and frameworks.made == [(7, (2, 10))]
    made = session.run(x, stream=9)
    assert frameworks.made[-1] == (9, (2, 10)) and session.calls[-1] == (x, made, 9)
    other, out = Tensor(), frameworks.Torch((2, 10))
    session.run(other, out)  # the stream is that of the one that tells it
    assert session.calls[-1] == (other, out, 7) and other.asked == [7] and out.asked == [-1]
    old = Tensor(old=True)
    session.run(old, Tensor((2, 10), device_type=13))
    assert session.calls[-1][2] == 0 and old.asked == [1]


def test_what_is_refused(frameworks, session):
    x = frameworks.Torch()
    host = np.zeros((2, 10), np.float32)
    for arguments, text in [
        ((x, host), "out must be a tensor on a CUDA device, as the other one is, got ndarray"),
        ((host, x), "input must be a tensor on a CUDA device"),
        ((x, 3), "out must be a tensor"),
        ((Tensor(),), "out must be given with an input of .*Tensor"),
    ]:
        with pytest.raises(TypeError, match=text):
            session.run(*arguments)
    assert session.calls == []


@pytest.mark.parametrize(
    "stream, handle",
    [
        (5, 5),
        (0, 0),
        (types.SimpleNamespace(__cuda_stream__=lambda: (0, 8)), 8),
        (types.SimpleNamespace(cuda_stream=3), 3),
        (types.SimpleNamespace(ptr=4), 4),
    ],
)
def test_handles(stream, handle):
    assert _arrays.stream_handle(stream) == handle


@pytest.mark.parametrize(
    "stream, kind",
    [
        ("5", TypeError),
        (1.0, TypeError),
        (True, TypeError),
        (object(), TypeError),
        (-1, ValueError),
        (2**64, ValueError),
    ],
)
def test_what_is_no_handle(stream, kind):
    with pytest.raises(kind, match="stream must be"):
        _arrays.stream_handle(stream)


class _Torch(types.ModuleType):
    """As much of PyTorch as a plain run looks at."""

    float32, uint8, float64, strided, sparse = "float32", "uint8", "float64", "strided", "sparse"

    class Tensor:
        def __init__(self, shape, dtype="float32", device=0, **other):
            self.shape, self.dtype, self.device = shape, dtype, device
            self.layout, self.requires_grad, self.dense, self.negative = "strided", False, True, False
            vars(self).update(other)

        def get_device(self):
            return self.device

        def is_contiguous(self):
            return self.dense

        def is_neg(self):
            return self.negative

        def data_ptr(self):
            return 16 * len(self.shape)


@pytest.mark.parametrize("raw", [True, False])
def test_plain_tensors_of_pytorch_are_known_at_once(engine, monkeypatch, raw):
    torch = _Torch("torch")
    torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 7 + device) if raw else None
    torch.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=7 + device))
    monkeypatch.setitem(sys.modules, "torch", torch)
    run = _arrays.TorchRun(engine)
    image, output = engine.input.image_shape, engine.output.image_shape
    assert run.accepts(torch.Tensor((2, *image)), torch.Tensor((2, *output))) == (64, 32, 2, 7)

    class Derived(torch.Tensor):
        pass

    good = {"shape": (2, *image)}, {"shape": (2, *output)}
    for i, wrong in [
        (0, {"dtype": "float64"}),
        (1, {"dtype": "uint8"}),
        (0, {"device": 1}),
        (1, {"device": -1}),
        (0, {"requires_grad": True}),
        (1, {"dense": False}),
        (0, {"negative": True}),
        (1, {"layout": "sparse"}),
        (0, {"shape": ()}),
        (0, {"shape": image}),
        (0, {"shape": (0, *image)}),
        (0, {"shape": (engine.max_batch + 1, *image)}),
        (1, {"shape": (1, *output)}),
    ]:
        given = [torch.Tensor(**{**good[k], **(wrong if k == i else {})}) for k in range(2)]
        assert run.accepts(*given) is None, (i, wrong)
    assert run.accepts(Derived(**good[0]), torch.Tensor(**good[1])) is None
    assert run.accepts(torch.Tensor(**good[0]), None) is None
    assert run.accepts(np.zeros((2, *image), np.float32), torch.Tensor(**good[1])) is None
    assert run.accepts(*(torch.Tensor(**one) for one in good)) is not None
    monkeypatch.delitem(sys.modules, "torch")
    assert _arrays.TorchRun(engine).accepts(*(torch.Tensor(**one) for one in good)) is None
