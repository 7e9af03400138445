"""A client of inference servers that classify: one call, one deadline, several servers.

    with mobicuda.serving.Client(["10.0.0.1:8001", "10.0.0.2:8001"], "mobilenet_v2") as client:
        logits = client.infer(images)["output"]

It speaks the Open Inference Protocol (KServe v2) over gRPC, to Triton Inference Server with libtriton_mobicuda.so
(docs/serving.md), to Ray Serve (docs/ray.md) or to any other server of that protocol. A classification may be asked for
again without harm, so what a server that ends or is busy leaves unanswered is sent to the next one, until the deadline.
Needs tritonclient (``pip install "mobicuda[serving]"``), and no GPU.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Client", "DeadlineExceeded", "RequestError"]

_FIRST_PAUSE_SECONDS = 0.01  # before a request is sent again; each further one up to twice as long
_LONGEST_PAUSE_SECONDS = 1.0
_MOST_MESSAGE_BYTES = 2**31 - 1
# What is no fault of the request: the server ends, has ended, has no room in its queue, or the way to it broke.
_AGAIN = ("UNAVAILABLE", "CANCELLED", "ABORTED", "DEADLINE_EXCEEDED")
# And what says so by its text alone: gRPC's UNKNOWN for a connection that ends in mid-answer, Triton's NOT_FOUND while
# it unloads its models before it ends, Ray Serve's INTERNAL for a process that ends in mid-request and its
# RESOURCE_EXHAUSTED for a full queue.
_AGAIN_BY_TEXT = (
    "Stream removed",
    "has no available versions",
    "The actor died unexpectedly",
    "The task may or may not have been executed on the actor",
    "Request dropped due to backpressure",
)


class RequestError(RuntimeError):
    """A server refused the request; it would refuse it again. ``status`` is gRPC's, e.g. "INVALID_ARGUMENT"."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class DeadlineExceeded(TimeoutError):
    """No server answered in time. The text has what the last one said."""


class Client:
    """Requests for one model on one or several equal servers.

    ``urls``: "HOST:PORT" of their gRPC endpoints, which take turns. ``timeout``: seconds for a call, all attempts
    together. Thread-safe. ``retries`` counts requests that were sent again.
    """

    def __init__(self, urls: str | Sequence[str], model: str, *, version: str = "", timeout: float = 30.0) -> None:
        try:
            from tritonclient import grpc
        except ImportError as error:
            raise ImportError('mobicuda.serving needs tritonclient: pip install "mobicuda[serving]"') from error
        urls = [urls] if isinstance(urls, str) else list(urls)
        if not urls:
            raise ValueError("urls: at least one HOST:PORT is needed")
        if not timeout > 0:
            raise ValueError(f"timeout: must be above 0 seconds, got {timeout}")
        self._grpc = grpc
        # Without waiting for a server that has come back: gRPC's own pause grows to two minutes.
        arguments = [
            ("grpc.max_send_message_length", _MOST_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", _MOST_MESSAGE_BYTES),
            ("grpc.max_reconnect_backoff_ms", int(_LONGEST_PAUSE_SECONDS * 1000)),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._servers = [grpc.InferenceServerClient(url, channel_args=arguments) for url in urls]
        self._next = itertools.count(random.randrange(len(urls)))
        self._model, self._version, self._timeout = model, version, timeout
        self._lock = threading.Lock()
        self._metadata: dict[str, Any] | None = None
        self.retries = 0

    def metadata(self, timeout: float | None = None) -> dict[str, Any]:
        """The model's inputs and outputs, as the server says: asked for once."""
        if self._metadata is None:
            self._metadata = self._call(
                timeout,
                lambda server, seconds: server.get_model_metadata(
                    self._model, self._version, as_json=True, client_timeout=seconds
                ),
            )
        return self._metadata

    def infer(
        self, images: NDArray[Any] | Sequence[bytes], *, outputs: Sequence[str] = (), timeout: float | None = None
    ) -> Mapping[str, NDArray[Any]]:
        """Classifies a batch.

        ``images``: an array of the type and shape that the model takes, (N, ...), or encoded pictures. ``outputs``:
        names of those that are wanted; none: all. Returns arrays by name, (N, ...). Raises TypeError or ValueError on
        what the model cannot take, RequestError where the server refuses, DeadlineExceeded.
        """
        end = time.monotonic() + (self._timeout if timeout is None else timeout)
        entry = self.metadata(end - time.monotonic())["inputs"][0]
        array = _as_input(images, entry["datatype"])
        tensor = self._grpc.InferInput(entry["name"], list(array.shape), entry["datatype"])
        tensor.set_data_from_numpy(array)
        wanted = [self._grpc.InferRequestedOutput(name) for name in outputs]
        answer = self._call(
            end - time.monotonic(),
            lambda server, seconds: server.infer(
                self._model, [tensor], self._version, outputs=wanted or None, client_timeout=seconds
            ),
        )
        return {output.name: answer.as_numpy(output.name) for output in answer.get_response().outputs}

    def _call(self, timeout: float | None, ask: Any) -> Any:
        end = time.monotonic() + (self._timeout if timeout is None else timeout)
        pause, said = _FIRST_PAUSE_SECONDS, "none was asked"
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise DeadlineExceeded(f"no answer from {len(self._servers)} server(s) in time; the last said: {said}")
            server = self._servers[next(self._next) % len(self._servers)]
            try:
                # A server that hangs has half of the time that is left: the next one has the other.
                return ask(server, left if len(self._servers) == 1 else left / 2)
            except self._grpc.InferenceServerException as error:
                status = (error.status() or "").removeprefix("StatusCode.")
                said = f"{status}: {error.message()}"
                if status not in _AGAIN and not any(text in error.message() for text in _AGAIN_BY_TEXT):
                    raise RequestError(status, error.message()) from error
            with self._lock:
                self.retries += 1
            # By chance, so that clients who lost the same server do not come back together.
            time.sleep(max(0.0, min(pause * random.uniform(0.5, 1.0), end - time.monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """Ends the connections; calls that are under way fail."""
        for server in self._servers:
            server.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _as_input(images: NDArray[Any] | Sequence[bytes], datatype: str) -> NDArray[Any]:
    if datatype == "BYTES":
        if isinstance(images, (bytes, np.ndarray)) or not all(isinstance(one, bytes) for one in images):
            raise TypeError("the model takes encoded pictures: a sequence of bytes, one picture each")
        array = np.empty((len(images), 1), dtype=object)
        array[:, 0] = list(images)
        return array
    expected = {"FP32": np.float32, "UINT8": np.uint8}[datatype]
    if not isinstance(images, np.ndarray) or images.dtype != expected:
        got = images.dtype if isinstance(images, np.ndarray) else type(images).__name__
        raise TypeError(f"the model takes an array of {np.dtype(expected)}, got {got}")
    return np.ascontiguousarray(images)
