"""What `python -m mobicuda` does: info, convert, classify and bench."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NoReturn

import numpy as np

import mobicuda
from mobicuda.engine import is_plan
from mobicuda.pictures import classify

# As bench_engine's (bench/bench_engine/model/exit_codes.h); nothing here has a threshold to miss (3).
EXIT_OK, EXIT_RUNTIME, EXIT_USAGE, EXIT_NO_DEVICE, EXIT_INTERRUPTED = 0, 1, 2, 4, 130

_CLASSIFIED_TOGETHER = 16  # images of a run: more would take memory, and wait for decoding
_UNINTERRUPTED = 20  # runs in a row
_EXIT_CODES = """exit codes:
  0 done, 1 failed, 2 wrong usage, 4 no GPU that can be used, 130 interrupted (Ctrl-C)"""


class _UsageError(Exception):
    """The command line asks for something that makes no sense."""


def _printable(text: str) -> str:
    """Fit for a terminal: what a file's name or a model says may be anything."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode() for letter in text
    )


class _Progress:
    """A line on standard error that is written anew, where that is a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._width = 0
        self._next = 0.0

    def show(self, text: str) -> None:
        if self._shown and time.monotonic() >= self._next:
            sys.stderr.write("\r" + text.ljust(self._width))
            sys.stderr.flush()
            self._width = len(text)
            self._next = time.monotonic() + 0.1

    def clear(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers with commas between them, got {text!r}") from None
    if any(number < 1 for number in numbers):
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text!r}")
    return numbers


def _positive(text: str) -> int:
    return _numbers(text)[0] if "," not in text else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"must be one number, got {text!r}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mobicuda",
        description="Runs image classifiers by mobicuda.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=mobicuda.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name, help=text, description=text, epilog=_EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        added.add_argument("--json", action="store_true", help="write one JSON document instead of text")
        return added

    info = command("info", "Tells what this machine can run or, with a model, what its engine is.")
    info.add_argument("model", nargs="?", metavar="MODEL", help="ONNX or plan file")
    info.add_argument("--layers", action="store_true", help="list the layers of a run of max_batch images")
    info.add_argument("--operators", action="store_true", help="list the ONNX operators that models may have")
    _add_engine_arguments(info)

    convert = command("convert", "Compiles an ONNX file, and writes the engine as a plan file, which loads fast.")
    convert.add_argument("model", metavar="MODEL", help="ONNX file")
    convert.add_argument("plan", metavar="PLAN", help="file to write")
    _add_engine_arguments(convert)

    classify_command = command("classify", "Classifies picture files (JPEG, PNG, BMP, PNM).")
    classify_command.add_argument("model", metavar="MODEL", help="ONNX or plan file")
    classify_command.add_argument("pictures", nargs="+", metavar="PICTURE", help="files, or one folder or tar archive")
    classify_command.add_argument("--labels", metavar="FILE", help="a class a line")
    classify_command.add_argument(
        "--top-k", type=_positive, default=5, metavar="K", help="classes of each picture (default 5)"
    )
    classify_command.add_argument(
        "--preprocess",
        choices=("torch", "tf"),
        default="torch",
        help="normalisation of the network's input (default torch)",
    )
    classify_command.add_argument(
        "--decode",
        choices=("auto", "gpu", "gpu-units", "gpu-sms", "cpu"),
        default="auto",
        help="where JPEG is decoded (default auto: on the engine's GPU where there is nvJPEG)",
    )
    _add_engine_arguments(classify_command)

    bench = command("bench", "Times runs; bench_engine measures more.")
    bench.add_argument("model", metavar="MODEL", help="ONNX or plan file")
    bench.add_argument("--batch", type=_numbers, default=[1], metavar="N,...", help="images of a run (default 1)")
    bench.add_argument(
        "--iterations", type=_positive, default=100, metavar="COUNT", help="runs of each kind (default 100)"
    )
    _add_engine_arguments(bench)
    return parser


def _add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine")
    group.add_argument("--backend", choices=("auto", "custom", "cpu"), help="auto: custom on a GPU, else cpu (default)")
    group.add_argument("--precision", choices=("fp32", "fp32_split", "fp16", "fp64"), help="default fp32")
    group.add_argument("--max-batch", type=_positive, metavar="N", help="most images of a run")
    group.add_argument("--picture-shape", type=_numbers, metavar="C,H,W", help="extents that the file leaves open")
    group.add_argument("--bytes", choices=("torch", "tf"), help="the engine takes bytes, and normalises them so")
    group.add_argument("--timing-cache", metavar="FILE", help="choose kernels by measured times")
    group.add_argument("--device", type=int, metavar="INDEX", help="CUDA device (default 0)")
    group.add_argument("--threads", type=int, metavar="COUNT", help="of the cpu engine; 0: one on each core (default)")
    group.add_argument("--verbose", action="store_true", help="tell what the library has to say")


def _load(arguments: argparse.Namespace, max_batch: int = 1) -> mobicuda.Engine:
    def log(level: str, text: str) -> None:
        if arguments.verbose or level == "warning":
            sys.stderr.write(f"{level}: {_printable(text)}\n")

    anywhere = {"device": arguments.device, "threads": arguments.threads}
    compiled = {
        "backend": arguments.backend,
        "precision": arguments.precision,
        "max_batch": arguments.max_batch,
        "picture_shape": arguments.picture_shape,
        "timing_cache": arguments.timing_cache,
        "bytes": arguments.bytes,
    }
    options: dict[str, Any] = {name: value for name, value in anywhere.items() if value is not None}
    if is_plan(arguments.model):
        given = [name.replace("_", "-") for name, value in compiled.items() if value is not None]
        if given:
            raise _UsageError(f"--{given[0]}: {arguments.model} is a plan, which was compiled already")
        return mobicuda.Engine.load(arguments.model, log=log, **options)
    options.update({name: value for name, value in compiled.items() if value is not None})
    kind = options.pop("bytes", None)
    if kind is not None:
        options["picture_input"] = mobicuda.PictureInput.torch() if kind == "torch" else mobicuda.PictureInput.tf()
    options.setdefault("max_batch", max_batch)
    return mobicuda.Engine.from_onnx(arguments.model, log=log, **options)


def _tensor_document(info: mobicuda.TensorInfo) -> dict[str, Any]:
    return {"name": info.name, "dtype": info.dtype.name, "shape": info.shape, "layout": info.layout}


def _engine_document(engine: mobicuda.Engine) -> dict[str, Any]:
    return {
        "backend": engine.backend,
        "precision": engine.precision,
        "max_batch": engine.max_batch,
        "inputs": [_tensor_document(info) for info in engine.inputs],
        "outputs": [_tensor_document(info) for info in engine.outputs],
        "memory": {**asdict(engine.memory), "total": engine.memory.total},
    }


def _write_json(document: object) -> None:
    print(json.dumps(document, indent=2))


def _write(text: str) -> None:
    print(_printable(text))


def _info(arguments: argparse.Namespace) -> int:
    document: dict[str, Any] = {"version": mobicuda.__version__}
    engine = None if arguments.model is None else _load(arguments)
    if engine is None:
        document["devices"] = [asdict(device) for device in mobicuda.devices()]
    else:
        document["engine"] = _engine_document(engine)
        if arguments.layers:
            document["layers"] = [asdict(layer) for layer in engine.layers()]
    if arguments.operators:
        document["operators"] = [asdict(operator) for operator in mobicuda.supported_operators()]
    if arguments.json:
        _write_json(document)
        return EXIT_OK
    _write(f"mobicuda {mobicuda.__version__}")
    for device in document.get("devices", []):
        told = device["name"] or "GPU"
        _write(
            f"{device['backend']} {device['index']}: {told}" + ("" if device["usable"] else f": no, {device['reason']}")
        )
    if engine is not None:
        _write(repr(engine))
        _write(f"memory: {engine.memory.total} bytes with one session, {engine.memory.weight_bytes} of them weights")
    for layer in document.get("layers", []):
        _write(
            f"{layer['name']}  {layer['kernel']}  {'x'.join(map(str, layer['output']))}"
            + (f"  ({layer['reason']})" if layer["reason"] else "")
        )
    for operator in document.get("operators", []):
        _write(f"{operator['name']}: opset {operator['first_opset']} to {operator['last_opset']}")
    return EXIT_OK


def _convert(arguments: argparse.Namespace) -> int:
    if is_plan(arguments.model):
        raise _UsageError(f"{arguments.model} is a plan already")
    engine = _load(arguments)
    engine.save(arguments.plan)
    size = os.path.getsize(arguments.plan)
    if arguments.json:
        _write_json({"plan": arguments.plan, "bytes": size, "engine": _engine_document(engine)})
    else:
        _write(f"{arguments.plan}: {size} bytes, {engine!r}")
    return EXIT_OK


def _classify(arguments: argparse.Namespace) -> int:
    pictures = arguments.pictures[0] if len(arguments.pictures) == 1 else arguments.pictures
    engine = _load(arguments, max_batch=_CLASSIFIED_TOGETHER)
    progress = _Progress()
    broken: list[dict[str, str]] = []
    results: list[dict[str, Any]] = []

    def report(name: str, reason: str) -> None:
        progress.clear()
        sys.stderr.write(_printable(f"{name}: {reason}") + "\n")
        broken.append({"name": name, "reason": reason})

    found = 0
    try:
        for name, classes in classify(
            pictures,
            engine,
            top_k=arguments.top_k,
            preprocess=arguments.preprocess,
            labels=arguments.labels,
            decode=arguments.decode,
            on_broken=report,
        ):
            found += 1
            if arguments.json:
                results.append(
                    {"name": name, "classes": [{"label": label, "score": score} for label, score in classes]}
                )
                progress.show(f"{found} pictures")
            else:
                progress.clear()
                _write(f"{name}: " + ", ".join(f"{label} {score:.4g}" for label, score in classes))
    finally:
        progress.clear()
    if arguments.json:
        _write_json({"engine": _engine_document(engine), "pictures": results, "broken": broken})
    return EXIT_OK if found or not broken else EXIT_RUNTIME


def _statistics(milliseconds: list[float], n: int) -> dict[str, float]:
    ordered = sorted(milliseconds)
    median = statistics.median(ordered)
    return {
        "median_ms": median,
        "min_ms": ordered[0],
        "p99_ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
        "images_per_second": 1000 * n / median,
    }


def _bench(arguments: argparse.Namespace) -> int:
    engine = _load(arguments, max_batch=max(arguments.batch))
    too_large = [n for n in arguments.batch if n > engine.max_batch]
    if too_large:
        raise _UsageError(f"--batch {too_large[0]} is more than the engine's max_batch, {engine.max_batch}")
    progress = _Progress()
    cases = []
    random = np.random.default_rng(0)
    with engine.create_session() as session:
        for n in arguments.batch:
            progress.show(f"batch {n}")
            shape = (n, *engine.input.image_shape)
            images = (
                random.integers(0, 256, shape, np.uint8)
                if engine.input.dtype == np.uint8
                else random.standard_normal(shape, np.float32)
            )
            output = session.run(images)
            engine_times: list[float] = []
            while len(engine_times) < arguments.iterations:  # in parts, between which Ctrl-C ends it
                part = min(_UNINTERRUPTED, arguments.iterations - len(engine_times))
                engine_times += session.time(n, iterations=part)
            call_times = []
            for _ in range(arguments.iterations):
                begin = time.perf_counter()
                session.run(images, output)
                call_times.append(1000 * (time.perf_counter() - begin))
            cases.append(
                {"batch": n, "engine": _statistics(engine_times, n), "host_to_host": _statistics(call_times, n)}
            )
    progress.clear()
    if arguments.json:
        _write_json({"engine": _engine_document(engine), "iterations": arguments.iterations, "cases": cases})
        return EXIT_OK
    _write(repr(engine))
    for case in cases:
        for kind in ("engine", "host_to_host"):
            told = case[kind]
            _write(
                f"batch {case['batch']:4} {kind.replace('_', ' '):12}  median {told['median_ms']:.4f} ms, min "
                f"{told['min_ms']:.4f}, p99 {told['p99_ms']:.4f}; {told['images_per_second']:.0f} images/s"
            )
    return EXIT_OK


_COMMANDS = {"info": _info, "convert": _convert, "classify": _classify, "bench": _bench}


def _fail(code: int, message: object) -> int:
    sys.stderr.write(f"mobicuda: {_printable(str(message))}\n")
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit code. Wrong usage ends in SystemExit(2), by argparse."""
    parsed = _parser().parse_args(arguments)
    try:
        code = _COMMANDS[parsed.command](parsed)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _fail(EXIT_INTERRUPTED, "interrupted")
    except BrokenPipeError:  # e.g. of `| head`; the interpreter must not try again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_RUNTIME
    except mobicuda.DeviceUnavailableError as error:
        return _fail(EXIT_NO_DEVICE, error)
    except (_UsageError, FileNotFoundError, mobicuda.InvalidArgumentError) as error:
        return _fail(EXIT_USAGE, error)
    except (mobicuda.Error, ModuleNotFoundError, OSError, MemoryError) as error:
        return _fail(EXIT_RUNTIME, error)
    except ValueError as error:  # an argument's value, which the engine checks
        return _fail(EXIT_USAGE, error)
