"""PyTorch's modules as engines, where PyTorch is installed."""

import copy
import pickle

import numpy as np
import pytest

import mobicuda
from conftest import in_threads

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from mobicuda.torch import compile_module, dynamo_backend  # noqa: E402


def network(*more):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8),
        nn.ReLU6(),
        nn.Conv2d(8, 16, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
        *more,
    ).eval()


@pytest.fixture
def example():
    return torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def assert_same(given, wanted):
    assert given.shape == wanted.shape and given.dtype == wanted.dtype
    assert (given - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_a_module(example):
    module = network()
    compiled = compile_module(module, example[:1], backend="cpu", max_batch=2)
    with torch.no_grad():
        wanted = module(example)
    assert_same(compiled(example), wanted)  # in two parts
    assert_same(compiled(example.to(memory_format=torch.channels_last)), wanted)
    assert not compiled.training and compiled.eval() is compiled and "cpu fp32" in repr(compiled)
    half = copy.deepcopy(module).to(torch.float64)
    assert_same(compile_module(half, example.double(), backend="cpu")(example.double()).float(), wanted)
    results = in_threads(8, lambda _: compiled(example))
    assert all(torch.equal(result, results[0]) for result in results)


def test_what_is_refused(example):
    compiled = compile_module(network(), example, backend="cpu")
    for call, kind, text in [
        (lambda: compiled(example.double()), TypeError, "as the example was, got torch.float64"),
        (lambda: compiled(example.clone().requires_grad_()), RuntimeError, "no_grad"),
        (lambda: compiled(example[:, :, 1:]), ValueError, "got shape"),
        (lambda: compiled.train(), RuntimeError, "inference"),
        (lambda: compile_module(network().train(), example), ValueError, r"module.eval\(\)"),
        (lambda: compile_module(network(), [1]), TypeError, "example must be a tensor"),
        (
            lambda: compile_module(network(torch.nn.GELU(), torch.nn.Softplus()), example),
            mobicuda.UnsupportedError,
            "lacks: Erf, Softplus",
        ),
        (lambda: pickle.dumps(compiled), TypeError, "cannot be copied or pickled"),
        (lambda: copy.deepcopy(compiled), TypeError, "cannot be copied or pickled"),
    ]:
        with pytest.raises(kind, match=text):
            call()


def test_dynamo_s_backend(example):
    """As TorchDynamo calls it: with a graph, whose weights may be inputs of it."""
    module = network()
    with torch.no_grad():
        wanted = module(example)
        graph = torch.fx.symbolic_trace(module)
        output = next(node for node in graph.graph.nodes if node.op == "output")
        output.args = ((output.args[0],),)
        graph.recompile()
        assert_same(dynamo_backend(graph, [example], options={"backend": "cpu"})(example)[0], wanted)

        class WithWeights(torch.nn.Module):
            def forward(self, weight, x):
                return (torch.nn.functional.conv2d(x, weight).relu(),)

        weight = torch.nn.Parameter(torch.randn(4, 3, 1, 1))
        graph = torch.fx.symbolic_trace(WithWeights())
        run = dynamo_backend(graph, [weight, example], options={"backend": "cpu"})
        assert_same(run(weight, example)[0], torch.nn.functional.conv2d(example, weight).relu())
        with pytest.raises(mobicuda.UnsupportedError, match="maps 2 to 1"):
            dynamo_backend(graph, [example[:, :, :1, :1], example])
    with pytest.raises(mobicuda.UnsupportedError, match="no gradients"):
        dynamo_backend(graph, [weight, example])


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="this PyTorch has no torch.compile")
def test_torch_compile(example):
    module = network()
    compiled = torch.compile(module, backend=dynamo_backend, options={"backend": "cpu"})
    with torch.no_grad():
        assert_same(compiled(example), module(example))


def test_tensors_of_pytorch_in_a_session(small):
    session = small.create_session()
    x = torch.randn(2, 1, 28, 28)
    out = torch.zeros(2, 10)
    assert session.run(x, out) is out
    np.testing.assert_array_equal(out.numpy(), session.run(x.numpy()))
    with pytest.raises(TypeError, match="requires grad"):
        session.run(x.requires_grad_())
    with pytest.raises(ValueError, match="got shape"):
        session.run(torch.zeros(2, 28, 28))
