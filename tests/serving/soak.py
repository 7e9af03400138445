"""A server on the CPU engine under load for as long as it is told, while three other models are loaded, changed and unloaded over
and over: the part `models` of scripts/gpu_check's stage `serving`, with a small network, where there is no GPU.

  MOBICUDA_BUILD_FOLDER=build MOBICUDA_TRITON_SERVER=~/.cache/mobicuda/serving-*/triton \\
    ~/.cache/mobicuda/serving-*/bin/python tests/serving/soak.py SECONDS

Prints the requirement with its figures; exit codes: 0 met, 1 not met.
"""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lib"))

import gpu_serving
from test_gpu_stage import SMALL, Check


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    gpu_serving.default_triton = lambda _: pathlib.Path(os.environ["MOBICUDA_TRITON_SERVER"])
    with tempfile.TemporaryDirectory() as folder:
        check = Check(pathlib.Path(folder))
        scale = gpu_serving.Scale(gpu=False, soak_seconds=int(sys.argv[1]), precisions=("fp32", "fp32"), model=SMALL)
        gpu_serving.run(check, scale, ("models",))
        rows = []
        gpu_serving.requirements(check.record, lambda *row: rows.append(row))
    for name, target, measured, met in rows:
        print(f"{'met' if met else 'MISSED'}: {name}: {target}: {measured}")
    for failure in check.failures:
        print(failure)
    return 0 if rows and not check.failures and all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
