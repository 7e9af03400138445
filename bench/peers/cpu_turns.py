#!/usr/bin/env python3
"""Times mobicuda's CPU engine and ONNX Runtime's CPU provider on the same ONNX files, in Python, in turns.

Each file, batch and number of threads has one InferenceSession of either, with the same SessionOptions, and arrays of NumPy as input
and output. A turn is the faster of --runs runs of one and then of the other; a figure is the median of the turns, in milliseconds of
wall time, and the ratio is the median of the turns' ratios, above 1 where mobicuda is faster. Before each there is a rest, so that
neither's threads are still busy waiting, and a run that is not counted. Outputs are compared first.

Exit codes: 0 measured, 1 outputs differ, 2 usage, 4 a package is missing.
"""
import argparse
import importlib
import json
import pathlib
import platform
import statistics
import sys
import time

import peer

MAX_RELATIVE_ERROR = 1e-4
REST_SECONDS = 0.05  # before each: threads that wait for more, as ONNX Runtime's do, would take the other's cores


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path, help="ONNX files, their batch open")
    parser.add_argument("--batches", type=peer.list_of(int), default=[1, 8], help="default 1,8")
    parser.add_argument("--threads", type=peer.list_of(int), default=[1], help="of either, default 1")
    parser.add_argument("--seconds", type=float, default=4, help="of each case, default 4; 5 turns at least")
    parser.add_argument("--runs", type=int, default=3, help="runs of a turn, of which the fastest counts, default 3")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    arguments = parser.parse_args()
    for model in arguments.models:
        if not model.is_file():
            parser.error(f"no such file: {model}")
    return arguments


def options_of(package, threads):
    options = package.SessionOptions()
    options.intra_op_num_threads = threads
    return options


def fastest(run, runs):
    time.sleep(REST_SECONDS)
    run()  # wakes the threads
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def measure(numpy, packages, model, batch, threads, arguments):
    """A row, or raises ValueError where outputs differ."""
    sessions = {name: package.InferenceSession(str(model), options_of(package, threads), providers=["CPUExecutionProvider"])
                for name, package in packages.items()}
    ours, theirs = sessions.values()
    value = theirs.get_inputs()[0]
    shape = peer.shape_for([dim if isinstance(dim, int) else 0 for dim in value.shape], batch)
    feed = {value.name: numpy.random.default_rng(1).standard_normal(shape, dtype=numpy.float32)}
    first, second = (session.run(None, feed)[0].astype(numpy.float64) for session in (ours, theirs))
    error = float(numpy.linalg.norm(first - second) / numpy.linalg.norm(second))
    if not error <= MAX_RELATIVE_ERROR:
        raise ValueError(f"{model.name} at batch {batch}: outputs differ by {error:.1e} in relative L2")
    turns = []
    end = time.monotonic() + arguments.seconds
    while len(turns) < 5 or time.monotonic() < end:
        turns.append((fastest(lambda: ours.run(None, feed), arguments.runs), fastest(lambda: theirs.run(None, feed), arguments.runs)))
    return {"model": model.stem, "batch": batch, "threads": threads, "turns": len(turns), "relativeL2": error,
            "mobicudaMs": statistics.median(own for own, _ in turns), "onnxruntimeMs": statistics.median(other for _, other in turns),
            "ratio": statistics.median(other / own for own, other in turns)}


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main():
    arguments = parse_arguments()
    try:
        numpy = importlib.import_module("numpy")
        packages = {name: importlib.import_module(name) for name in ("mobicuda", "onnxruntime")}
    except ImportError as error:
        print(f"cpu_turns: {error}: pip install mobicuda onnxruntime", file=sys.stderr)
        return 4
    versions = ", ".join(f"{name} {package.__version__}" for name, package in packages.items())
    print(f"{processor()}, {versions}; ms of wall time")
    print(f"{'model':28}{'batch':>6}{'threads':>8}{'mobicuda':>10}{'onnxruntime':>13}{'ratio':>7}")
    rows, failed = [], False
    for model in arguments.models:
        for batch in arguments.batches:
            for threads in arguments.threads:
                try:
                    row = measure(numpy, packages, model, batch, threads, arguments)
                except ValueError as error:
                    print(f"cpu_turns: {error}", file=sys.stderr)
                    failed = True
                    continue
                rows.append(row)
                print(f"{row['model'][:27]:28}{batch:6}{threads:8}{row['mobicudaMs']:10.2f}{row['onnxruntimeMs']:13.2f}"
                      f"{row['ratio']:7.2f}", flush=True)
    if arguments.json:
        document = {"processor": processor(), "versions": versions, "rows": rows}
        pathlib.Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
