#!/usr/bin/env python3
"""Writes torchvision's pretrained ImageNet MobileNetV2 as an ONNX file.

Needs PyTorch, torchvision and, on the first run, a network (the weights are cached by torchvision after that);
the dynamo exporter needs onnxscript too. The file takes pictures (N, 3, H, W), normalised with mean .485/.456/.406
and deviation .229/.224/.225 of [0, 1] (bench_engine --preprocess torch), and gives 1000 logits.

Exit codes: 0 written, 1 failed, 2 usage, 4 a Python package is absent.
"""

import argparse
import sys

EXIT_FAILED = 1
EXIT_ABSENT = 4


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, metavar="FILE")
    parser.add_argument("--exporter", choices=["torchscript", "dynamo"], default="torchscript",
                        help="which of PyTorch's two exporters, default torchscript")
    parser.add_argument("--opset", type=int, help="default 17 for torchscript, 18 for dynamo")
    parser.add_argument("--weights", choices=["v1", "v2", "none"], default="v2",
                        help="IMAGENET1K_V1, IMAGENET1K_V2, or none: random, no network needed; default v2")
    parser.add_argument("--resolution", type=int, default=224, help="default 224")
    parser.add_argument("--batch", type=int, default=0, help="batch size in the file, 0 (default) for dynamic")
    parser.add_argument("--external-data", action="store_true",
                        help="weights in a file beside the model (dynamo exporter only)")
    arguments = parser.parse_args()
    if arguments.external_data and arguments.exporter != "dynamo":
        parser.error("--external-data goes with --exporter dynamo")
    if arguments.batch < 0:
        parser.error("--batch must not be negative")
    return arguments


def export(arguments):
    import torch
    import torchvision

    weights = {"v1": "IMAGENET1K_V1", "v2": "IMAGENET1K_V2", "none": None}[arguments.weights]
    network = torchvision.models.mobilenet_v2(weights=weights).eval()
    # The dynamo exporter takes an example batch of 1 for a fixed one.
    example = torch.zeros(arguments.batch or 2, 3, arguments.resolution, arguments.resolution)
    options = {"input_names": ["input"], "output_names": ["output"]}
    if arguments.exporter == "dynamo":
        options.update(dynamo=True, opset_version=arguments.opset or 18, external_data=arguments.external_data)
        if arguments.batch == 0:
            options["dynamic_shapes"] = ({0: torch.export.Dim("N")},)
    else:
        options.update(opset_version=arguments.opset or 17)
        if "dynamo" in torch.onnx.export.__code__.co_varnames:
            options["dynamo"] = False
        if arguments.batch == 0:
            options["dynamic_axes"] = {"input": {0: "N"}, "output": {0: "N"}}
    torch.onnx.export(network, (example,), arguments.output, **options)


def main():
    arguments = parse_arguments()
    try:
        export(arguments)
    except ImportError as error:
        print(f"export_torchvision.py: {error.name or error} is not installed: "
              "pip install torch torchvision onnx onnxscript", file=sys.stderr)
        return EXIT_ABSENT
    except Exception as error:  # of whatever kind the exporter raises: one line says more than its traceback
        print(f"export_torchvision.py: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_FAILED
    print(f"wrote {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
