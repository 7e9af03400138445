"""Starts and ends servers of Triton, for tests and measurements: on the loopback interface, with free ports."""

import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

START_SECONDS = 120
PROGRAM = pathlib.Path("pytriton/tritonserver/bin/tritonserver")  # of the folder that the wheel is unpacked into
LIBRARIES = "nvidia_pytriton.libs"
PR_SET_PDEATHSIG = 1


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """A server with the model repository `repository`, ready when the constructor returns. Used as a context manager it
    ends however the block ends; a test that is killed takes it along. `ports`: for HTTP, gRPC and metrics, instead of free
    ones."""

    def __init__(self, folder, backends, repository, log, *options, models=("*",), ready=True, ports=None):
        self.log_file = pathlib.Path(log)
        for _ in range(5):  # another process may take a port in between
            self.http, self.grpc, self.metrics = ports or free_ports(3)
            self.process = self._start(folder, backends, repository, models, options)
            try:
                self._wait(ready)
                return
            except ConnectionError:
                self.kill()
                if ports or "already in use" not in self.log():
                    raise
            except BaseException:
                self.kill()
                raise
        raise ConnectionError(self.log())

    def _start(self, folder, backends, repository, models, options):
        folder = pathlib.Path(folder)
        listen = [
            text
            for kind, port in (("http", self.http), ("grpc", self.grpc), ("metrics", self.metrics))
            for text in (f"--{kind}-address=127.0.0.1", f"--{kind}-port={port}")
        ]
        # Its own, which have names that no others have, and the backend's.
        libraries = [folder / LIBRARIES, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        with self.log_file.open("wb") as log:
            return subprocess.Popen(
                [
                    folder / PROGRAM,
                    f"--model-repository={repository}",
                    f"--backend-directory={backends}",
                    *listen,
                    "--model-control-mode=explicit",
                    "--allow-gpu-metrics=false",
                    "--exit-on-error=false",
                    "--exit-timeout-secs=20",
                    *(f"--load-model={name}" for name in models),
                    *options,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
                env={**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))},
            )

    def _wait(self, ready):
        end = time.monotonic() + START_SECONDS
        while not self._says("v2/health/live"):
            if self.process.poll() is not None:
                raise ConnectionError(f"the server ended with {self.process.returncode}:\n{self.log()}")
            if time.monotonic() > end:
                raise TimeoutError(f"the server does not answer after {START_SECONDS} s:\n{self.log()}")
            time.sleep(0.05)
        if ready and not self._says("v2/health/ready"):  # models are loaded before the server listens
            raise RuntimeError(f"the server is not ready:\n{self.log()}")

    def _says(self, path):
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            with urllib.request.urlopen(f"http://{self.http_url}/{path}", timeout=10) as answer:
                return answer.status == 200
        return False

    @property
    def http_url(self):
        return f"127.0.0.1:{self.http}"

    @property
    def grpc_url(self):
        return f"127.0.0.1:{self.grpc}"

    def log(self):
        return self.log_file.read_text(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def metrics_page(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def resident_bytes(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise ValueError("no VmRSS")

    def cpu_seconds(self):
        """Of all its threads, so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """Asks it to end, and says with what it ended."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self):
        if self.alive():
            self.process.kill()
        self.process.wait(timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.kill()
