#!/usr/bin/env python3
"""Writes ONNX files of networks that have inverted residuals, as torchvision and timm build them, with seeded random weights."""
import argparse
import pathlib
import sys
import warnings

# Name of the file: (package, name of the model there).
NETWORKS = {
    "mobilenet_v3_small": ("torchvision", "mobilenet_v3_small"),
    "mobilenet_v3_large": ("torchvision", "mobilenet_v3_large"),
    "efficientnet_b0": ("timm", "efficientnet_b0"),
    "efficientnet_lite0": ("timm", "efficientnet_lite0"),
    "mnasnet0_5": ("torchvision", "mnasnet0_5"),
    "mnasnet1_3": ("torchvision", "mnasnet1_3"),
    "fbnetc": ("timm", "fbnetc_100"),
    "mobilenetv4_conv_small": ("timm", "mobilenetv4_conv_small"),
}
SIZE = 224


def make(package, name):
    if package == "timm":
        import timm
        return timm.create_model(name)
    import torchvision
    return torchvision.models.get_model(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder of the files")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="default all: %(default)s")
    arguments = parser.parse_args()
    wanted = arguments.networks.split(",")
    for network in wanted:
        if network not in NETWORKS:
            parser.error(f"--networks: {network} is none of {', '.join(NETWORKS)}")
    try:
        import torch
    except ImportError as error:
        print(f"{error}; PyTorch, torchvision and timm write these files", file=sys.stderr)
        return 1
    warnings.filterwarnings("ignore")  # of the exporter, about itself
    arguments.output.mkdir(parents=True, exist_ok=True)
    failed = 0
    for network in wanted:
        torch.manual_seed(1)
        file = arguments.output / f"{network}.onnx"
        try:
            torch.onnx.export(make(*NETWORKS[network]).eval(), torch.zeros(1, 3, SIZE, SIZE), str(file), opset_version=17,
                              dynamo=False, input_names=["input"], output_names=["output"],
                              dynamic_axes={"input": {0: "n"}, "output": {0: "n"}})
            print(f"{file} written")
        except Exception as error:  # a package that is not there, or of another version
            failed = 1
            print(f"{network}: {error}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
