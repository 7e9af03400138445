#!/usr/bin/env python3
"""Times an ONNX file in JAX: the network as XLA compiles it, input and output on the device, many runs.

Modes:
  dispatch    jit, one call after the other, the host ahead of the GPU where it can be
  loop        one program that runs the network again and again, over two inputs in turn: without the host

JAX offers no events: times are wall time of many runs that end with the device idle, divided by how many they were. The
first output of each configuration is compared with onnx.reference, in fp32 on the CPU, before anything is timed. fp32 is
strict (matmul precision "highest"), tf32 is XLA's default on GPUs that have it.

Exit codes: 0 measured, 1 some configuration failed, 2 usage, 4 nothing could run.
"""
import argparse
import os
import pathlib
import sys
import time

import peer

MODES = ("dispatch", "loop")
PRECISIONS = ("fp16", "fp32", "tf32")
# As bench/peers/onnxruntime_peer.py.
MAX_RELATIVE_ERROR = {"fp16": 0.1, "tf32": 0.1, "fp32": 1e-4}
RUNS_OF_SAMPLE = 20
GUESSED_SECONDS = {"dispatch": 30, "loop": 30}  # of a configuration, before one of the mode was measured
LAYOUTS = ("NCHW", "OIHW", "NCHW")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=pathlib.Path, help="ONNX file, its batch open")
    parser.add_argument("--modes", type=peer.list_of(str, MODES), default=list(MODES), help=f"default {','.join(MODES)}")
    parser.add_argument("--network", help="its name in the document, default mobilenet_v2", default="mobilenet_v2")
    parser.add_argument("--cpu", action="store_true", help="on the CPU, fp32 only: to try the script")
    peer.add_common_options(parser, PRECISIONS, [1, 8, 32, 128, 256])
    arguments = peer.parse(parser)
    if arguments.cpu:
        arguments.precisions = ["fp32"]
    return arguments


class Network:
    """An ONNX graph as a function of its weights and its input."""

    def __init__(self, jax, onnx, model):
        self.lax, self.numpy = jax.lax, jax.numpy
        self.onnx, self.graph = onnx, model.graph
        self.input = peer.input_of(onnx, model)[0]
        self.weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        unknown = {node.op_type for node in self.graph.node if not hasattr(self, f"op_{node.op_type}")}
        if unknown:
            raise ValueError(f"this script does not know {', '.join(sorted(unknown))}")

    def __call__(self, weights, x):
        values = {**weights, self.input: x, "": None}
        for node in self.graph.node:
            attributes = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
            values[node.output[0]] = getattr(self, f"op_{node.op_type}")(
                [values[name] for name in node.input], attributes)
        return values[self.graph.output[0].name].astype("float32")

    @staticmethod
    def padding(attributes, axes=2):
        if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            raise ValueError("auto_pad is not supported")
        pads = attributes.get("pads", [0] * 2 * axes)
        return list(zip(pads[:axes], pads[axes:]))

    def op_Conv(self, inputs, attributes):
        x, weight, *bias = inputs
        y = self.lax.conv_general_dilated(
            x, weight, attributes.get("strides", [1, 1]), self.padding(attributes),
            rhs_dilation=attributes.get("dilations", [1, 1]), dimension_numbers=LAYOUTS,
            feature_group_count=attributes.get("group", 1))
        return y + bias[0][None, :, None, None] if bias else y

    def op_Clip(self, inputs, attributes):
        bounds = [*inputs[1:], None, None][:2] if len(inputs) > 1 else [attributes.get("min"), attributes.get("max")]
        return self.numpy.clip(inputs[0], *bounds)

    def op_Relu(self, inputs, _):
        return self.numpy.maximum(inputs[0], 0)

    def op_Add(self, inputs, _):
        return inputs[0] + inputs[1]

    def op_Identity(self, inputs, _):
        return inputs[0]

    def op_GlobalAveragePool(self, inputs, _):
        return inputs[0].mean(axis=(2, 3), keepdims=True)

    def op_Flatten(self, inputs, attributes):
        if attributes.get("axis", 1) != 1:
            raise ValueError("Flatten: only axis 1 is supported")
        return inputs[0].reshape(inputs[0].shape[0], -1)

    def op_Gemm(self, inputs, attributes):
        if attributes.get("transA", 0) or attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0:
            raise ValueError("Gemm: transA, alpha and beta are not supported")
        y = inputs[0] @ (inputs[1].T if attributes.get("transB", 0) else inputs[1])
        return y + inputs[2] if len(inputs) > 2 else y

    def op_MaxPool(self, inputs, attributes):
        window, strides = attributes["kernel_shape"], attributes.get("strides", [1, 1])
        if attributes.get("ceil_mode", 0):
            raise ValueError("MaxPool: ceil_mode is not supported")
        return self.lax.reduce_window(inputs[0], -self.numpy.inf, self.lax.max, (1, 1, *window), (1, 1, *strides),
                                      [(0, 0), (0, 0), *self.padding(attributes)])


class Bench:
    def __init__(self, arguments, jax, onnx):
        import numpy
        self.arguments, self.jax, self.numpy = arguments, jax, numpy
        model = onnx.load(str(arguments.model))
        self.network = Network(jax, onnx, model)
        self.extents = peer.input_of(onnx, model)[1]
        from onnx.reference import ReferenceEvaluator
        first = self.pictures(1)[:1]
        self.expected = ReferenceEvaluator(model).run(None, {self.network.input: first})[0].astype(numpy.float64)

    def pictures(self, batch):
        """The first one is the same for every batch."""
        shape = peer.shape_for(self.extents, batch)
        return self.numpy.random.default_rng(1).uniform(-1, 1, shape).astype(self.numpy.float32)

    def prepare(self, mode, precision, batch):
        """(sample, output): sample() runs RUNS_OF_SAMPLE times and waits, output() is the result for the pictures."""
        jax = self.jax
        kind = self.numpy.float16 if precision == "fp16" else self.numpy.float32
        device = jax.devices()[self.arguments.device]
        put = lambda array: jax.device_put(array.astype(kind) if array.dtype == self.numpy.float32 else array, device)
        weights = {name: put(array) for name, array in self.network.weights.items()}
        x = put(self.pictures(batch))
        with jax.default_matmul_precision("highest" if precision == "fp32" else "default"):
            run = jax.jit(self.network).lower(weights, x).compile()
        if mode == "dispatch":
            def sample():
                for _ in range(RUNS_OF_SAMPLE):
                    y = run(weights, x)
                y.block_until_ready()

            return sample, lambda: run(weights, x)

        def many(weights, inputs):
            def step(i, total):  # another input than the step before, so that nothing can be computed once for all
                one = jax.lax.dynamic_index_in_dim(inputs, i % 2, keepdims=False)
                return total + self.network(weights, one)
            return jax.lax.fori_loop(0, RUNS_OF_SAMPLE, step, jax.numpy.zeros((batch, self.expected.shape[1])))

        inputs = jax.numpy.stack([x, -x])
        with jax.default_matmul_precision("highest" if precision == "fp32" else "default"):
            loop = jax.jit(many).lower(weights, inputs).compile()
        return lambda: loop(weights, inputs).block_until_ready(), lambda: run(weights, x)

    def measure(self, mode, precision, batch, **_):
        """Statistics, and what else a row has. Raises RuntimeError when the output is not the network's."""
        started = time.monotonic()
        sample, output = self.prepare(mode, precision, batch)
        sample()
        prepared = time.monotonic() - started
        norm = self.numpy.linalg.norm
        error = float(norm(self.numpy.asarray(output())[:1] - self.expected) / norm(self.expected))
        if not error <= MAX_RELATIVE_ERROR[precision]:
            raise RuntimeError(f"the first output is off by {error:.3g} (relative L2) from onnx.reference")
        end = time.monotonic() + self.arguments.warm_up
        while time.monotonic() < end:
            sample()
        times = []
        while len(times) * RUNS_OF_SAMPLE < self.arguments.runs:
            before = time.perf_counter_ns()
            sample()
            times.append((time.perf_counter_ns() - before) / 1e3 / RUNS_OF_SAMPLE)
        statistics = {**peer.statistics_of(times), "runs": len(times) * RUNS_OF_SAMPLE}
        return statistics, {"prepare_seconds": prepared, "relative_l2_to_reference": error}


def configurations(arguments):
    for precision in arguments.precisions:
        for batch in arguments.batches:
            for mode in arguments.modes:
                yield {"network": arguments.network, "mode": mode, "precision": precision, "batch": batch}


def main():
    arguments = parse_arguments()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leaves the GPU's memory to others
    if arguments.cpu:
        os.environ["JAX_PLATFORMS"] = "cpu"
    document = peer.Document(arguments, "JAX", cpu=peer.cpu_name(), gpu=peer.gpu_name(arguments.device),
                             network=arguments.model.name)
    try:
        import jax
        import onnx
    except ImportError as error:
        document.absent("", f"{error.name} is not installed (pip install onnx 'jax[cuda13]')")
        return document.exit_code()
    document.tell(version=jax.__version__)
    if not arguments.cpu and jax.default_backend() != "gpu":
        document.absent("", f"this JAX runs on {jax.default_backend()} (pip install 'jax[cuda13]', or no CUDA device)")
        return document.exit_code()
    try:
        bench = Bench(arguments, jax, onnx)
    except Exception as error:  # a file that this script cannot run
        document.fail({"network": arguments.network, "mode": ""}, error)
        return document.exit_code()
    peer.measure_all(document, configurations(arguments), bench.measure, GUESSED_SECONDS, arguments.time_limit)
    return document.exit_code()


if __name__ == "__main__":
    sys.exit(main())
