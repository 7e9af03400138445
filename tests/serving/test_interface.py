"""The backend's library beside the server's: what it takes from it, and what it gives."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]


def symbols(file, *options):
    listed = subprocess.run(["nm", "-D", *options, file], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines()}


def test_the_server_has_every_function_that_is_declared():
    declared = set(re.findall(r"\b(TRITON(?:BACKEND|SERVER)_\w+)\(", (ROOT / "serving/triton/triton_api.h").read_text()))
    server = next(pathlib.Path(os.environ["MOBICUDA_TRITON_SERVER"], "nvidia_pytriton.libs").glob("libtritonserver-*.so"))
    assert len(declared) > 40
    assert declared <= symbols(server, "--defined-only")
    backend = pathlib.Path(os.environ["MOBICUDA_TRITON_BACKENDS"], "mobicuda/libtriton_mobicuda.so")
    used = {name for name in symbols(backend, "--undefined-only") if name.startswith("TRITON")}
    assert used == declared


def test_the_backend_gives_what_the_server_asks_for_and_nothing_else():
    backend = pathlib.Path(os.environ["MOBICUDA_TRITON_BACKENDS"], "mobicuda/libtriton_mobicuda.so")
    assert symbols(backend, "--defined-only") == {f"TRITONBACKEND_{name}" for name in (
        "Initialize", "Finalize", "GetBackendAttribute", "ModelInitialize", "ModelFinalize", "ModelInstanceInitialize",
        "ModelInstanceFinalize", "ModelInstanceExecute")}
