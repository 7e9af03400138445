#!/usr/bin/env python3
"""check_peers.py PEERS BENCH_ENGINE REPORT: the peers' documents, with a trtexec and an onnx that are only pretended."""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

peers, bench_engine, report = pathlib.Path(sys.argv[1]), *map(pathlib.Path, sys.argv[2:])
sys.path.insert(0, str(peers))
sys.dont_write_bytecode = True
import peer  # noqa: E402

# Batch 8 fails as TensorRT does, every other writes the times of 200 runs.
TRTEXEC = """#!{python}
import json, sys
options = dict(argument.lstrip("-").split("=", 1) for argument in sys.argv[1:] if "=" in argument)
assert "--useCudaGraph" in sys.argv and "--noDataTransfers" in sys.argv and options["iterations"] == "200"
batch = int(options["shapes"].split(":")[1].split("x")[0])
print("[I] TensorRT version: 10.13.3")
if batch == 8:
    sys.exit("[11/21/2026-12:00:00] [E] Error[2]: out of memory")
json.dump([{{"computeMs": 0.1 * batch + 0.001 * i}} for i in range(200)], open(options["exportTimes"], "w"))
"""
ONNX = """
class Thing:
    def __init__(self, **values): self.__dict__.update(values)
def load(path, load_external_data=True):
    shape = Thing(dim=[Thing(dim_value=extent) for extent in (0, 3, 224, 224)])
    value = Thing(name="input", type=Thing(tensor_type=Thing(shape=shape)))
    return Thing(graph=Thing(initializer=[Thing(name="w")], input=[value, Thing(name="w")]))
"""


def run(folder, *command, path=""):
    environment = {**os.environ, "PYTHONPATH": str(folder), "PATH": path or os.environ["PATH"],
                   "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


def check_statistics():
    statistics = peer.statistics_of([5.0, 1.0, 4.0, 2.0])
    assert statistics == {"median_us": 3.0, "mean_us": 3.0, "p90_us": 5.0, "runs": 4}, statistics
    assert peer.statistics_of(range(1, 11))["p90_us"] == 9
    assert peer.shape_for([0, 3, 8, 8], 4) == [4, 3, 8, 8]
    for extents in ([1, 3, 8, 8], [0, 3, 0, 8]):
        try:
            peer.shape_for(extents, 4)
        except ValueError:
            continue
        raise AssertionError(extents)


def check_pictures(folder):
    """Without an engine: what is absent, and what is refused."""
    script = peers / "pictures_peer.py"
    pictures = folder / "pictures"
    pictures.mkdir()
    (pictures / "notes.txt").write_text("no picture")
    code, text = run(folder, script, "--pictures", pictures)
    assert code == 2 and "holds no JPEG file" in text, text
    (pictures / "a.JPG").write_bytes(b"")
    for options, said in ((["--modes", "nonsense"], "nonsense"), (["--workers", "0"], "--workers"), (["--pictures", "absent"], "absent")):
        code, text = run(folder, script, "--pictures", pictures, *options)
        assert code == 2 and said in text, text
    for torch, said in (("raise ImportError('no', name='torch')", "torch is not installed"),
                        ("import types\n__version__ = '2'\ncuda = types.SimpleNamespace(is_available=lambda: False)", "no CUDA device")):
        (folder / "torch.py").write_text(torch)
        (folder / "torchvision.py").write_text("__version__ = '1'")
        file = folder / "pictures.json"
        code, text = run(folder, script, "--pictures", pictures, "--json", file)
        document = json.loads(file.read_text())
        assert code == 4 and document["absent"][0]["mode"] == "" and said in document["absent"][0]["reason"], text
    for name in ("torch.py", "torchvision.py"):
        (folder / name).unlink()


def check_tensorrt(folder):
    program = folder / "trtexec"
    program.write_text(TRTEXEC.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (folder / "onnx.py").write_text(ONNX)
    out = folder / "trt.json"
    command = [peers / "tensorrt_peer.py", "--model", program, "--precisions", "fp16,fp32", "--batches", "1,8", "--runs",
               "200", "--json", out]
    code, output = run(folder, *command, "--trtexec", program)
    assert code == peer.EXIT_FAILED, (code, output)
    document = json.loads(out.read_text())
    assert document["version"] == "10.13.3", document
    assert [(row["precision"], row["batch"], row["runs"]) for row in document["results"]] == [("fp16", 1, 200),
                                                                                             ("fp32", 1, 200)]
    assert abs(document["results"][0]["median_us"] - 199.5) < 1e-6, document["results"][0]
    assert "out of memory" in document["failed"][0]["error"], document["failed"]
    assert not document["left"], document
    measured = document["results"]
    code, output = run(folder, *command, "--trtexec", program, "--resume", "--time-limit", "0")
    document = json.loads(out.read_text())
    assert code == 0 and "left to a later call: 2 configurations" in output, (code, output)
    assert document["results"] == measured and [row["batch"] for row in document["left"]] == [8, 8], document
    code, output = run(folder, *command, path=str(folder / "nowhere"))
    document = json.loads(out.read_text())
    if pathlib.Path("/usr/src/tensorrt/bin/trtexec").exists():
        return
    assert code == peer.EXIT_ABSENT and "no trtexec" in document["absent"][0]["reason"], (code, output)


def check_absent(folder):
    for name in ("onnxruntime", "torch", "jax"):
        (folder / f"{name}.py").write_text(f"raise ImportError('no', name='{name}')\n")
    (folder / "onnx.py").write_text(ONNX)
    documents = []
    for script, options in (("onnxruntime_peer", ["--model", folder / "onnx.py"]), ("pytorch", []),
                            ("jax_peer", ["--model", folder / "onnx.py"])):
        out = folder / f"{script}.json"
        code, output = run(folder, peers / f"{script}.py", *options, "--json", out)
        document = json.loads(out.read_text())
        assert code == peer.EXIT_ABSENT and "is not installed" in document["absent"][0]["reason"], (code, output)
        documents.append(str(out))
    done = subprocess.run([bench_engine, "report", report, "--peers", ",".join(documents)], capture_output=True, text=True,
                          check=True)
    assert "absent: ONNX Runtime: onnxruntime is not installed" in done.stdout, done.stdout
    assert "absent: JAX: jax is not installed" in done.stdout, done.stdout
    assert "absent: PyTorch: PyTorch is not installed" in done.stdout, done.stdout


with tempfile.TemporaryDirectory() as temporary:
    check_statistics()
    check_pictures(pathlib.Path(temporary))
    check_tensorrt(pathlib.Path(temporary))
    check_absent(pathlib.Path(temporary))
