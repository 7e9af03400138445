"""The package itself: its symbols, types, examples, and what it says of the machine."""

import doctest
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import mobicuda
from mobicuda import _native

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(mobicuda.__file__).parent
MODULES = [
    "mobicuda",
    "mobicuda.engine",
    "mobicuda.errors",
    "mobicuda.inference_session",
    "mobicuda.machine",
    "mobicuda.pictures",
    "mobicuda.command_line",
    "mobicuda.ray",
    "mobicuda.ray.batches",
    "mobicuda.ray.classifier",
    "mobicuda.ray.cluster",
    "mobicuda.ray.config",
    "mobicuda.ray.data",
    "mobicuda.ray.inference_protocol",
    "mobicuda.ray.machines",
    "mobicuda.ray.serve_config",
    "mobicuda.ray.stream",
    "mobicuda._arrays",
    "mobicuda._options",
]


def test_the_module_exports_its_entry_alone():
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", _native.__file__], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[-1] for line in symbols.splitlines()] == ["PyInit__native"]


def test_version():
    version = re.search(r"project\(mobicuda VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert mobicuda.__version__ == mobicuda.version == version


def test_all_names_are_there_and_documented():
    for module in map(importlib.import_module, MODULES):
        assert module.__doc__
        for name in getattr(module, "__all__", []):
            getattr(module, name)
    for kind in (mobicuda.Engine, mobicuda.Session, mobicuda.InferenceSession):
        for name, member in vars(kind).items():
            if (
                not name.startswith("_")
                and callable(member)
                and name not in ("get_inputs", "get_outputs", "io_binding")
            ):
                assert member.__doc__, f"{kind.__name__}.{name}"


def test_devices_and_operators():
    *gpus, cpu = mobicuda.devices()
    assert cpu.backend == "cpu" and cpu.usable and cpu.name and cpu.memory_bytes > 0 and cpu.reason == ""
    assert gpus and all(gpu.backend == "custom" and gpu.usable == (gpu.reason == "") for gpu in gpus)
    operators = mobicuda.supported_operators()
    assert [operator.name for operator in operators] == sorted(operator.name for operator in operators)
    documented = (ROOT / "docs" / "onnx.md").read_text()
    table = documented[documented.index("| Operator | Opsets |") :].split("\n\n")[0]
    names = {
        name
        for line in table.splitlines()[2:]
        for name in re.findall(r"[A-Z]\w+", line.split("|")[1])
    }
    # The page tells an operator's domain beside its opsets.
    assert {operator.name.rpartition(".")[2] for operator in operators} == names
    conv = next(operator for operator in operators if operator.name == "Conv")
    assert (conv.first_opset, conv.last_opset) == (6, 28)


def test_headers_are_in_an_installed_package_only():
    for folder in (mobicuda.get_include, mobicuda.get_cmake_dir):
        if (PACKAGE / "include").is_dir():
            assert os.path.isdir(folder())
        else:
            with pytest.raises(RuntimeError, match="pip install"):
                folder()


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_types(checker, tmp_path):
    if checker == "mypy":
        pytest.importorskip("mypy", reason="mypy is not installed")
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            ROOT / "pyproject.toml",
            "--cache-dir",
            tmp_path,
            "-p",
            "mobicuda",
        ]
    else:
        program = pathlib.Path(sys.executable).with_name("pyright")
        if not program.exists():
            pytest.skip("pyright is not installed")
        command = [program, "--pythonpath", sys.executable, PACKAGE]
    ended = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_examples(module, mobilenet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(mobilenet, "mobilenet_v2.onnx")
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_tutorial(mobilenet, tmp_path, monkeypatch):
    """docs/python.md, from its first example to its last."""
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    monkeypatch.chdir(tmp_path)
    shutil.copy(mobilenet, "mobilenet_v2.onnx")
    os.mkdir("pictures")
    for i in range(3):
        image.fromarray(np.random.default_rng(i).integers(0, 256, (200, 300, 3), np.uint8)).save(f"pictures/{i}.jpg")
    pathlib.Path("pictures/broken.jpg").write_bytes(b"no picture")
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, ran = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False, optionflags=options)
    assert failed == 0 and ran > 20


def test_the_readme_s_example(mobilenet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(mobilenet, "mobilenet_v2.onnx")
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    names = {"pictures": np.zeros((2, 3, 96, 96), np.float32)}
    exec(compile(example.replace('precision="fp16"', 'precision="fp32"'), "README.md", "exec"), names)
    assert names["logits"].shape == (2, 1000)
