"""Machines of Ray's that are killed while mobicuda.ray classifies on them: every row once, and right. Each in a cluster
of its own (ray_nodes.py), which takes a minute: with MOBICUDA_RAY_KILLS, which says how many."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

KILLS = int(os.environ.get("MOBICUDA_RAY_KILLS", "0"))
if not KILLS:
    pytest.skip("MOBICUDA_RAY_KILLS, how many machines of Ray's are killed, is not set", allow_module_level=True)
pytest.importorskip("ray", reason="Ray is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("PIL.Image", reason="pillow, which makes the pictures, is not installed")
from mobicuda import _native  # noqa: E402

if not _native.has_pictures:
    pytest.skip("libmobicuda_pictures was not built", allow_module_level=True)

import ray_kills  # noqa: E402
from ray_processes import children, kill  # noqa: E402

PROGRAM = pathlib.Path(__file__).resolve().parent / "ray_nodes.py"
MOST_SECONDS = 300


def kill_a_machine(*arguments):
    """What ray_nodes.py tells."""
    command = [sys.executable, PROGRAM, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            told, log = program.communicate(timeout=MOST_SECONDS)
        except BaseException:
            kill([*children(program.pid), program.pid])
            raise
    assert program.returncode == 0, log
    return json.loads(told.splitlines()[-1])


def outcome_of(told):
    return told if isinstance(told, str) else [(label, score) for label, score in told]


def test_no_row_is_lost_when_machines_are_killed(write_model, tmp_path):
    folder, model = ray_kills.write_pictures(tmp_path / "pictures"), write_model(*ray_kills.MODEL)
    expected = {kind: ray_kills.expected_of(kind, folder, model) for kind in ray_kills.AT_WORK}
    total = {kind: {} for kind in expected}
    for number in range(KILLS):
        (tmp_path / f"{number}").mkdir()
        told = kill_a_machine(folder, model, tmp_path / f"{number}", number)
        for kind, right in expected.items():
            one = told[kind]
            counts = ray_kills.compare([(name, outcome_of(outcome)) for name, outcome in one["found"]], right)
            print(time.strftime("%X"), kind, counts, {name: one[name] for name in one if name != "found"}, flush=True)
            assert counts == ray_kills.all_right(ray_kills.PICTURES)
            assert "raylet" in one["killed"] and ray_kills.AT_WORK[kind] in one["killed"]
            assert one["others"] >= 2  # both of classify(), of which one came back; those of the stream that are left
            for name, count in {**counts, "seconds": one["seconds"]}.items():
                total[kind][name] = total[kind].get(name, 0) + count
    print(f"{KILLS} machines killed in each: {total}")
