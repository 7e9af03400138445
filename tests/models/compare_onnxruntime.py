#!/usr/bin/env python3
"""Compares the logits of our CPU engine with ONNX Runtime's, on generated models and any others named; with
--torchvision on torchvision's networks as both of PyTorch's exporters write them, with --timm on networks of timm as
the older one writes them.

Exit codes: 0 all within --tolerance, 1 some not, 2 usage, 4 a Python package or a program is missing.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

EXIT_DIFFERS = 1
EXIT_ABSENT = 4
BATCH = 2

# What mobicuda_write_model is asked for; each line differs from the others in at least one form or shape.
GENERATED = (
    "--resolution 224",
    "--width 0.35 --resolution 96 --opset 7 --head reshape",
    "--width 0.5 --resolution 97x130 --padding tf --opset 9 --keepBatchNorm",
    "--width 0.75 --resolution 128x96 --head matmul --opset 10 --softmax",
    "--width 1.4 --resolution 160 --head matmul --opset 18 --padding tf",
    "--width 0.35 --resolution 320x192 --opset 13 --head reshape --keepBatchNorm --epsilon 0.001",
    "--width 0.35 --resolution 100 --classes 1001 --opset 21 --padding tf",
    "--width 1.3 --resolution 64 --classes 3 --blocks 5 --softmax --opset 15",
    "--width 0.35 --resolution 96 --batch 2 --opset 17 --head matmul",
    "--network resnet34_cifar",
    "--network resnext101_64x4d --resolution 64x96",
    "--network mobilenet_v1 --resolution 128 --keepBatchNorm --opset 12",
    "--network network_in_network --softmax",
)

TORCHVISION = ("squeezenet1_1", "mobilenet_v3_large", "efficientnet_b0", "resnet50", "inception_v3", "densenet201",
               "resnet152", "resnext101_64x4d", "vgg16", "vgg19")
# What docs/onnx.md counts under Architectures.
TIMM = ("convnext_atto", "convnext_nano_ols", "convnextv2_atto", "deit_tiny_patch16_224", "efficientnet_b0_gn",
        "efficientvit_b0", "fasternet_t0", "fastvit_t8", "gcresnext26ts", "ghostnetv2_100", "ghostnetv3_100",
        "hrnet_w18_small", "hrnet_w18_small_v2", "mambaout_femto", "mixer_s32_224", "poolformer_s12", "repvit_m0_9",
        "resnetv2_50x1_bit", "shvit_s1", "vit_tiny_patch16_224")
EXPORTERS = ("torchscript", "dynamo")
EXPORT = pathlib.Path(__file__).resolve().parents[2] / "models" / "export_torchvision.py"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="build folder, default build")
    parser.add_argument("--torchvision", nargs="?", const=",".join(TORCHVISION), metavar="NAME,...",
                        help="instead of generated models: torchvision's networks with random weights, default all")
    parser.add_argument("--timm", nargs="?", const=",".join(TIMM), metavar="NAME,...",
                        help="instead of generated models: timm's networks with random weights, default a list")
    parser.add_argument("--model", type=pathlib.Path, action="append", default=[], help="one more model; repeatable")
    # Two single-precision programs that sum in different orders: 2 u sqrt(K) with K = 16,000 products on the way
    # through a full network is 1.5e-5, and logits that are differences of larger sums lose a little more.
    parser.add_argument("--tolerance", type=float, default=5e-5, help="relative L2 difference, default 5e-5")
    return parser.parse_args()


def run(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {result.returncode}: {result.stderr.strip()}")


def our_logits(np, bench_engine, model, pictures, folder):
    input_file, output_file = folder / "input.f32", folder / "output.json"
    pictures.tofile(input_file)
    run([bench_engine, "--impl", "cpu", "--model", model, "--batch", len(pictures), "--loadInputs", input_file,
         "--iterations", 1, "--warmUp", 0, "--duration", 0, "--exportOutput", output_file])
    outputs = json.loads(output_file.read_text(encoding="utf-8"))
    return np.array(outputs[0]["values"], dtype=np.float64)


def compare(np, onnxruntime, bench_engine, model, folder):
    """(largest absolute difference, relative L2 difference) of the logits of two random pictures."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    pictures = np.random.default_rng(1).standard_normal([BATCH, *entry.shape[1:]], dtype=np.float32)
    if entry.shape[0] == 1:
        theirs = np.concatenate([session.run(None, {entry.name: picture[None]})[0] for picture in pictures])
    else:
        theirs = session.run(None, {entry.name: pictures})[0]
    ours = our_logits(np, bench_engine, model, pictures, folder).reshape(theirs.shape)
    difference = ours - theirs
    return np.abs(difference).max(), np.linalg.norm(difference) / np.linalg.norm(theirs)


def main():
    arguments = parse_arguments()
    try:
        import numpy
        import onnxruntime
    except ImportError as error:
        print(f"compare_onnxruntime.py: {error.name} is not installed: pip install onnxruntime numpy", file=sys.stderr)
        return EXIT_ABSENT
    writer = arguments.build / "models" / "mobicuda_write_model"
    bench_engine = arguments.build / "bench" / "bench_engine"
    for program in (writer, bench_engine):
        if not program.is_file():
            print(f"compare_onnxruntime.py: {program} is missing: build it, or name the folder by --build",
                  file=sys.stderr)
            return EXIT_ABSENT

    differing = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        generated = [[writer, *case.split()] for case in GENERATED]
        if arguments.torchvision:
            generated = [[sys.executable, EXPORT, "--weights", "none", "--network", network, "--exporter", exporter]
                         for network in arguments.torchvision.split(",") for exporter in EXPORTERS]
        if arguments.timm:
            generated = [[sys.executable, EXPORT, "--weights", "none", "--package", "timm", "--network", network]
                         for network in arguments.timm.split(",")]
        for case in [*generated, *arguments.model]:
            model = case
            try:
                if isinstance(case, list):
                    model = folder / "model.onnx"
                    run([*case, "--output", model])
                    case = " ".join(map(str, case[1:])).replace(f"{EXPORT} --weights none ", "")
                largest, relative = compare(numpy, onnxruntime, bench_engine, model, folder)
            except RuntimeError as error:
                print(f"FAILED  {case}: {error}")
                differing += 1
                continue
            bad = not relative <= arguments.tolerance
            differing += bad
            print(f"{'DIFFERS' if bad else 'ok     '} max {largest:.2e}  relative {relative:.2e}  {case}", flush=True)
    return EXIT_DIFFERS if differing else 0


if __name__ == "__main__":
    sys.exit(main())
