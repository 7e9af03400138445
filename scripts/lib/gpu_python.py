"""The stage `python` of scripts/gpu_check: the Python package on the GPU, by tests/python/gpu_check.py (docs/python.md)."""
import json
import os
import pathlib
import subprocess

import gpu_programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "python/mobicuda"
CHECKER = ROOT / "tests/python/gpu_check.py"
NATIVE = "python/mobicuda/_native.*.so"
CALL_TIMES = "tests/python/call_times"

PROGRAMS, SESSIONS, ENGINES = 1000, 10_000, 1000
MOST_ADDED_US = 6
LEAST_RATE = 0.9      # of C++'s threads
MOST_GROWTH = 32      # MiB
FRAMEWORKS = ("cupy", "jax", "numba")
# Name, precision, whether of the real network, checks, and what they take.
RUNS = (("times, fp16", "fp16", True, "overhead,threads_rate", ()),
        ("times, fp32", "fp32", True, "overhead,threads_rate", ()),
        ("everything else", "fp32", False, "round_trip,programs,capture,refusals,eight_threads,bindings,memory,compile_module,"
         + ",".join(FRAMEWORKS), ("--programs", PROGRAMS, "--sessions", SESSIONS, "--engines", ENGINES)))
RUN_SECONDS = 60


def package(build_dir):
    """The folder for PYTHONPATH; of a pack, which has what was compiled, with the modules of this tree beside it."""
    folder = build_dir / "python/mobicuda"
    for module in SOURCES.iterdir():
        link = folder / module.name
        if not link.exists() and module.name != "__pycache__":
            link.symlink_to(module)
    return folder.parent


def build_options(python):
    """CMake's, where that Python has what the package's build takes."""
    found = subprocess.run([python, "-m", "nanobind", "--version"], capture_output=True, check=False).returncode == 0
    return ["-DMOBICUDA_PYTHON=ON", f"-DPython_EXECUTABLE={python}"] if found else []


def small_network(check):
    file = check.out / "python.onnx"
    if not file.exists():
        code, output = check.run([check.program("models/mobicuda_write_model"), "--output", file, "--width", "0.35", "--resolution",
                                  "96"], check.log("python"))
        if code != 0:
            raise SystemExit(f"mobicuda_write_model: exit code {code}: {output[-300:]}")
    return file


def run(check, runs=RUNS, backend="custom"):
    if not gpu_programs.file_of(check.build_dir, NATIVE):
        print("== python: the package was not built (-DMOBICUDA_PYTHON=ON, with nanobind): left out")
        check.unfinished.append("python")
        return
    results = check.record.setdefault("python", {})
    if not check.arguments.missing:
        results.clear()
    environment = {**os.environ, "PYTHONPATH": str(package(check.build_dir))}
    for name, precision, real, checks, options in runs:
        if name in results:
            continue
        if check.time_left() < RUN_SECONDS:
            check.unfinished.append("python")
            continue
        code, output = check.run(
            [check.arguments.python, CHECKER, check.model() if real else small_network(check), "--backend", backend, "--precision",
             precision, "--checks", checks, "--call-times", check.program(CALL_TIMES), *options], check.log("python"),
            timeout=check.arguments.timeout, env=environment)
        try:
            told = json.loads(output[output.index("{\n"):])
        except ValueError:
            check.fail(f"python: {name}: exit code {code}: {output[-600:]}")
            continue
        for of_check, text in told["checks"].items():
            print(f"   {of_check}: {text}", flush=True)
            if text.startswith("failed"):
                check.fail(f"python: {name}: {of_check}: {text[-600:]}")
        print(f"   {json.dumps(told['measured'])}", flush=True)
        results[name] = {"precision": precision, "checks": {of_check: text.splitlines()[0][:200] for of_check, text in
                                                            told["checks"].items()}, "measured": told["measured"]}
        check.save()


def requirements(record, add):
    """Calls add(name, target, measured, met) for what was measured."""
    results = record.get("python") or {}
    for one in results.values():
        measured, precision = one["measured"], one["precision"]
        if "overhead" in measured:
            times = measured["overhead"]
            most = max(one["added"] for one in times.values())
            add(f"python: Session.run on device tensors, {precision} batch 1, against C++", f"<= {MOST_ADDED_US} us more",
                ", ".join(f"{what} {times[name]['added']:+.1f} us ({times[name]['python']:.1f} / {times[name]['c++']:.1f})"
                          for name, what in (("call_us", "the call"), ("whole_us", "until the output is there"),
                                             ("in_a_row_us", "in a row"))), most <= MOST_ADDED_US)
        if "threads" in measured:
            threads = measured["threads"]
            add(f"python: 8 threads on one InferenceSession, {precision}, one image from host to host", f">= {LEAST_RATE} of C++'s rate",
                f"{threads['ratio']:.2f} ({threads['python_images_per_second']:,} / {threads['c++_images_per_second']:,} img/s)",
                threads["ratio"] >= LEAST_RATE)
        if "programs" in one["checks"]:
            programs = measured.get("programs", {"programs": 0, "runs": 0})
            add("python: random programs of reads and writes around run, on PyTorch's current stream", f"{PROGRAMS:,}, every bit right",
                f"{programs['programs']:,} programs, {programs['runs']:,} runs: {one['checks']['programs']}",
                one["checks"]["programs"] == "ok" and programs["programs"] >= PROGRAMS)
        if "memory" in measured:
            grown = measured["memory"]
            add("python: sessions and engines made and freed", f"{SESSIONS:,} and {ENGINES:,}, grows by <= {MOST_GROWTH} MiB after a tenth",
                "; ".join(f"{what['count']:,} {name}: host {what['host_bytes'] / 2**20:+.1f} MiB, GPU {what['device_bytes'] / 2**20:+.1f} MiB"
                          for name, what in grown.items()),
                len(grown) == 2 and grown["sessions"]["count"] >= SESSIONS and grown["engines"]["count"] >= ENGINES
                and all(max(what["host_bytes"], what["device_bytes"]) <= MOST_GROWTH << 20 for what in grown.values()))
        others = {name: text for name, text in one["checks"].items() if name not in ("overhead", "threads_rate", "programs", "memory")}
        if others:
            failed = {name: text for name, text in others.items() if text != "ok"}
            add("python: tensors of PyTorch, CuPy, JAX and Numba, capture, refusals, bindings, compiled modules", "ok",
                f"{len(others) - len(failed)} of {len(others)} ok" + "".join(f"; {name}: {text}" for name, text in failed.items()), not failed)
