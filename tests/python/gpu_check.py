#!/usr/bin/env python3
"""gpu_check.py MODEL.onnx [OPTION...]: checks the package on a GPU. The stage `python` of scripts/gpu_check runs it.

MODEL is a classifier of float images, e.g. `mobicuda_write_model --output MODEL.onnx --width 0.35 --resolution 96`.
Needs the package and PyTorch with CUDA; JAX and CuPy are used where they are installed. Prints one JSON document: for
each check "ok", "failed: WHY" or "skipped: WHY", and what was measured. Exit codes: 0 no check failed, 1 one did, 4 no
GPU. With --backend cpu, checks that want a GPU are skipped.
"""

import argparse
import concurrent.futures
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import traceback
from importlib import metadata

import numpy as np

import mobicuda


MOST_GROWTH = 32 << 20  # bytes
THREADS = 8


class Skipped(Exception):
    pass


def resident_bytes():
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


class Checks:
    def __init__(self, options):
        self.options = options
        self.random = np.random.default_rng(options.seed)
        self.engine = mobicuda.Engine.from_onnx(
            options.model, backend=options.backend, precision=options.precision, max_batch=8, device=options.device,
            threads=1,
        )
        self.image = self.engine.input.image_shape
        self.report = {
            "version": mobicuda.__version__,
            "devices": [device.name for device in mobicuda.devices()],
            "engine": repr(self.engine),
            "checks": {},
            "measured": {},
        }

    def torch(self):
        if self.options.backend == "cpu":
            raise Skipped("a GPU is wanted")
        try:
            import torch
        except ImportError as error:
            raise Skipped(f"PyTorch: {error}") from None
        if not torch.cuda.is_available():
            raise Skipped("PyTorch has no CUDA here")
        return torch

    def images(self, n):
        return self.random.standard_normal((n, *self.image), np.float32)

    def wanted(self, session, images):
        """By way of the host, each batch size with the kernels that it has on the device."""
        return session.run(np.ascontiguousarray(images))

    def run(self, name, check):
        try:
            check()
            self.report["checks"][name] = "ok"
        except Skipped as reason:
            self.report["checks"][name] = f"skipped: {reason}"
        except Exception:  # noqa: BLE001  the other checks still say something
            self.report["checks"][name] = f"failed: {traceback.format_exc()}"

    # ---- PyTorch's tensors ----------------------------------------------------------------------

    def round_trip(self):
        torch = self.torch()
        device = f"cuda:{self.options.device}"
        with self.engine.create_session() as session, self.engine.create_session() as host:
            for n in (1, 3, 8):
                images = self.images(n)
                x = torch.from_numpy(images).to(device)
                own = session.run(x)
                out = torch.full((n, *self.engine.output.image_shape), float("nan"), device=device)
                assert session.run(x, out) is out
                wanted = self.wanted(host, images)
                for given in (own, out):
                    assert given.device == x.device and given.dtype == torch.float32
                    np.testing.assert_array_equal(given.cpu().numpy(), wanted)
                # The other ways to name a stream.
                stream = torch.cuda.Stream(device)
                for named in (stream, stream.cuda_stream, 0):
                    out.fill_(float("nan"))
                    assert session.run(x, out, stream=named) is out
                    torch.cuda.synchronize()
                    np.testing.assert_array_equal(out.cpu().numpy(), wanted)
                own = session.run(x, stream=stream)
                torch.cuda.synchronize()
                np.testing.assert_array_equal(own.cpu().numpy(), wanted)

    def programs(self):
        """Random programs of reads and writes around runs, on PyTorch's current stream, against the same in NumPy."""
        torch = self.torch()
        device = torch.device(f"cuda:{self.options.device}")
        side = torch.cuda.Stream(device)
        sleep = getattr(torch.cuda, "_sleep", None)
        runs = 0
        with self.engine.create_session() as session, self.engine.create_session() as host:
            for program in range(self.options.programs):
                n = int(self.random.integers(1, 9))
                steps = self.random.integers(0, 6, int(self.random.integers(3, 12)))
                images = self.images(n)
                logits = np.zeros((n, *self.engine.output.image_shape), np.float32)
                stream = side if self.random.integers(2) else torch.cuda.current_stream(device)
                seen, expected = [], []
                with torch.cuda.stream(stream):
                    x = torch.from_numpy(images).to(device)
                    y = torch.zeros(logits.shape, device=device)
                    for step in steps:
                        if step == 0:  # run into a buffer of the program
                            session.run(x, y)
                            logits = self.wanted(host, images)
                        elif step == 1:  # run into one of PyTorch's allocator
                            y = session.run(x)
                            logits = self.wanted(host, images)
                        elif step == 2:  # the input is written right behind a run that reads it
                            x.mul_(-0.5)
                            images = images * np.float32(-0.5)
                        elif step == 3:  # the output is read, and then overwritten
                            seen.append(y.clone())
                            expected.append(logits.copy())
                            y.fill_(7)
                            logits = np.full_like(logits, 7)
                        elif step == 4:  # memory goes back to the allocator, and comes again with other contents
                            del x
                            x = torch.from_numpy(images).to(device)
                        elif sleep is not None:  # so that what follows is enqueued long before it can run
                            sleep(200_000)
                        runs += int(step in (0, 1))
                    seen.append(y.clone())
                    expected.append(logits)
                    stream.synchronize()
                for given, wanted in zip(seen, expected, strict=True):
                    np.testing.assert_array_equal(given.cpu().numpy(), wanted, err_msg=f"program {program}: {steps}")
        self.report["measured"]["programs"] = {"programs": self.options.programs, "runs": runs}
        assert runs > self.options.programs / 2

    def capture(self):
        torch = self.torch()
        device = f"cuda:{self.options.device}"
        images = self.images(2)
        with self.engine.create_session() as session, self.engine.create_session() as host:
            x = torch.from_numpy(images).to(device)
            out = session.run(x)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                session.run(x, out)
            for factor in (1, 2, -3):
                x.copy_(torch.from_numpy(images * np.float32(factor)))
                graph.replay()
                torch.cuda.synchronize()
                np.testing.assert_array_equal(out.cpu().numpy(), self.wanted(host, images * np.float32(factor)))

    def refusals(self):
        torch = self.torch()
        device = f"cuda:{self.options.device}"
        with self.engine.create_session() as session:
            x = torch.zeros((2, *self.image), device=device)
            out = torch.zeros((2, *self.engine.output.image_shape), device=device)
            flat = torch.zeros(x.numel() + 1, device=device)[1:].view(x.shape)  # 4 bytes beyond an aligned address
            for arguments, kind in [
                ((x.double(), out), TypeError),
                ((x.half(), out), TypeError),
                ((x[0], out), ValueError),
                ((x, out[:1]), ValueError),
                ((x, out.double()), TypeError),
                ((x.cpu(), out), TypeError),
                ((x, out.cpu()), TypeError),
                ((x, np.zeros(out.shape, np.float32)), TypeError),
                ((x.transpose(-1, -2), out), ValueError),
                ((flat, out), ValueError),
                ((x.repeat(9, 1, 1, 1),), ValueError),
                ((x[:0],), ValueError),
            ]:
                try:
                    session.run(*arguments)
                except kind:
                    continue
                raise AssertionError(f"{[(tuple(a.shape), str(a.dtype)) for a in arguments]} was taken")
            for stream, kind in [("a", TypeError), (-1, ValueError), (True, TypeError), (1.5, TypeError)]:
                try:
                    session.run(x, out, stream=stream)
                except kind:
                    continue
                raise AssertionError(f"stream {stream!r} was taken")
            assert session.run(x, out) is out

    def call_times(self):
        """The same without Python: what the program --call-times says."""
        if not self.options.call_times:
            raise Skipped("no --call-times")
        options = self.options
        done = subprocess.run(
            [options.call_times, options.model, options.backend, options.precision, str(options.seconds)],
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def python_times(self):
        """Microseconds of a call with one image on the device: alone, until its output is there, and in a row."""
        torch = self.torch()
        device = f"cuda:{self.options.device}"
        calls, whole, in_a_row = [], [], []
        with self.engine.create_session() as session, torch.cuda.stream(torch.cuda.Stream(device)):
            x = torch.zeros((1, *self.image), device=device)
            out = torch.zeros((1, *self.engine.output.image_shape), device=device)
            synchronize = torch.cuda.current_stream(device).synchronize
            for _ in range(50):
                session.run(x, out)
            synchronize()
            for _ in range(300):
                begin = time.perf_counter()
                session.run(x, out)
                calls.append(time.perf_counter() - begin)
                synchronize()
                whole.append(time.perf_counter() - begin)
            for _ in range(20):
                begin = time.perf_counter()
                for _ in range(200):
                    session.run(x, out)
                synchronize()
                in_a_row.append((time.perf_counter() - begin) / 200)
        medians = {"call_us": calls, "whole_us": whole, "in_a_row_us": in_a_row}
        return {name: round(1e6 * statistics.median(times), 2) for name, times in medians.items()}

    def overhead(self):
        """The times of a call beside C++'s, in turn, on one core: what shares a core with another machine's work has half
        of its speed, and which one that is differs from process to process."""
        self.torch()
        cores = os.sched_getaffinity(0)
        turns = []
        for core in sorted(cores)[:3]:
            os.sched_setaffinity(0, {core})  # of this thread, and of the programs that it starts
            try:
                turns.append((self.call_times(), self.python_times()))
            finally:
                os.sched_setaffinity(0, cores)
        measured = self.report["measured"]["overhead"] = {}
        for name in ("call_us", "whole_us", "in_a_row_us"):
            library = statistics.median(cpp[name] for cpp, _ in turns)
            python = statistics.median(own[name] for _, own in turns)
            added = statistics.median(own[name] - cpp[name] for cpp, own in turns)
            measured[name] = {"python": python, "c++": round(library, 2), "added": round(added, 2)}

    def threads_rate(self):
        """Images a second of threads that share one InferenceSession, from host to host, beside C++'s, in turn."""
        session = mobicuda.InferenceSession(
            self.options.model,
            precision=self.options.precision,
            max_batch=8,
            device=self.options.device,
            backend=self.options.backend,
            threads=1,
        )
        name = session.get_inputs()[0].name
        images = self.images(THREADS)
        wanted = [session.run(None, {name: images[i : i + 1]})[0] for i in range(THREADS)]

        def work(i, end):
            done = 0
            while time.perf_counter() < end:
                last = session.run(None, {name: images[i : i + 1]})[0]
                done += 1
            np.testing.assert_array_equal(last, wanted[i])
            return done

        def rate():
            begin = time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
                done = sum(pool.map(work, range(THREADS), [begin + self.options.seconds] * THREADS))
            return done / (time.perf_counter() - begin)

        turns = [(self.call_times()["threads_images_per_second"], rate()) for _ in range(3)]
        library, python = (statistics.median(values) for values in zip(*turns, strict=True))
        self.report["measured"]["threads"] = {
            "python_images_per_second": round(python),
            "c++_images_per_second": round(library),
            "ratio": round(python / library, 3),
        }

    # ---- threads, memory, other frameworks -------------------------------------------------------

    def eight_threads(self):
        torch = self.torch()
        device = f"cuda:{self.options.device}"
        session = mobicuda.InferenceSession(
            self.options.model,
            precision=self.options.precision,
            max_batch=8,
            device=self.options.device,
            backend="custom",
        )
        name = session.get_inputs()[0].name
        batches = [self.images(int(self.random.integers(1, 9))) for _ in range(8)]
        wanted = [session.run(None, {name: batch})[0] for batch in batches]

        def work(i):
            with torch.cuda.stream(torch.cuda.Stream(device)):
                x = torch.from_numpy(batches[i]).to(device)
                for turn in range(50):
                    given = session.run(None, {name: x if turn % 2 else batches[i]})[0]
                    np.testing.assert_array_equal(given.cpu().numpy() if turn % 2 else given, wanted[i])

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))

    def bindings(self):
        torch = self.torch()
        session = mobicuda.InferenceSession(
            self.options.model,
            precision=self.options.precision,
            max_batch=8,
            backend="custom",
            device=self.options.device,
        )
        given, wanted = session.get_inputs()[0].name, session.get_outputs()[0].name
        images = self.images(2)
        x = torch.from_numpy(images).to(f"cuda:{self.options.device}")
        out = torch.zeros((2, *self.engine.output.image_shape), device=x.device)
        torch.cuda.synchronize()
        (expected,) = session.run(None, {given: images})
        for bind_output in (
            lambda b: b.bind_output(wanted, "cuda", self.options.device, np.float32, tuple(out.shape), out.data_ptr()),
            lambda b: b.bind_output(wanted, out),
            lambda b: b.bind_output(wanted),
        ):
            for bind_input in (
                lambda b: b.bind_input(given, "cuda", self.options.device, np.float32, tuple(x.shape), x.data_ptr()),
                lambda b: b.bind_input(given, x),
            ):
                binding = session.io_binding()
                bind_input(binding)
                bind_output(binding)
                out.zero_()
                torch.cuda.synchronize()
                try:
                    session.run_with_iobinding(binding)
                except TypeError:  # memory by its address has no framework that could give an output
                    assert binding._target is None and not isinstance(binding._input, torch.Tensor)
                    continue
                result = out.cpu().numpy() if binding._target is not None else binding.copy_outputs_to_cpu()[0]
                np.testing.assert_array_equal(result, expected)

    def memory(self):
        """Sessions and engines made and freed, over and over: what the device and the process have more of at the end
        than after the first tenth."""
        on_device = self.options.backend == "custom"
        torch = self.torch() if on_device else None
        if on_device:
            x = torch.zeros((2, *self.image), device=f"cuda:{self.options.device}")

        def session_turn(i):
            with self.engine.create_session() as session:
                if i % 10 == 0:  # the rest holds what a session has from the start
                    session.run(x if on_device else self.images(2))
                    session.staged_input(1)
                    session.run_staged(1)

        plan = self.engine.serialize()

        def engine_turn(_):
            mobicuda.Engine.deserialize(plan, device=self.options.device)

        def used():
            gc.collect()
            if not on_device:
                return resident_bytes(), 0
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            free, total = torch.cuda.mem_get_info(self.options.device)
            return resident_bytes(), total - free

        measured = self.report["measured"]["memory"] = {}
        for name, count, turn in (
            ("sessions", self.options.sessions, session_turn),
            ("engines", self.options.engines, engine_turn),
        ):
            for i in range(count):
                if i == count // 10:
                    before = used()
                turn(i)
            host, device = (after - first for after, first in zip(used(), before, strict=True))
            measured[name] = {"count": count, "host_bytes": host, "device_bytes": device}
        assert all(max(one["host_bytes"], one["device_bytes"]) < MOST_GROWTH for one in measured.values()), measured

    def compile_module(self):
        torch = self.torch()
        from mobicuda.torch import compile_module, dynamo_backend

        installed = any(point.name == "mobicuda" for point in metadata.entry_points(group="torch_dynamo_backends"))
        torch.manual_seed(0)
        nn = torch.nn
        module = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU6(),
            nn.Conv2d(16, 16, 3, 1, 1, groups=16),
            nn.ReLU6(),
            nn.Conv2d(16, 32, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )
        module = module.eval().to(f"cuda:{self.options.device}")
        x = torch.randn(4, 3, 64, 64, device=f"cuda:{self.options.device}")
        with torch.no_grad():
            wanted = module(x)
            for name, compiled in (
                ("compile_module", compile_module(module, x)),
                ("torch.compile", torch.compile(module, backend=dynamo_backend)),
                # By its name where the package is installed, rather than on PYTHONPATH.
                ("torch.compile by name", torch.compile(module, backend="mobicuda") if installed else None),
            ):
                if compiled is None:
                    continue
                difference = float((compiled(x) - wanted).abs().max() / wanted.abs().max())
                self.report["measured"].setdefault("compile", {})[name] = difference
                assert difference < 5e-3, f"{name}: {difference}"  # PyTorch's convolutions may use TF32

    def cupy(self):
        try:
            import cupy
        except ImportError as error:
            raise Skipped(f"CuPy: {error}") from None
        images = self.images(3)
        with (
            self.engine.create_session() as session,
            self.engine.create_session() as host,
            cupy.cuda.Device(self.options.device),
        ):
            wanted = self.wanted(host, images)
            x = cupy.asarray(images)
            np.testing.assert_array_equal(session.run(x).get(), wanted)
            with cupy.cuda.Stream(non_blocking=True) as stream:
                y = session.run(x * 1)
                stream.synchronize()
                np.testing.assert_array_equal(y.get(), wanted)

    def jax(self):
        try:
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the memory is not JAX's alone
            import jax
        except ImportError as error:
            raise Skipped(f"JAX: {error}") from None
        if not any(device.platform == "gpu" for device in jax.devices()):
            raise Skipped("JAX has no GPU here")
        torch = self.torch()
        images = self.images(3)
        x = jax.device_put(
            images, [device for device in jax.devices() if device.platform == "gpu"][self.options.device]
        )
        with self.engine.create_session() as session, self.engine.create_session() as host:
            out = torch.zeros((3, *self.engine.output.image_shape), device=f"cuda:{self.options.device}")
            session.run(x, out)
            np.testing.assert_array_equal(out.cpu().numpy(), self.wanted(host, images))
            try:
                session.run(x)
            except TypeError as error:
                assert "out must be given" in str(error)
            else:
                raise AssertionError("an output without out= was given")

    def numba(self):
        """Numba's device arrays, which have no DLPack, by way of PyTorch, which shares their memory."""
        torch = self.torch()
        try:
            from numba import cuda
        except ImportError as error:
            raise Skipped(f"Numba: {error}") from None
        images = self.images(3)
        with self.engine.create_session() as session, self.engine.create_session() as host:
            array = cuda.to_device(images)
            if not hasattr(array, "__dlpack__"):
                try:
                    session.run(array)
                except TypeError as error:
                    assert "__cuda_array_interface__" in str(error), error
                else:
                    raise AssertionError("an array without __dlpack__ was taken")
            x = torch.as_tensor(array, device=f"cuda:{self.options.device}")
            np.testing.assert_array_equal(session.run(x).cpu().numpy(), self.wanted(host, images))


CHECKS = (
    "round_trip",
    "programs",
    "capture",
    "refusals",
    "overhead",
    "eight_threads",
    "threads_rate",
    "bindings",
    "memory",
    "compile_module",
    "cupy",
    "jax",
    "numba",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--checks", default=",".join(CHECKS), help="default all: %(default)s")
    parser.add_argument("--backend", choices=("custom", "cpu"), default="custom")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--programs", type=int, default=1000, help="random ones, default 1000")
    parser.add_argument("--sessions", type=int, default=200, help="made and freed, default 200")
    parser.add_argument("--engines", type=int, default=10, help="made and freed, default 10")
    parser.add_argument("--seconds", type=float, default=1, help="of each rate, default 1")
    parser.add_argument("--call-times", help="the program call_times, for what compares with C++")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = options.checks.split(",")
    if unknown := set(chosen) - set(CHECKS):
        parser.error(f"unknown check {', '.join(sorted(unknown))}; choose from {', '.join(CHECKS)}")
    try:
        checks = Checks(options)
    except mobicuda.DeviceUnavailableError as error:
        print(json.dumps({"error": str(error)}))
        return 4
    for name in CHECKS:
        if name in chosen:
            checks.run(name, getattr(checks, name))
    print(json.dumps(checks.report, indent=2))
    return int(any(told.startswith("failed") for told in checks.report["checks"].values()))


if __name__ == "__main__":
    sys.exit(main())
