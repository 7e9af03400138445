#!/usr/bin/env python3
"""Compares the zoo's networks with torchvision's of the same name: our weights, loaded by name into torchvision's
module, must leave none out on either side and give the logits that ONNX Runtime computes from our file.

Exit codes: 0 all within --tolerance, 1 some not, 2 usage, 4 a Python package or a program is missing.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

EXIT_DIFFERS = 1
EXIT_ABSENT = 4
BATCH = 2

# Ours, and arguments of torchvision's.
NETWORKS = {
    "vgg16": {},
    "vgg19": {},
    "squeezenet1_1": {},
    "resnet34_cifar": {"num_classes": 10},
    "resnet50": {},
    "resnet152": {},
    "resnext101_64x4d": {},
    "densenet201": {},
    "inception_v3": {"aux_logits": False, "init_weights": False},
    "mobilenet_v3_large": {},
    "efficientnet_b0": {},
}
WITHOUT_BATCHNORM = ("vgg16", "vgg19", "squeezenet1_1")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="build folder, default build")
    # Of single precision in two orders of summation; ResNet-152 amplifies it most, to 6e-6.
    parser.add_argument("--tolerance", type=float, default=1e-5, help="relative L2 difference, default 1e-5")
    return parser.parse_args()


def torchvision_module(torch, torchvision, name):
    arguments = NETWORKS[name]
    if name != "resnet34_cifar":
        return getattr(torchvision.models, name)(**arguments)
    module = torchvision.models.resnet34(**arguments)
    module.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    module.maxpool = torch.nn.Identity()
    return module


def compare(packages, writer, name, model):
    """The relative L2 difference of the logits of two random pictures."""
    numpy, onnx, onnxruntime, torch, torchvision = packages
    command = [writer, "--output", model, "--network", name]
    if name not in WITHOUT_BATCHNORM:
        command.append("--keepBatchNorm")
    subprocess.run([str(part) for part in command], check=True, capture_output=True)

    tensors = onnx.load(str(model)).graph.initializer
    weights = {tensor.name: torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy()) for tensor in tensors}
    module = torchvision_module(torch, torchvision, name)
    keys = module.load_state_dict(weights, strict=False)
    missing = [key for key in keys.missing_keys if not key.endswith("num_batches_tracked")]
    if missing or keys.unexpected_keys:
        raise RuntimeError(f"only torchvision has {missing}, only we have {keys.unexpected_keys}")

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    pictures = numpy.random.default_rng(1).standard_normal([BATCH, *entry.shape[1:]], dtype=numpy.float32)
    ours = session.run(None, {entry.name: pictures})[0]
    with torch.no_grad():
        theirs = module.eval()(torch.from_numpy(pictures)).numpy()
    return numpy.linalg.norm(ours - theirs) / numpy.linalg.norm(theirs)


def main():
    arguments = parse_arguments()
    try:
        import numpy
        import onnx
        import onnx.numpy_helper
        import onnxruntime
        import torch
        import torchvision
    except ImportError as error:
        print(f"compare_torchvision.py: {error.name} is not installed: pip install onnx onnxruntime torch torchvision",
              file=sys.stderr)
        return EXIT_ABSENT
    writer = arguments.build / "models" / "mobicuda_write_model"
    if not writer.is_file():
        print(f"compare_torchvision.py: {writer} is missing: build it, or name the folder by --build", file=sys.stderr)
        return EXIT_ABSENT

    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model.onnx"
        for name in NETWORKS:
            try:
                relative = compare((numpy, onnx, onnxruntime, torch, torchvision), writer, name, model)
            except RuntimeError as error:
                print(f"FAILED  {name}: {error}")
                differing += 1
                continue
            bad = not relative <= arguments.tolerance
            differing += bad
            print(f"{'DIFFERS' if bad else 'ok     '} relative {relative:.2e}  {name}", flush=True)
    return EXIT_DIFFERS if differing else 0


if __name__ == "__main__":
    sys.exit(main())
