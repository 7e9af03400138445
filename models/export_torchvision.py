#!/usr/bin/env python3
"""Writes one of torchvision's or timm's classifiers, by default the pretrained MobileNetV2, as an ONNX file.

Needs PyTorch, torchvision or timm and, on the first run, a network (the weights are cached by torchvision after that);
the dynamo exporter needs onnxscript too. The file takes pictures (N, 3, H, W), normalised with mean .485/.456/.406
and deviation .229/.224/.225 of [0, 1] (bench_engine --preprocess torch), and gives 1000 logits.

Exit codes: 0 written, 1 failed, 2 usage, 4 a Python package is absent.
"""

import argparse
import sys

EXIT_FAILED = 1
EXIT_ABSENT = 4

# What torchvision's constructors would otherwise spend minutes on, or add for training only.
RANDOM_OPTIONS = {"inception_v3": {"aux_logits": False, "init_weights": False}}
RESOLUTIONS = {"inception_v3": 299}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, metavar="FILE")
    parser.add_argument("--network", default="mobilenet_v2", metavar="NAME",
                        help="the package's name for it, e.g. resnet50; default mobilenet_v2")
    parser.add_argument("--package", choices=["torchvision", "timm"], default="torchvision",
                        help="whose network, default torchvision; timm's have random weights")
    parser.add_argument("--exporter", choices=["torchscript", "dynamo"], default="torchscript",
                        help="which of PyTorch's two exporters, default torchscript")
    parser.add_argument("--opset", type=int, help="default 17 for torchscript, 18 for dynamo")
    parser.add_argument("--weights", choices=["v1", "v2", "none"], default="v2",
                        help="IMAGENET1K_V1, IMAGENET1K_V2, or none: random, nothing to download; default v2")
    parser.add_argument("--resolution", type=int,
                        help="default 224, for inception_v3 299; of timm, what it was made for")
    parser.add_argument("--batch", type=int, default=0, help="batch size in the file, 0 (default) for dynamic")
    parser.add_argument("--external-data", action="store_true",
                        help="weights in a file beside the model (dynamo exporter only)")
    arguments = parser.parse_args()
    if arguments.external_data and arguments.exporter != "dynamo":
        parser.error("--external-data goes with --exporter dynamo")
    if arguments.batch < 0:
        parser.error("--batch must not be negative")
    if arguments.package == "timm" and arguments.weights != "none":
        parser.error("--package timm goes with --weights none")
    return arguments


def untrained(arguments):
    """The network as its package makes it; sets the resolution."""
    if arguments.package == "timm":
        import timm
        network = timm.create_model(arguments.network, exportable=True)
        arguments.resolution = arguments.resolution or network.pretrained_cfg["input_size"][-1]
        return network
    import torchvision
    arguments.resolution = arguments.resolution or RESOLUTIONS.get(arguments.network, 224)
    return getattr(torchvision.models, arguments.network)(**RANDOM_OPTIONS.get(arguments.network, {}))


def random_network(torch, arguments):
    """Batch norms get the statistics of a batch, and all norms scales and shifts that show when one is lost. Those of
    batch norms lie near 1: at 0 activations would cut off half of all values, and rounding errors would grow by a fifth
    from layer to layer. What a network multiplies its branches by at the start, next to nothing, is made to count."""
    torch.manual_seed(1)
    network = untrained(arguments)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
            torch.nn.init.uniform_(module.weight, 0.7, 1.3)
            torch.nn.init.normal_(module.bias, 1.0, 0.2)
        elif isinstance(module, (torch.nn.LayerNorm, torch.nn.GroupNorm)) and module.weight is not None:
            torch.nn.init.uniform_(module.weight, 0.7, 1.3)
            torch.nn.init.normal_(module.bias, 0.0, 0.2)
    for name, parameter in network.named_parameters():
        if name.endswith(("gamma", "layer_scale", ".scale")):
            torch.nn.init.uniform_(parameter, 0.3, 0.8)
    with torch.no_grad():
        network.train()(torch.randn(4, 3, arguments.resolution, arguments.resolution))
    return network


def export(arguments):
    import torch

    if arguments.weights == "none":
        network = random_network(torch, arguments)
    else:
        import torchvision
        arguments.resolution = arguments.resolution or RESOLUTIONS.get(arguments.network, 224)
        weights = {"v1": "IMAGENET1K_V1", "v2": "IMAGENET1K_V2"}[arguments.weights]
        network = getattr(torchvision.models, arguments.network)(weights=weights)
    network.eval()
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
              f"pip install torch {arguments.package} onnx onnxscript", file=sys.stderr)
        return EXIT_ABSENT
    except Exception as error:  # of whatever kind the exporter raises: one line says more than its traceback
        print(f"export_torchvision.py: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_FAILED
    print(f"wrote {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
