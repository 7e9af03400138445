#!/usr/bin/env python3
"""Times an ONNX file in ONNX Runtime, the way bench_engine times ours: input and output in place, many runs.

Modes:
  cpu         CPU provider, fp32
  cuda        CUDA provider, input and output bound to device memory
  cuda-graph  the same, captured into one CUDA graph by the provider

ONNX Runtime offers no events: times are wall time of a run that ends with the device idle, so that launching is in them.
Outputs are compared with those of the CPU provider before anything is timed. fp32 on CUDA is strict (use_tf32=0).

Exit codes: 0 measured (modes that this machine lacks are named), 1 some configuration failed, 2 usage, 4 nothing could
run.
"""
import argparse
import importlib
import pathlib
import sys
import time

import peer

MODES = ("cpu", "cuda", "cuda-graph")
PRECISIONS = ("fp16", "fp32", "tf32")
CPU_PRECISIONS = ("fp32",)
# Half precision rounds each of some 50 layers to 2^-11; a wrong network is off by 1. As bench/peers/pytorch.py.
MAX_RELATIVE_ERROR = {"fp16": 0.1, "tf32": 0.1, "fp32": 1e-4}
CUDA = "CUDAExecutionProvider"
GUESSED_SECONDS = {"cpu": 10, "cuda": 60, "cuda-graph": 60}  # of a configuration, before one of the mode was measured


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=pathlib.Path, help="ONNX file, its batch open")
    parser.add_argument("--modes", type=peer.list_of(str, MODES), default=list(MODES), help=f"default {','.join(MODES)}")
    parser.add_argument("--network", help="its name in the document, default mobilenet_v2", default="mobilenet_v2")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU provider, default one for each core")
    parser.add_argument("--cpu-batches", type=peer.list_of(int), default=[1, 8, 32], help="of mode cpu, default 1,8,32")
    parser.add_argument("--seconds", type=float, default=5, help="mode cpu ends after so long, whatever --runs; default 5")
    peer.add_common_options(parser, PRECISIONS, [1, 8, 32, 128, 256])
    arguments = peer.parse(parser)
    return arguments


def half_precision(model):
    """The network with half-precision weights and activations; input and output stay float, as in ours."""
    from onnxruntime.transformers.float16 import convert_float_to_float16
    return convert_float_to_float16(model, keep_io_types=True)


class Bench:
    def __init__(self, arguments):
        import numpy
        import onnx
        import onnxruntime
        self.arguments = arguments
        self.numpy, self.onnx, self.ort = numpy, onnx, onnxruntime
        self.model = onnx.load(str(arguments.model))
        self.input, self.extents = peer.input_of(onnx, self.model)
        self.expected = {}

    def session(self, model, provider, options):
        settings = self.ort.SessionOptions()
        settings.log_severity_level = 3
        settings.intra_op_num_threads = self.arguments.threads
        session = self.ort.InferenceSession(model.SerializeToString(), settings, providers=[(provider, options)])
        if session.get_providers()[0] != provider:
            raise RuntimeError(f"{provider} could not be loaded: its CUDA or cuDNN libraries are missing")
        return session

    def picture(self, batch):
        shape = peer.shape_for(self.extents, batch)
        return self.numpy.random.default_rng(1).uniform(-1, 1, shape).astype(self.numpy.float32)

    def exact(self, batch):
        if batch not in self.expected:
            self.expected[batch] = self.session(self.model, "CPUExecutionProvider", {}).run(
                None, {self.input: self.picture(batch)})[0]
        return self.expected[batch]

    def prepare(self, mode, precision, batch):
        """(run, output): run() is one inference, output() gives the latest result."""
        picture = self.picture(batch)
        if mode == "cpu":
            session = self.session(self.model, "CPUExecutionProvider", {})
            latest = [None]

            def run():
                latest[0] = session.run(None, {self.input: picture})[0]

            return run, lambda: latest[0]
        options = {"device_id": str(self.arguments.device), "use_tf32": "1" if precision == "tf32" else "0",
                   "cudnn_conv_algo_search": "EXHAUSTIVE",
                   "enable_cuda_graph": "1" if mode == "cuda-graph" else "0"}
        model = half_precision(self.onnx.load(str(self.arguments.model))) if precision == "fp16" else self.model
        session = self.session(model, CUDA, options)
        binding = session.io_binding()
        device = self.arguments.device
        result = self.ort.OrtValue.ortvalue_from_shape_and_type(
            [batch, *self.exact(batch).shape[1:]], self.numpy.float32, "cuda", device)
        binding.bind_ortvalue_input(self.input, self.ort.OrtValue.ortvalue_from_numpy(picture, "cuda", device))
        binding.bind_ortvalue_output(session.get_outputs()[0].name, result)
        return lambda: session.run_with_iobinding(binding), result.numpy

    def time_runs(self, run, cpu):
        end = time.monotonic() + self.arguments.warm_up
        while time.monotonic() < end:
            run()
        times, started = [], time.monotonic()
        while len(times) < self.arguments.runs:
            if cpu and times and time.monotonic() - started > self.arguments.seconds:
                break
            before = time.perf_counter_ns()
            run()
            times.append((time.perf_counter_ns() - before) / 1e3)
        return peer.statistics_of(times)

    def measure(self, mode, precision, batch, **_):
        """Statistics, and what else a row has. Raises RuntimeError when the output is not the network's."""
        started = time.monotonic()
        run, output = self.prepare(mode, precision, batch)
        for _ in range(3):  # the algorithm search, and the capture of a graph
            run()
        prepared = time.monotonic() - started
        expected = self.exact(batch)
        norm = self.numpy.linalg.norm
        error = float(norm(output().astype(self.numpy.float64) - expected) / norm(expected))
        if not error <= MAX_RELATIVE_ERROR[precision]:
            raise RuntimeError(f"outputs are off by {error:.3g} (relative L2) from the CPU provider's")
        return self.time_runs(run, mode == "cpu"), {"prepare_seconds": prepared, "relative_l2_to_cpu_fp32": error}


def configurations(arguments, modes):
    for mode in modes:
        cpu = mode == "cpu"
        for precision in [p for p in arguments.precisions if not cpu or p in CPU_PRECISIONS]:
            for batch in arguments.cpu_batches if cpu else arguments.batches:
                yield {"network": arguments.network, "mode": mode, "precision": precision, "batch": batch}


def main():
    arguments = parse_arguments()
    document = peer.Document(arguments, "ONNX Runtime", cpu=peer.cpu_name(), gpu=peer.gpu_name(arguments.device),
                             network=arguments.model.name)
    try:
        importlib.import_module("onnx")  # Bench reads the model with it
        onnxruntime = importlib.import_module("onnxruntime")
    except ImportError as error:
        document.absent("", f"{error.name} is not installed (pip install onnx onnxruntime-gpu)")
        return document.exit_code()
    document.tell(version=onnxruntime.__version__)
    modes = []
    for mode in arguments.modes:
        if mode != "cpu" and CUDA not in onnxruntime.get_available_providers():
            document.absent(mode, "this onnxruntime has no CUDA provider (pip install onnxruntime-gpu)")
        elif mode != "cpu" and not document.facts["gpu"]:
            document.absent(mode, "no CUDA device")
        else:
            modes.append(mode)
    peer.measure_all(document, configurations(arguments, modes), Bench(arguments).measure, GUESSED_SECONDS,
                     arguments.time_limit)
    return document.exit_code()


if __name__ == "__main__":
    sys.exit(main())
