"""What lives how long: memory, forks, the interpreter's end."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import mobicuda
from conftest import in_threads


def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def grows_by_kib(work, turns):
    """What `turns` of `work` add to the process, after as many that fill its caches."""
    for _ in range(turns):
        work()
    gc.collect()
    before = resident_kib()
    for _ in range(turns):
        work()
    gc.collect()
    return resident_kib() - before


def test_sessions_and_engines_are_freed(lenet, small):
    model = lenet.read_bytes()
    x = np.zeros((2, 1, 28, 28), np.float32)
    plan = small.serialize()
    one_session_kib = (small.memory.total - small.memory.weight_bytes) // 1024
    assert one_session_kib > 50

    def sessions():
        session = small.create_session()
        session.run(x)
        session.staged_input(1)[:] = 0
        session.run_staged(1)

    assert grows_by_kib(sessions, 1000) < 20 * one_session_kib
    one_engine_kib = len(model) // 1024
    assert grows_by_kib(lambda: mobicuda.Engine.from_onnx(model, backend="cpu", threads=1), 60) < 20 * one_engine_kib
    assert grows_by_kib(lambda: mobicuda.Engine.deserialize(plan).serialize(), 60) < 20 * one_engine_kib


def test_errors_and_refused_arrays_are_freed(small):
    session = small.create_session()
    x = np.zeros((2, 1, 28, 28), np.float32)
    wrong = x.astype(np.float64)
    references = sys.getrefcount(x), sys.getrefcount(wrong)

    def refuse():
        for array in (wrong, x[0], x[:, :, :3]):
            with pytest.raises((TypeError, ValueError)):
                session.run(array)
        with pytest.raises(mobicuda.Error):
            mobicuda.Engine.from_onnx(b"broken" * 1000)
        session.run(x)

    assert grows_by_kib(refuse, 500) < 500
    assert (sys.getrefcount(x), sys.getrefcount(wrong)) == references


def test_a_session_keeps_its_engine(lenet):
    session = mobicuda.Engine.from_onnx(lenet, backend="cpu").create_session()
    gc.collect()
    assert session.run(np.zeros((1, 1, 28, 28), np.float32)).shape == (1, 10)


def run_python(program, *arguments):
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise KeyboardInterrupt", "os._exit(0)"])
def test_the_interpreter_ends_silently(lenet, end):
    program = (
        """
import sys, os, numpy as np, mobicuda
engine = mobicuda.Engine.from_onnx(sys.argv[1], backend="cpu", log=print)
session = engine.create_session()
cycle = [session]; cycle.append(cycle)
view = session.staged_input(1)
output = session.run_staged(1)
pool = mobicuda.InferenceSession(sys.argv[1], backend="cpu")
pool.run(None, {"input": np.zeros((1, 1, 28, 28), np.float32)})
class Late:
    def __init__(self): self.session = engine.create_session()
    def __del__(self): self.session.close()
late = Late()
import ctypes
ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine.create_session()._object))  # as a leaking extension would
"""
        + end
    )
    ended = run_python(program, lenet)
    if end != "raise KeyboardInterrupt":
        assert ended.stderr == "" and ended.returncode == (3 if "exit(3)" in end else 0)
    else:
        assert "leak" not in ended.stderr and "Fatal" not in ended.stderr


def test_the_interpreter_ends_while_a_thread_runs(lenet):
    ended = run_python(
        """
import sys, threading, mobicuda
session = mobicuda.Engine.from_onnx(sys.argv[1], backend="cpu").create_session()
begun = threading.Event()
def run():
    begun.set()
    session.time(iterations=20000)
threading.Thread(target=run, daemon=True).start()
begun.wait()
""",
        lenet,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_forked_child_is_told(lenet):
    ended = run_python(
        """
import os, sys, gc, warnings, numpy as np, mobicuda
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks beside threads
x = np.zeros((1, 1, 28, 28), np.float32)
engine = mobicuda.Engine.from_onnx(sys.argv[1], backend="cpu", threads=3)
session = engine.create_session()
wanted = session.run(x)
child = os.fork()
if child == 0:
    for call in (lambda: session.run(x), engine.create_session, engine.serialize, lambda: session.time()):
        try:
            call()
            os._exit(1)
        except mobicuda.InvalidArgumentError as error:
            assert "forked" in str(error) and "spawn" in str(error)
    session.close()
    del session, engine, call
    gc.collect()
    same = mobicuda.Engine.from_onnx(sys.argv[1], backend="cpu", threads=3).create_session()
    os._exit(0 if np.array_equal(same.run(x), wanted) else 2)
assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(session.run(x), wanted)
""",
        lenet,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_ctrl_c_ends_a_loop_of_runs(lenet):
    program = """
import os, signal, sys, threading, numpy as np, mobicuda
session = mobicuda.Engine.from_onnx(sys.argv[1], backend="cpu").create_session()
x = np.zeros((1, 1, 28, 28), np.float32)
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        session.run(x)
except KeyboardInterrupt:
    print("interrupted", session.run(x).shape)
"""
    ended = run_python(program, lenet)
    assert (ended.stdout, ended.stderr) == ("interrupted (1, 10)\n", "")


def test_engines_are_made_in_many_threads(lenet):
    model = lenet.read_bytes()
    told = []

    def make(i):
        backend = "cpu" if i % 2 else "auto"
        engine = mobicuda.Engine.from_onnx(model, backend=backend, log=lambda *entry: told.append(entry))
        return engine.create_session().run(np.ones((1, 1, 28, 28), np.float32))

    outputs = in_threads(8, make)
    assert len(told) >= 4
    for output in outputs[1::2]:
        np.testing.assert_array_equal(output, outputs[1])
