"""The stage `python` of scripts/gpu_check on the CPU engine: that it measures, and what it makes of it."""

import json
import os
import pathlib
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts/lib"))
import gpu_python  # noqa: E402


class Check:
    """What the stage uses of gpu_check's."""

    def __init__(self, folder):
        self.out, self.build_dir, self.record, self.unfinished, self.failures = folder, folder, {}, [], []
        self.arguments = types.SimpleNamespace(missing=False, python=sys.executable, timeout=300)
        # As scripts/gpu_pack leaves it: what was compiled, and none of the modules.
        native = folder / "python/mobicuda"
        native.mkdir(parents=True)
        for file in pathlib.Path(os.environ["PYTHONPATH"].split(":")[0]).glob("mobicuda/_native.*.so"):
            (native / file.name).symlink_to(file.resolve())

    def program(self, name):
        variable = {"models/mobicuda_write_model": "MOBICUDA_WRITE_MODEL", gpu_python.CALL_TIMES: "MOBICUDA_CALL_TIMES"}
        return pathlib.Path(os.environ[variable[name]])

    def log(self, name):
        return self.out / f"{name}.log"

    def time_left(self):
        return float("inf")

    def fail(self, what):
        self.failures.append(what)

    def save(self):
        json.dumps(self.record)

    def run(self, command, log, timeout=None, env=None):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=env)
        return done.returncode, done.stdout + done.stderr


def rows_of(record):
    rows = {}
    gpu_python.requirements(record, lambda name, target, measured, met: rows.update({name: (measured, met)}))
    return rows


def test_the_stage_on_the_cpu_engine(tmp_path):
    check = Check(tmp_path)
    options = ("--sessions", "20", "--engines", "10", "--seconds", "0.2")
    gpu_python.run(check, runs=(("short", "fp32", False, "threads_rate,memory,programs", options),), backend="cpu")
    assert (check.failures, check.unfinished) == ([], [])
    rows = rows_of(check.record)
    assert len(rows) == 3, rows
    assert check.record["python"]["short"]["checks"] == {
        "programs": "skipped: a GPU is wanted",
        "threads_rate": "ok",
        "memory": "ok",
    }
    # Fewer than asked for: never met, whatever they took.
    assert not any(met for name, (_, met) in rows.items() if "threads" not in name), rows


def test_without_the_package(tmp_path, capsys):
    check = Check(tmp_path)
    for file in (tmp_path / "python/mobicuda").iterdir():
        file.unlink()
    gpu_python.run(check)
    assert check.unfinished == ["python"] and "was not built" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("added", "ratio", "grown", "met"), [(5.9, 0.91, 31 << 20, True), (6.1, 0.89, 33 << 20, False)]
)
def test_what_is_met(added, ratio, grown, met):
    time = {"python": 50.0, "c++": 45.0, "added": added}
    memory = {"host_bytes": 0, "device_bytes": grown}
    measured = {
        "overhead": {"call_us": time, "whole_us": time, "in_a_row_us": time},
        "threads": {"python_images_per_second": 9, "c++_images_per_second": 10, "ratio": ratio},
        "programs": {"programs": gpu_python.PROGRAMS - (not met), "runs": 9},
        "memory": {
            "sessions": {"count": gpu_python.SESSIONS, **memory},
            "engines": {"count": gpu_python.ENGINES, **memory},
        },
    }
    checks = {"programs": "ok", "jax": "ok" if met else "skipped"}
    rows = rows_of({"python": {"all": {"precision": "fp16", "checks": checks, "measured": measured}}})
    assert len(rows) == 5 and all(row[1] is met for row in rows.values()), rows
