"""python -m mobicuda: what it prints, and its exit codes."""

import json
import os
import pty
import subprocess
import sys

import numpy as np
import pytest

import mobicuda
from mobicuda.command_line import main


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "mobicuda", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        **options,
    )


def document(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_info(capsys, mobilenet):
    told = document(capsys, "info", "--operators")
    assert told["version"] == mobicuda.__version__
    assert [device["backend"] for device in told["devices"]][-1] == "cpu" and len(told["operators"]) > 40
    told = document(capsys, "info", mobilenet, "--layers", "--backend", "cpu", "--max-batch", 3)
    assert told["engine"]["max_batch"] == 3 and told["engine"]["inputs"][0]["shape"] == [None, 3, 96, 96]
    assert told["layers"][-1]["value"] == "output"
    assert main(["info", "--operators"]) == 0
    assert "Conv: opset" in capsys.readouterr().out
    assert main(["info", str(mobilenet), "--backend", "cpu", "--layers"]) == 0
    assert "<mobicuda.Engine cpu fp32" in capsys.readouterr().out


def test_convert_bench_and_classify(capsys, mobilenet, tmp_path):
    plan = tmp_path / "v2.plan"
    told = document(capsys, "convert", mobilenet, plan, "--backend", "cpu", "--max-batch", 2, "--bytes", "tf")
    assert told["bytes"] == plan.stat().st_size and told["engine"]["inputs"][0]["dtype"] == "uint8"
    told = document(capsys, "bench", plan, "--batch", "1,2", "--iterations", 3)
    assert [case["batch"] for case in told["cases"]] == [1, 2]
    for case in told["cases"]:
        for kind in ("engine", "host_to_host"):
            assert 0 < case[kind]["min_ms"] <= case[kind]["median_ms"] <= case[kind]["p99_ms"]
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    (tmp_path / "pictures").mkdir()
    for name in ("a.png", "b\x1b[31m.png"):
        image.new("RGB", (100, 120), "red").save(tmp_path / "pictures" / name)
    (tmp_path / "pictures" / "c.png").touch()
    told = document(capsys, "classify", plan, tmp_path / "pictures", "--top-k", 2)
    assert [picture["name"] for picture in told["pictures"]] == ["a.png", "b\x1b[31m.png"]
    assert len(told["pictures"][0]["classes"]) == 2 and told["broken"][0]["name"] == "c.png"
    ended = run("classify", plan, tmp_path / "pictures")
    assert ended.returncode == 0 and "\x1b" not in ended.stdout and "b\\x1b[31m.png: " in ended.stdout
    assert ended.stderr.startswith("c.png: ") and len(ended.stdout.splitlines()) == 2
    assert run("classify", plan, tmp_path / "pictures" / "c.png").returncode == 1


@pytest.mark.parametrize(
    "arguments, code, text",
    [
        (["--help"], 0, "exit codes"),
        (["bench", "--help"], 0, "--iterations"),
        (["--version"], 0, mobicuda.__version__),
        ([], 2, "usage"),
        (["wrong"], 2, "invalid choice"),
        (["info", "MISSING"], 2, "MISSING: there is no such file"),
        (["info", "MODEL", "--max-batch", "0"], 2, "must be 1 or more"),
        (["info", "MODEL", "--max-batch", "99999999", "--backend", "cpu"], 2, "must be 1 to 65536"),
        (["info", "MODEL", "--device", "-1"], 2, "device must be 0"),
        (["info", "MODEL", "--precision", "fp16", "--backend", "cpu"], 1, "unsupported"),
        (["info", __file__], 1, "invalid_model"),
        (["convert", "MODEL", "/no/such/folder/v2.plan", "--backend", "cpu"], 1, "io: "),
        (["bench", "MODEL", "--batch", "1,x"], 2, "must be numbers"),
        (
            ["bench", "MODEL", "--batch", "4", "--max-batch", "2", "--backend", "cpu"],
            2,
            "more than the engine's max_batch",
        ),
        (["classify", "MODEL", "/no/such/picture.jpg", "--backend", "cpu"], 1, "No such file"),
        (["classify", "MODEL", ".", "--labels", "/no/such/labels"], 2, "No such file"),
    ],
)
def test_exit_codes(mobilenet, capsys, arguments, code, text):
    arguments = [str(mobilenet) if argument == "MODEL" else argument for argument in arguments]
    try:
        ended = main(arguments)
    except SystemExit as exit:
        ended = exit.code
    told = capsys.readouterr()
    assert ended == code and text in told.out + told.err


def test_no_device_is_4(mobilenet, capsys):
    if mobicuda.devices()[0].usable:
        pytest.skip("there is a GPU")
    assert main(["info", str(mobilenet), "--backend", "custom"]) == 4
    assert capsys.readouterr().err.startswith("mobicuda: device_unavailable: ")


def test_ctrl_c(mobilenet):
    program = """
import os, signal, sys, threading
from mobicuda.command_line import main
timer = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
timer.daemon = True
timer.start()
sys.exit(main(sys.argv[1:]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, "bench", mobilenet, "--backend", "cpu", "--iterations", "1000000000"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ended.returncode, ended.stderr) == (130, "mobicuda: interrupted\n")


def test_a_reader_that_leaves(mobilenet):
    ended = subprocess.run(
        f"{sys.executable} -m mobicuda info {mobilenet} --backend cpu --layers | head -n 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == "" and ended.stdout.splitlines()[1] in ("0", "1")


def test_progress_is_for_terminals(mobilenet, tmp_path):
    master, slave = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "mobicuda", "bench", mobilenet, "--backend", "cpu", "--iterations", "2"],
        stdout=subprocess.DEVNULL,
        stderr=slave,
        check=True,
    )
    os.close(slave)
    told = os.read(master, 4096)
    os.close(master)
    assert b"batch 1" in told and told.endswith(b"\r")
    assert run("bench", mobilenet, "--backend", "cpu", "--iterations", "2").stderr == ""


def test_numbers_are_those_of_the_library(mobilenet, capsys, tmp_path):
    """The plan that the command line writes is the engine that the package makes."""
    main(["convert", str(mobilenet), str(tmp_path / "v2.plan"), "--backend", "cpu", "--threads", "1"])
    capsys.readouterr()
    x = np.random.default_rng(0).standard_normal((1, 3, 96, 96), np.float32)
    wanted = mobicuda.Engine.from_onnx(mobilenet, backend="cpu").create_session().run(x)
    np.testing.assert_array_equal(mobicuda.Engine.load(tmp_path / "v2.plan").create_session().run(x), wanted)
