"""python -m mobicuda.ray CONFIG: mobicuda_stream over several machines."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

import mobicuda
from mobicuda.command_line import EXIT_INTERRUPTED, EXIT_NO_DEVICE, EXIT_OK, EXIT_RUNTIME, EXIT_USAGE
from mobicuda.ray.config import load_config
from mobicuda.ray.machines import run_stream

_PROGRAM = "python -m mobicuda.ray"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Classifies a stream of pictures, each with a model picked at random by share, on the GPUs or CPUs "
        "of Ray's machines. docs/stream.md tells what the configuration holds, docs/ray.md what differs here.",
        epilog="exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 4 fewer GPUs than asked for, 130 "
        "interrupted",
    )
    parser.add_argument("config", metavar="CONFIG", help="the configuration, a JSON file")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="goes on with the results in result_dir: what they hold is not classified again",
    )
    parser.add_argument(
        "--address",
        help="of the Ray cluster; by default RAY_ADDRESS, else a cluster that this machine is part of, else this "
        "machine alone",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress and no remarks on stderr")
    parser.add_argument("--version", action="version", version=mobicuda.__version__)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit code. Wrong usage ends in SystemExit(2), by argparse."""
    parsed = _parser().parse_args(arguments)
    shown = sys.stderr.isatty() and not parsed.quiet

    def log(text: str) -> None:
        if not parsed.quiet:
            sys.stderr.write(f"{_PROGRAM}: {text}\n")

    def progress(done: int, items: int) -> None:
        if shown:
            sys.stderr.write(f"\r{done} of {items} pictures" + ("\n" if done == items else ""))

    def fail(code: int, what: object) -> int:
        sys.stderr.write(f"{_PROGRAM}: {what}\n")
        return code

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        config = load_config(parsed.config)
        summary = run_stream(config, resume=parsed.resume, address=parsed.address, log=log, progress=progress)
    except KeyboardInterrupt:
        return fail(EXIT_INTERRUPTED, "interrupted")
    except mobicuda.InvalidArgumentError as error:
        return fail(EXIT_USAGE, error)
    except mobicuda.DeviceUnavailableError as error:
        return fail(EXIT_NO_DEVICE, error)
    except (mobicuda.Error, ModuleNotFoundError, OSError, MemoryError, ValueError) as error:
        return fail(EXIT_RUNTIME, error)
    left = summary["pictures"] - summary["doneBefore"] - summary["done"]
    if summary["done"] == left == 0:
        print(f"all {summary['pictures']} pictures were done before")
        return EXIT_OK
    print(
        f"{summary['done']} pictures in {summary['seconds']:.1f} s, with the start of actors and the loading of models"
        + (f"; {summary['failed']} could not be classified, results.jsonl says why" if summary["failed"] else "")
        + (f"; {summary['doneBefore']} were done before" if summary["doneBefore"] else "")
    )
    for one in summary["processors"]:
        processor = "CPU" if one["gpu"] is None else f"GPU {one['gpu']}"
        print(f"{one['machine']} {processor}: {one['pictures']} pictures")
    for name, why in summary["lost"].items():
        print(f"{name} stopped before the end, others took over: {why}")
    if summary["interrupted"]:
        print(f"{left} pictures are left: --resume goes on")
        return EXIT_INTERRUPTED
    if summary["failed"] == summary["done"]:
        return fail(EXIT_RUNTIME, "no picture could be classified")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
