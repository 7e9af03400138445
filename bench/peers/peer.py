"""What the peers have in common: lists on the command line, statistics, and the document that README.md describes."""
import argparse
import json
import os
import platform
import subprocess

EXIT_FAILED = 1
EXIT_ABSENT = 4
LEAST_RUNS = 200


def list_of(kind, choices=None):
    """argparse type: a comma-separated list."""

    def parse(text):
        values = [kind(part) for part in text.split(",")]
        for value in values:
            if choices and value not in choices:
                raise argparse.ArgumentTypeError(f"'{value}' is not one of {', '.join(choices)}")
            if kind is int and value < 1:
                raise argparse.ArgumentTypeError(f"{value} is not a positive number")
        return values

    return parse


def statistics_of(microseconds):
    """Median, mean and 90th percentile (nearest rank) of single runs."""
    times = sorted(microseconds)
    middle = len(times) // 2
    median = times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2
    rank = max(0, -(-9 * len(times) // 10) - 1)
    return {"median_us": median, "mean_us": sum(times) / len(times), "p90_us": times[rank], "runs": len(times)}


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def gpu_name(device=0):
    """As nvidia-smi has it; empty without a GPU."""
    try:
        done = subprocess.run(["nvidia-smi", f"--id={device}", "--query-gpu=name", "--format=csv,noheader"],
                              capture_output=True, text=True, check=True)
        return done.stdout.strip().split("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        return ""


class Document:
    """Results so far; written after each, so that what was measured survives a time limit."""

    def __init__(self, path, engine, **facts):
        self.path = path
        self.content = {"engine": engine, **facts, "results": [], "failed": [], "absent": []}
        self.write()

    def add(self, network, mode, precision, batch, statistics, **more):
        row = {"network": network, "mode": mode, "precision": precision, "batch": batch, **statistics,
               "images_per_second": 1e6 * batch / statistics["median_us"], **more}
        self.content["results"].append(row)
        print(f"{network} {mode:13} {precision} batch {batch:4}: median {row['median_us']:9.1f} us, "
              f"mean {row['mean_us']:9.1f} us, {row['images_per_second']:9.0f} img/s", flush=True)
        self.write()

    def fail(self, network, mode, precision, batch, error):
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if isinstance(error, Exception):
            reason = f"{type(error).__name__}: {reason}"
        self.content["failed"].append({"network": network, "mode": mode, "precision": precision, "batch": batch,
                                       "error": reason})
        print(f"{network} {mode:13} {precision} batch {batch:4}: failed: {reason}", flush=True)
        self.write()

    def absent(self, mode, reason):
        """A mode that this machine cannot run; an empty one stands for the whole engine."""
        self.content["absent"].append({"mode": mode, "reason": reason})
        print(f"absent: {' '.join(filter(None, (self.content['engine'], mode)))}: {reason}", flush=True)
        self.write()

    def exit_code(self):
        if self.content["failed"]:
            return EXIT_FAILED
        return 0 if self.content["results"] else EXIT_ABSENT

    def write(self):
        if self.path:
            whole = f"{self.path}.new"  # a reader never sees half a document
            with open(whole, "w", encoding="utf-8") as file:
                json.dump(self.content, file, indent=1)
                file.write("\n")
            os.replace(whole, self.path)


def input_of(onnx, model):
    """Name and extents of the network's one input, 0 for those that the file leaves open."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    if len(inputs) != 1:
        raise ValueError(f"the network has {len(inputs)} inputs, one is expected")
    return inputs[0].name, [dim.dim_value for dim in inputs[0].type.tensor_type.shape.dim]


def shape_for(extents, batch):
    """The input's extents with this batch. Raises ValueError where the file has another one."""
    if extents[0] not in (0, batch):
        raise ValueError(f"the file is for batch {extents[0]}; mobicuda_write_model --batch 0 leaves it open")
    if 0 in extents[1:]:
        raise ValueError("the file leaves more than the batch open")
    return [batch, *extents[1:]]


def parse(parser):
    """The arguments, with what the scripts share checked."""
    arguments = parser.parse_args()
    if arguments.runs < LEAST_RUNS:
        parser.error(f"--runs must be at least {LEAST_RUNS}")
    model = getattr(arguments, "model", None)
    if model is not None and not model.is_file():
        parser.error(f"--model: no such file: {model}")
    return arguments


def add_common_options(parser, precisions, default_batches):
    parser.add_argument("--precisions", type=list_of(str, precisions), default=list(precisions),
                        help=f"default {','.join(precisions)}")
    parser.add_argument("--batches", type=list_of(int), default=default_batches,
                        help=f"default {','.join(map(str, default_batches))}")
    parser.add_argument("--runs", type=int, default=400, help=f"timed runs, at least {LEAST_RUNS}; default 400")
    parser.add_argument("--warm-up", type=float, default=0.3, help="seconds before timing, default 0.3")
    parser.add_argument("--device", type=int, default=0, help="CUDA device index")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
