"""The stage `serving` of scripts/gpu_check on the CPU engine: that it measures, and what it makes of it."""

import json
import os
import pathlib
import subprocess
import sys
import types

import pytest
from conftest import encoded

import gpu_serving

BUILD = pathlib.Path(os.environ["MOBICUDA_BUILD_FOLDER"])
SMALL = ("--width", "0.35", "--resolution", "32", "--classes", "10")


class Check:
    """What the stage uses of gpu_check's."""

    def __init__(self, folder):
        self.out, self.build_dir, self.record, self.unfinished, self.failures = folder, BUILD, {}, [], []
        self.arguments = types.SimpleNamespace(missing=False, python=sys.executable)
        (folder / "pictures").mkdir()
        for i in range(8):
            (folder / f"pictures/{i}.jpg").write_bytes(encoded(i))

    def program(self, name):
        return self.build_dir / name

    def log(self, name):
        return self.out / f"{name}.log"

    def picture_folder(self):
        return self.out / "pictures"

    def time_left(self):
        return float("inf")

    def fail(self, what):
        self.failures.append(what)

    def save(self):
        json.dumps(self.record)

    def run(self, command, log):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def bench_engine(self, name, *options):
        file = self.out / f"{name}.json"
        code, output = self.run([self.program("bench/bench_engine"), "--json", file, *options], None)
        assert code == 0, output
        return json.loads(file.read_text())


@pytest.mark.skipif(not (BUILD / gpu_serving.LOAD).exists(), reason="serving_load was not built: no grpc++")
def test_the_stage_on_the_cpu_engine(folder, monkeypatch):
    monkeypatch.setattr(gpu_serving, "CLIENTS", 8)
    monkeypatch.setattr(gpu_serving, "default_triton", lambda _: pathlib.Path(os.environ["MOBICUDA_TRITON_SERVER"]))
    check = Check(folder)
    scale = gpu_serving.Scale(
        gpu=False,
        seconds=0.4,
        warm_up=0.1,
        instances=(1,),
        large_instances=(1,),
        overload_seconds=1,
        kills=1,
        soak_seconds=1.5,
        precisions=("fp32", "fp32"),
        model=SMALL,
    )
    gpu_serving.run(check, scale)
    assert (check.failures, check.unfinished) == ([], [])
    rows = []
    gpu_serving.requirements(check.record, lambda *row: rows.append(row))
    text = "\n".join(f"{met} {name}: {target}: {measured}" for name, target, measured, met in rows)
    assert len(rows) == 9, text
    print(text)
    # Rates and times depend on what else the machine does; that nothing is wrong, lost or refused otherwise does not.
    told = {name: measured for name, _, measured, _ in rows}
    assert all("0 wrong" in told[name] for name in told if "image a request" in name or "JPEG" in name), text
    assert set(check.record["serving"]["overload"]["over"]["statuses"]) == {"OK", "UNAVAILABLE"}, text
    assert all(met for name, _, _, met in rows if "kill -9" in name or "loaded, changed" in name), text
