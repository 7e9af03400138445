#!/usr/bin/env python3
"""Compares the CPU engine's logits of quantised networks with ONNX Runtime's: torchvision's networks with random
weights, quantised by onnxruntime.quantization in both formats (QDQ, QOperator) with activations of INT8 and UINT8.

ONNX Runtime itself is run with and without its optimisation: in QDQ with INT8 it keeps floating point on x86-64, so
that the two differ, and ours from both. Elsewhere the logits are equal in every bit where all of the network is
quantised and no sum of two activations lies exactly between two integers (docs/int8.md); --exact requires it of the
networks that are named.

Exit codes: 0 all within --tolerance, 1 some not, 2 usage, 4 a Python package or a program is missing.
"""

import argparse
import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

EXIT_DIFFERS = 1
EXIT_ABSENT = 4
PICTURES = 4
EXTENT = 224
NETWORKS = ("mobilenet_v2", "resnet18", "squeezenet1_1", "googlenet", "shufflenet_v2_x0_5", "mobilenet_v3_small",
            "densenet121")
# Without sums of two activations, which ONNX Runtime rounds with the zero point added.
EXACT = ("squeezenet1_1", "googlenet")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="build folder, default build")
    parser.add_argument("--networks", default=",".join(NETWORKS), metavar="NAME,...", help="default: %(default)s")
    parser.add_argument("--exact", default=",".join(EXACT), metavar="NAME,...",
                        help="networks that must agree in every bit, but for QDQ with INT8 (default: %(default)s)")
    parser.add_argument("--tolerance", type=float, default=0.1,
                        help="relative L2 difference of the others, default 0.1")
    return parser.parse_args()


def export(torch, torchvision, name, pictures, path):
    torch.manual_seed(0)
    options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    network = getattr(torchvision.models, name)(**options)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    torch.onnx.export(network.eval(), torch.from_numpy(pictures[:1]), str(path), opset_version=13, dynamo=False,
                      input_names=["input"], dynamic_axes={"input": {0: "N"}})


def reader_of(quantization, pictures):
    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = iter(pictures)

        def get_next(self):
            picture = next(self.left, None)
            return None if picture is None else {"input": picture[None]}

    return Reader()


def runtime_logits(np, onnxruntime, model, pictures, optimised):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"input": picture[None]})[0] for picture in pictures])


def our_logits(np, bench_engine, model, pictures, folder):
    """Logits, or None and why the file is refused."""
    given, made = folder / "input.f32", folder / "output.json"
    pictures.tofile(given)
    done = subprocess.run([str(part) for part in
                           (bench_engine, "--impl", "cpu", "--model", model, "--batch", len(pictures), "--loadInputs",
                            given, "--iterations", 1, "--warmUp", 0, "--duration", 0, "--exportOutput", made)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip()
    return np.array(json.loads(made.read_text(encoding="utf-8"))[0]["values"], np.float32), ""


def relative(np, a, b):
    return np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b)


def main():
    arguments = parse_arguments()
    bench_engine = arguments.build / "bench" / "bench_engine"
    try:
        import numpy as np
        import onnxruntime
        import torch
        import torchvision
        from onnxruntime import quantization
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        print(f"compare_quantized.py: {error.name} is not installed: pip install onnx onnxruntime numpy sympy torch "
              "torchvision", file=sys.stderr)
        return EXIT_ABSENT
    if not bench_engine.exists():
        print(f"compare_quantized.py: {bench_engine} is missing: build it, or name the folder by --build",
              file=sys.stderr)
        return EXIT_ABSENT
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    pictures = np.random.default_rng(1).standard_normal([PICTURES, 3, EXTENT, EXTENT], dtype=np.float32)
    exact = arguments.exact.split(",")
    failed = False
    print(f"{'network':20} {'format':10} {'type':6} {'ONNX Runtime, optimised or not':>31} {'ours':>9}")
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = pathlib.Path(name_of_folder)
        for name in arguments.networks.split(","):
            export(torch, torchvision, name, pictures, folder / "float.onnx")
            quant_pre_process(str(folder / "float.onnx"), str(folder / "prepared.onnx"), skip_symbolic_shape=True)
            for form in (quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator):
                for kind in (quantization.QuantType.QInt8, quantization.QuantType.QUInt8):
                    model = folder / "int8.onnx"
                    quantization.quantize_static(str(folder / "prepared.onnx"), str(model),
                                                 reader_of(quantization, pictures), quant_format=form, per_channel=True,
                                                 activation_type=kind, weight_type=quantization.QuantType.QInt8)
                    theirs = runtime_logits(np, onnxruntime, model, pictures, True)
                    plain = runtime_logits(np, onnxruntime, model, pictures, False)
                    ours, refusal = our_logits(np, bench_engine, model, pictures, folder)
                    line = f"{name:20} {form.name:10} {kind.name[1:]:6} {relative(np, plain, theirs):31.2g} "
                    if ours is None:
                        print(line + f"  refused: {refusal}")
                        continue
                    difference = relative(np, ours.reshape(theirs.shape), theirs)
                    floats = form.name == "QDQ" and kind.name == "QInt8"
                    wrong = difference > (0 if name in exact and not floats else arguments.tolerance)
                    failed = failed or wrong
                    print(line + f"{difference:9.2g}{'  too much' if wrong else ''}", flush=True)
    return EXIT_DIFFERS if failed else 0


if __name__ == "__main__":
    sys.exit(main())
