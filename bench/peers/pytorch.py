#!/usr/bin/env python3
"""Times MobileNetV2, or other networks of torchvision, in PyTorch, the way bench_engine times ours.

The network has its BatchNorm folded, with the input on the device already. Modes:
  graph              captured into one CUDA graph
  compile            torch.compile with freezing, mode reduce-overhead
  compile-graph      torch.compile with freezing, then captured into one CUDA graph: no Python between replays
  eager              operation by operation from Python
  compile-max        torch.compile with freezing, mode max-autotune: minutes a configuration. Convolutions that are no
                     matrix products are cuDNN's (bench/peers/README.md says why)
  compile-max-graph  the same kernels (max-autotune-no-cudagraphs), then captured into one CUDA graph

Memory formats: in mode graph channels_last and nchw, in the others channels_last, unless --formats says otherwise.
torch.compile chooses the layout of convolutions itself, whatever the input has.

Configurations run in this order: max-autotune last, fp16 before tf32 before fp32, modes as above, batches 1, 32, 256
before others. inductor keeps what it found in TORCHINDUCTOR_CACHE_DIR (by default a folder in /tmp): a later call with
--resume goes on from there.

CUDA events stand between back-to-back runs, in bursts; medians are over all runs, and `mean_us` is the median
over bursts of a burst's length divided by its runs. With --cpu, wall time of single runs; graphs are CUDA's only.

Exit codes: 0 all configurations measured, or left by --time-limit (they are named), 1 some failed (they are named, the
rest is still written), 2 usage, 4 PyTorch or a CUDA device is absent.
"""

import argparse
import functools
import math
import os
import statistics
import sys
import time

import peer
from peer import list_of

# In the order in which they run. torch.compile's mode, where it is one of torch.compile.
MODES = {"graph": None, "compile": "reduce-overhead", "compile-graph": "default", "eager": None,
         "compile-max": "max-autotune", "compile-max-graph": "max-autotune-no-cudagraphs"}
CPU_MODES = ("compile", "eager")
PRECISIONS = ("fp16", "tf32", "fp32")
FORMATS = {"channels_last": "channels_last", "nchw": "contiguous_format"}  # PyTorch's name
BATCHES = [1, 32, 256, 8, 128]
# Of a configuration, before one of the mode was measured; cuDNN's search and loading CUDA's libraries count.
GUESSED_SECONDS = {"graph": 20, "compile": 30, "compile-graph": 30, "eager": 20, "compile-max": 240,
                   "compile-max-graph": 240}
BURST = 20  # readings of the clock between two synchronisations
READING_US = 300  # a reading takes 1.3 us (H200): not half a percent of this
# Half precision against strict fp32 on random weights: 53 layers that each round to 2^-11. A wrong network is off by 1.
MAX_RELATIVE_ERROR = {"fp16": 0.1, "tf32": 0.1, "fp32": 1e-4}

# What a bottleneck of random weights adds to its input is made small: else ResNet-152 is off by 0.17 in fp16, with this by 0.01.
RESIDUAL_SCALE = 0.25

# Arguments of torchvision's constructors: no auxiliary classifier, no minutes of drawing weights.
CONSTRUCTOR_OPTIONS = {"inception_v3": {"aux_logits": False, "init_weights": False}}
RESOLUTIONS = {"inception_v3": 299}

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", type=list_of(str, MODES), help=f"default all: {','.join(MODES)}; of the CPU "
                        f"{','.join(CPU_MODES)}")
    parser.add_argument("--precisions", type=list_of(str, PRECISIONS), default=list(PRECISIONS),
                        help=f"default {','.join(PRECISIONS)}; fp32 is strict, without TF32")
    parser.add_argument("--formats", type=list_of(str, FORMATS), help="memory formats, channels_last or nchw or both, "
                        "default both in mode graph, channels_last in the others")
    parser.add_argument("--batches", type=list_of(int), default=BATCHES, help="default 1,8,32,128,256")
    parser.add_argument("--eager-batches", type=list_of(int), default=[1, 32, 256], help="of mode eager, default 1,32,256")
    parser.add_argument("--compile-precisions", type=list_of(str, PRECISIONS), default=list(PRECISIONS),
                        help=f"of the compile modes, default {','.join(PRECISIONS)}")
    parser.add_argument("--compile-batches", type=list_of(int), default=BATCHES,
                        help="of the compile modes, 5 to 20 seconds each, with max-autotune minutes; default "
                        "1,8,32,128,256")
    parser.add_argument("--networks", type=list_of(str), default=["mobilenet_v2"],
                        help="torchvision's names, default mobilenet_v2")
    parser.add_argument("--width", type=float, default=1.0, help="MobileNetV2's width multiplier, default 1.0")
    parser.add_argument("--resolution", type=int, help="default 224, for inception_v3 299")
    parser.add_argument("--runs", type=int, default=400, help="timed runs, at least 200; default 400")
    parser.add_argument("--warm-up", type=float, default=0.3, help="seconds before timing, default 0.3")
    parser.add_argument("--device", type=int, default=0, help="CUDA device index")
    parser.add_argument("--cpu", action="store_true", help="on the CPU, in fp32")
    parser.add_argument("--seconds", type=float, default=5, help="a configuration on the CPU ends after so long")
    parser.add_argument("--seed", type=int, default=1)
    peer.add_document_options(parser)
    arguments = peer.parse(parser)
    arguments.modes = arguments.modes or list(CPU_MODES if arguments.cpu else MODES)
    if arguments.cpu:
        if set(arguments.modes) - set(CPU_MODES):
            parser.error(f"--cpu has the modes {', '.join(CPU_MODES)}")
        arguments.precisions = arguments.compile_precisions = ["fp32"]
    return arguments


def device_of(arguments):
    return "cpu" if arguments.cpu else "cuda"


def own_mobilenet_v2(torch, width):
    """The network as torchvision builds it, for machines that have PyTorch alone."""
    nn = torch.nn

    def channels(count):
        rounded = max(8, int(count * width + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * count * width else rounded

    def conv_bn(inputs, outputs, kernel=1, stride=1, groups=1):
        return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                nn.BatchNorm2d(outputs)]

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride, expansion):
            super().__init__()
            hidden = inputs * expansion
            layers = conv_bn(inputs, hidden) + [nn.ReLU6(inplace=True)] if expansion != 1 else []
            layers += conv_bn(hidden, hidden, 3, stride, hidden) + [nn.ReLU6(inplace=True)] + conv_bn(hidden, outputs)
            self.conv = nn.Sequential(*layers)
            self.residual = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.conv(x) if self.residual else self.conv(x)

    inputs = channels(32)
    layers = conv_bn(3, inputs, 3, 2) + [nn.ReLU6(inplace=True)]
    for expansion, count, blocks, stride in STAGES:
        for block in range(blocks):
            layers.append(Block(inputs, channels(count), stride if block == 0 else 1, expansion))
            inputs = channels(count)
    last = channels(1280) if width > 1 else 1280
    layers += conv_bn(inputs, last) + [nn.ReLU6(inplace=True)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 1000)]
    return nn.Sequential(*layers)


def resolution_of(name, arguments):
    return arguments.resolution or RESOLUTIONS.get(name, 224)


def network_source():
    """Where networks come from."""
    try:
        import torchvision
        return f"torchvision {torchvision.__version__}"
    except ImportError:
        return "own definition"


def make_network(torch, name, memory_format, arguments):
    """The network on the device, in eval mode with BatchNorm folded."""
    torch.manual_seed(arguments.seed)
    resolution = resolution_of(name, arguments)
    try:
        import torchvision
        options = {"width_mult": arguments.width} if name == "mobilenet_v2" else CONSTRUCTOR_OPTIONS.get(name, {})
        network = getattr(torchvision.models, name)(weights=None, **options)
    except ImportError:
        if name != "mobilenet_v2":
            raise
        network = own_mobilenet_v2(torch, arguments.width)

    # Fresh BatchNorm statistics would let activations fade to zero: take those of one batch.
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
        if hasattr(module, "bn3"):  # the last of a torchvision Bottleneck
            torch.nn.init.constant_(module.bn3.weight, RESIDUAL_SCALE)
    network = network.to(device_of(arguments)).train()
    network(torch.randn(8, 3, resolution, resolution, device=device_of(arguments)))
    from torch.fx.experimental.optimization import fuse
    return fuse(network.eval()).to(memory_format=memory_format)


def set_precision(torch, precision):
    allow_tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = allow_tf32
    torch.backends.cudnn.allow_tf32 = allow_tf32
    # What inductor's own convolutions go by; the line above does not set it.
    torch.backends.cudnn.fp32_precision = "tf32" if allow_tf32 else "ieee"
    torch.backends.cudnn.benchmark = True


def capture(torch, function, picture):
    """Replays `function(picture)` from a CUDA graph; returns (replay, output)."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):  # cuDNN's search and lazy initialisation must not be captured
            function(picture)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = function(picture)
    return graph.replay, lambda: output


def run_last(function):
    """(run, output) of a function that gives its result."""
    latest = [None]

    def run():
        latest[0] = function()

    for _ in range(3):  # compiles, searches algorithms, warms up
        run()
    return run, lambda: latest[0]


def prepare(torch, mode, network, picture):
    """(run, output): run() enqueues one inference, output() gives the latest result."""
    if mode == "graph":
        return capture(torch, network, picture)
    if mode == "eager":
        return run_last(lambda: network(picture))

    import torch._inductor.config
    torch._inductor.config.freezing = True
    torch._inductor.config.max_autotune_conv_backends = "ATEN"
    torch._dynamo.reset()
    on_cpu = picture.device.type == "cpu"
    compiled = torch.compile(network, dynamic=False, mode="default" if on_cpu else MODES[mode])
    if on_cpu:
        return run_last(lambda: compiled(picture))
    if mode.endswith("-graph"):
        compiled(picture)
        return capture(torch, compiled, picture)

    def step():
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(picture)

    return run_last(step)


def time_cpu_runs(run, arguments):
    end = time.monotonic() + arguments.warm_up
    while time.monotonic() < end:
        run()
    times, started = [], time.monotonic()
    while len(times) < arguments.runs and (not times or time.monotonic() - started < arguments.seconds):
        before = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - before) / 1e3)
    return peer.statistics_of(times)


def time_runs(torch, run, arguments):
    """Median, mean and 90th percentile of one run in microseconds, and the number of runs. Runs that are short against a
    reading of the GPU's clock are timed several at a time, as bench_engine does."""
    done, start = 0, time.monotonic()
    while not done or time.monotonic() - start < arguments.warm_up:
        for _ in range(BURST):
            run()
        torch.cuda.synchronize()
        done += BURST
    together = runs_together(1e6 * (time.monotonic() - start) / done)

    times, burst_means = [], []
    events = [torch.cuda.Event(enable_timing=True) for _ in range(BURST + 1)]
    while len(times) * together < arguments.runs:
        events[0].record()
        for event in events[1:]:
            for _ in range(together):
                run()
            event.record()
        torch.cuda.synchronize()
        times += [1e3 * before.elapsed_time(after) / together for before, after in zip(events, events[1:])]
        burst_means.append(1e3 * events[0].elapsed_time(events[-1]) / BURST / together)
    return {**peer.statistics_of(times), "mean_us": statistics.median(burst_means), "runs": len(times) * together}


def runs_together(run_us):
    """How many runs of `run_us` microseconds are timed at a time."""
    return max(1, math.ceil(READING_US / run_us))


def measure(torch, arguments, network, mode, precision, batch, format):
    """Statistics, and what else a row has. Raises RuntimeError when the outputs are not the network's."""
    if not arguments.cpu:
        torch.cuda.empty_cache()
    set_precision(torch, "fp32")
    memory_format = getattr(torch, FORMATS[format])
    # A module of its own for each configuration: freezing consumes the weights of the one it compiles.
    module = make_network(torch, network, memory_format, arguments)
    started = time.monotonic()
    resolution = resolution_of(network, arguments)
    picture = torch.randn(batch, 3, resolution, resolution, device=device_of(arguments))
    picture = picture.to(memory_format=memory_format)
    expected = module(picture)

    set_precision(torch, precision)
    if precision == "fp16":
        module, picture = module.half(), picture.half()
    run, output = prepare(torch, mode, module, picture)
    run()
    if not arguments.cpu:
        torch.cuda.synchronize()
    prepared = time.monotonic() - started
    error = ((output().float() - expected).norm() / expected.norm()).item()
    if not error <= MAX_RELATIVE_ERROR[precision]:
        raise RuntimeError(f"outputs are off by {error:.3g} (relative L2) from eager fp32")

    times = time_cpu_runs(run, arguments) if arguments.cpu else time_runs(torch, run, arguments)
    return times, {"prepare_seconds": prepared, "relative_l2_to_eager_fp32": error}


def measure_or_stop(torch, arguments, **configuration):
    """measure(). An error that CUDA keeps, as after an access out of bounds, would fail all that follows: DeviceLost."""
    try:
        return measure(torch, arguments, **configuration)
    except Exception as error:
        try:
            torch.cuda.synchronize()
        except Exception:
            raise peer.DeviceLost(str(error)) from error
        raise


def configurations(arguments):
    """What to measure, for each network the most important first."""
    def rank(one):
        batch = BATCHES.index(one["batch"]) if one["batch"] in BATCHES else len(BATCHES)
        mode = list(MODES).index(one["mode"])
        return (one["mode"].startswith("compile-max"), PRECISIONS.index(one["precision"]), mode, batch)

    for name in arguments.networks:
        chosen = []
        for mode in arguments.modes:
            precisions, batches = arguments.precisions, arguments.batches
            if mode == "eager":
                batches = arguments.eager_batches
            elif mode != "graph":
                precisions, batches = arguments.compile_precisions, arguments.compile_batches
            formats = arguments.formats or (list(FORMATS) if mode == "graph" else ["channels_last"])
            chosen += [{"network": name, "mode": mode, "precision": precision, "batch": batch, "format": memory_format}
                       for precision in precisions for batch in batches for memory_format in formats]
        yield from sorted(chosen, key=rank)


def main():
    arguments = parse_arguments()
    # Read when inductor is first imported.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(len(os.sched_getaffinity(0))))
    document = peer.Document(arguments, "PyTorch", width=arguments.width,
                             resolution=arguments.resolution or "each network's own")
    if arguments.cpu:
        document.tell(cpu=peer.cpu_name())
    try:
        import torch
    except ImportError:
        document.absent("", "PyTorch is not installed (pip install torch torchvision)")
        return document.exit_code()
    if not arguments.cpu and torch.cuda.device_count() <= arguments.device:
        document.absent("", f"no CUDA device {arguments.device} that PyTorch can use")
        return document.exit_code()

    document.tell(version=str(torch.__version__), cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(),
                  network=network_source())
    if not arguments.cpu:
        torch.cuda.set_device(arguments.device)
        document.tell(gpu=torch.cuda.get_device_name())
    with torch.no_grad():
        peer.measure_all(document, configurations(arguments), functools.partial(
            measure if arguments.cpu else measure_or_stop, torch, arguments), GUESSED_SECONDS, arguments.time_limit)
    return document.exit_code()


if __name__ == "__main__":
    sys.exit(main())
