#!/usr/bin/env python3
"""Times an ONNX file in TensorRT by its own trtexec, with input and output on the device and one CUDA graph.

Times are trtexec's GPU compute times of single runs (--exportTimes). fp32 is strict (--noTF32), fp16 lets TensorRT choose
between half and single precision layer by layer, tf32 is its default.

Exit codes: 0 measured, 1 some configuration failed, 2 usage, 4 trtexec, the Python package onnx or a GPU is absent.
"""
import argparse
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import peer

PRECISIONS = ("fp16", "fp32", "tf32")
FLAGS = {"fp16": ["--fp16", "--noTF32"], "fp32": ["--noTF32"], "tf32": []}
MODE = "trtexec"
GUESSED_SECONDS = {MODE: 90}  # of a configuration, before one was measured
PLACES = ("/usr/src/tensorrt/bin/trtexec", "/opt/tensorrt/bin/trtexec")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=pathlib.Path, help="ONNX file, its batch open")
    parser.add_argument("--network", help="its name in the document, default mobilenet_v2", default="mobilenet_v2")
    parser.add_argument("--trtexec", help=f"the program, default that of the PATH, else {' or '.join(PLACES)}")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one configuration, default 300")
    peer.add_common_options(parser, PRECISIONS, [1, 8, 32, 128, 256])
    arguments = peer.parse(parser)
    if arguments.trtexec and not shutil.which(arguments.trtexec):
        parser.error(f"--trtexec: no such program: {arguments.trtexec}")
    return arguments


def find_trtexec(given):
    return next(filter(None, map(shutil.which, [given] if given else ["trtexec", *PLACES])), None)


def command(program, arguments, shapes, precision, times_file):
    return [program, f"--onnx={arguments.model}", f"--shapes={shapes}", *FLAGS[precision], "--useCudaGraph",
            "--noDataTransfers", "--useSpinWait", f"--device={arguments.device}", f"--iterations={arguments.runs}",
            f"--warmUp={round(1e3 * arguments.warm_up)}", "--duration=0", "--avgRuns=1", f"--exportTimes={times_file}"]


def why_failed(output):
    errors = re.findall(r"^.*\[E\] (.*)$", output, re.MULTILINE)
    return errors[0] if errors else output.strip().splitlines()[-1] if output.strip() else "no output"


def measure(program, arguments, document, name, extents, precision, batch, **_):
    """Statistics, and what else a row has. Raises RuntimeError or what subprocess.run does when trtexec fails."""
    shapes = name + ":" + "x".join(map(str, peer.shape_for(extents, batch)))
    with tempfile.TemporaryDirectory() as folder:
        times_file = pathlib.Path(folder) / "times.json"
        done = subprocess.run(command(program, arguments, shapes, precision, times_file), capture_output=True, text=True,
                              timeout=arguments.timeout, check=False)
        output = done.stdout + done.stderr
        if done.returncode != 0:
            raise RuntimeError(f"trtexec ended with exit code {done.returncode}: {why_failed(output)}")
        if not times_file.is_file():
            raise RuntimeError("trtexec wrote no times")
        runs = json.loads(times_file.read_text(encoding="utf-8"))
    times = [1e3 * run["computeMs"] for run in runs if "computeMs" in run]
    if len(times) < peer.LEAST_RUNS:
        raise RuntimeError(f"trtexec timed {len(times)} runs, at least {peer.LEAST_RUNS} are wanted")
    version = re.search(r"TensorRT version: ([0-9.]+)", output) or re.search(r"\[TensorRT v([0-9]+)\]", output)
    if version:
        document.tell(version=version.group(1))
    return peer.statistics_of(times), {}


def configurations(arguments):
    for precision in arguments.precisions:
        for batch in arguments.batches:
            yield {"network": arguments.network, "mode": MODE, "precision": precision, "batch": batch}


def main():
    arguments = parse_arguments()
    document = peer.Document(arguments, "TensorRT", gpu=peer.gpu_name(arguments.device),
                             network=arguments.model.name)
    program = find_trtexec(arguments.trtexec)
    if not program:
        document.absent("", f"no trtexec on the PATH, nor as {' or '.join(PLACES)}")
        return document.exit_code()
    try:
        import onnx
    except ImportError:
        document.absent("", "trtexec is told the shape of the input, for which the Python package onnx is not installed")
        return document.exit_code()
    if not document.facts["gpu"] and not arguments.trtexec:
        document.absent("", "no CUDA device")
        return document.exit_code()
    name, extents = peer.input_of(onnx, onnx.load(str(arguments.model), load_external_data=False))
    peer.measure_all(document, configurations(arguments),
                     functools.partial(measure, program, arguments, document, name, extents), GUESSED_SECONDS,
                     arguments.time_limit)
    return document.exit_code()


if __name__ == "__main__":
    sys.exit(main())
