"""Models over a cluster behind one address, by Ray Serve (pip install 'mobicuda[serve]'): docs/ray.md.

    serve run mobicuda.ray.serve:app config=models.json

The protocol is the Open Inference Protocol (KServe v2), REST and gRPC, so that clients of a Triton Inference Server
(docs/serving.md) need no change. `Ingress` reads requests and asks a replica of `Replica`, once more where one ends in
mid-request: a classification asked for twice is the same twice. Importing this module imports Ray.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mobicuda.errors import DeviceLostError, Error, InternalError, OutOfMemoryError
from mobicuda.ray import messages
from mobicuda.ray.batches import Closed, Model
from mobicuda.ray.cluster import require_ray
from mobicuda.ray.inference_protocol import Description, Refusal, Server, Why
from mobicuda.ray.serve_config import ServeConfig, config_of

serve = require_ray("ray.serve", "serve")
_ray_errors = require_ray("ray.exceptions", "serve")
_serve_errors = require_ray("ray.serve.exceptions", "serve")

__all__ = ["Ingress", "Replica", "add_to_server", "app"]

EXIT_DEVICE_LOST = 75
"""With which a replica ends whose GPU is lost, as the backend of Triton does; Ray Serve starts another one."""
INGRESS, REPLICA = "Ingress", "Replica"
"""Names of the deployments."""

_FIRST_PAUSE_SECONDS = 0.02  # before a request is sent again; each further one twice as long
_LONGEST_PAUSE_SECONDS = 1.0
_READY_SECONDS = 5.0
_HEALTH_SECONDS = 2.0  # between looks at a replica: one that ended is replaced so soon
_CLIENT_GONE = 499
# What is no fault of the request: the replica, or what it held for others, is gone.
_GONE = (_ray_errors.RayActorError, _ray_errors.ObjectLostError, _serve_errors.ReplicaUnavailableError)
_MOST_REFUSED_AT_A_TIME = 64

_log = logging.getLogger("ray.serve")

add_to_server = messages.add_to_server
"""What `grpc_servicer_functions` of Ray Serve names: mobicuda.ray.serve.add_to_server."""


class Counts(NamedTuple):
    """What a replica has done."""

    images: int
    """Of a model, since it was loaded last."""
    runs: int
    """Batches that these were in."""
    loads: int
    """Of any model."""


class Replica:
    """Runs models of the table, `models_per_replica` at a time."""

    async def __init__(self, config: ServeConfig) -> None:  # type: ignore[misc]  # Ray Serve awaits it
        self._config = config
        self._loads = 0

        async def load(name: str) -> Model:
            self._loads += 1
            return await asyncio.to_thread(self._open, name)

        # Keeps what it loads, and tells Ray Serve, which sends requests to a replica that has their model.
        self._model = serve.multiplexed(max_num_models_per_replica=config.models_per_replica)(load)
        for model in config.models[: config.models_per_replica]:
            await self._model(model.name)

    def _open(self, name: str) -> Model:
        line = self._config.model(name)
        assert line is not None
        gpu = self._config.gpus > 0
        return Model(line, gpu=gpu, threads=0 if gpu else self._config.cpus, sessions=self._config.sessions)

    async def describe(self, name: str) -> Description | Refusal:
        """What clients may know of a model of the table, which is loaded where it is not."""
        try:
            model: Model = await self._model(name)
        except Exception as error:
            return _refusal_of(error, name)
        return model.description

    async def infer(
        self, name: str, images: np.ndarray[Any, Any], outputs: Sequence[str]
    ) -> list[np.ndarray[Any, Any]] | Refusal:
        """The outputs of these names for images of the model's type and shape. Errors are returned: Ray would send this
        machine's paths along with those that are raised."""
        try:
            while True:
                model: Model = await self._model(name)
                try:
                    scores = await asyncio.wrap_future(model.batches.submit(images))
                except Closed:  # it was the one to go when another was loaded
                    continue
                return model.outputs_of(scores, outputs)
        except DeviceLostError:
            # Nothing in this process can use the GPU again. Who asked asks another replica.
            _log.exception("the GPU is lost")
            os._exit(EXIT_DEVICE_LOST)
        except Exception as error:
            return _refusal_of(error, name)

    async def ping(self) -> None:
        """Answers."""

    async def counts(self, name: str) -> Counts:
        """What this replica has done."""
        model: Model = await self._model(name)
        return Counts(model.batches.images, model.batches.runs, self._loads)


def _refusal_of(error: Exception, name: str) -> Refusal:
    _log.error("model %s: %s", name, error)
    if isinstance(error, OutOfMemoryError):
        return Refusal(Why.UNAVAILABLE, f"model {name!r}: {error.message}")
    if isinstance(error, (Error, OSError, ValueError)) and not isinstance(error, InternalError):
        return Refusal(Why.UNAVAILABLE, f"model {name!r} cannot be used: the server's log says why")
    return Refusal(Why.INTERNAL, f"model {name!r}: the server failed; its log says why")


class Ingress:
    """Reads requests of both interfaces, and asks replicas."""

    def __init__(self, config: ServeConfig, replicas: Any) -> None:
        self._config, self._replicas = config, replicas
        self._server = Server(self)
        self._descriptions: dict[str, Description] = {}
        self._asked_again = 0

    # What `Server` asks for.

    async def describe(self, name: str) -> Description:
        if name not in self._descriptions:
            if self._config.model(name) is None:
                known = ", ".join(repr(model.name) for model in self._config.models)
                raise Refusal(Why.UNKNOWN, f"there is no model of that name; there are {known}"[:1000])
            self._descriptions[name] = await self._ask("describe", name, name)
        return self._descriptions[name]

    async def infer(
        self, name: str, images: np.ndarray[Any, Any], outputs: Sequence[str]
    ) -> Sequence[np.ndarray[Any, Any]]:
        found: Sequence[np.ndarray[Any, Any]] = await self._ask("infer", name, name, images, outputs)
        return found

    async def ready(self) -> bool:
        try:
            for model in self._config.models:
                await self.describe(model.name)
            await self._ask("ping", "", seconds=_READY_SECONDS)
        except Refusal:
            return False
        return True

    async def _ask(self, method: str, model: str, *arguments: Any, seconds: float = math.inf) -> Any:
        """What a replica answers. Sent again where one ends in mid-request. Raises `Refusal`."""
        end = time.monotonic() + min(self._config.timeout, seconds)
        asked = getattr(self._replicas.options(multiplexed_model_id=model), method)
        pause = _FIRST_PAUSE_SECONDS

        async def once() -> Any:
            return await asked.remote(*arguments)

        for attempt in range(1, self._config.attempts + 1):
            try:
                answer = await asyncio.wait_for(once(), end - time.monotonic())
            except _GONE as error:
                _log.warning("a replica ended in mid-request, attempt %d: %s", attempt, type(error).__name__)
            except (asyncio.TimeoutError, TimeoutError):
                raise Refusal(Why.DEADLINE, f"no replica has answered within {self._config.timeout:g} s") from None
            except _serve_errors.BackPressureError:
                raise Refusal(
                    Why.UNAVAILABLE, f"the queue is full: {self._config.max_queued_requests} requests wait"
                ) from None
            except _serve_errors.DeploymentUnavailableError:
                raise Refusal(Why.UNAVAILABLE, "no replica could be started: the server's log says why") from None
            except Exception:
                _log.exception("a request failed")
                raise Refusal(Why.INTERNAL, "the server failed; its log says why") from None
            else:
                if isinstance(answer, Refusal):
                    raise answer
                return answer
            self._asked_again += 1
            await asyncio.sleep(max(0.0, min(pause, end - time.monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        raise Refusal(Why.UNAVAILABLE, f"{self._config.attempts} replicas ended before they had answered")

    async def asked_again(self) -> int:
        """How many requests were sent to another replica."""
        return self._asked_again

    # What Ray Serve calls.

    async def __call__(self, request: Any) -> Any:
        from starlette.requests import ClientDisconnect
        from starlette.responses import Response

        async def read() -> bytes:
            return await _read_body(request, self._config.max_body_bytes)

        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        try:
            answer = await self._server.http(request.method, path, request.headers, read)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_GONE)
        return Response(answer.body, answer.status, answer.headers)

    async def _grpc(self, method: str, request: Any, context: Any) -> Any:
        import grpc

        answer = messages.response_class(method)()
        try:
            size = request.ByteSize()
            if size > self._config.max_body_bytes:
                raise Refusal(Why.TOO_LARGE, _too_large(size, self._config.max_body_bytes))
            await self._server.grpc(method, request, answer)
        except Refusal as refusal:
            context.set_code(grpc.StatusCode[refusal.why.grpc])
            context.set_details(refusal.text)
        return answer

    # Ray Serve finds a method of gRPC by its name, and hands over the context by that of the argument.

    async def ServerLive(self, request: Any, grpc_context: Any) -> Any:
        return await self._grpc("ServerLive", request, grpc_context)

    async def ServerReady(self, request: Any, grpc_context: Any) -> Any:
        return await self._grpc("ServerReady", request, grpc_context)

    async def ServerMetadata(self, request: Any, grpc_context: Any) -> Any:
        return await self._grpc("ServerMetadata", request, grpc_context)

    async def ModelReady(self, request: Any, grpc_context: Any) -> Any:
        return await self._grpc("ModelReady", request, grpc_context)

    async def ModelMetadata(self, request: Any, grpc_context: Any) -> Any:
        return await self._grpc("ModelMetadata", request, grpc_context)

    async def ModelInfer(self, request: Any, grpc_context: Any) -> Any:
        return await self._grpc("ModelInfer", request, grpc_context)


def _too_large(size: int | str, most: int) -> str:
    return f"a request has at most {most} bytes ('max_body_bytes'), got {size}"


async def _read_body(request: Any, most: int) -> bytes:
    """The body of a request of HTTP. Raises `Refusal` as soon as it is too large."""
    told = request.headers.get("content-length", "")
    if told.isdigit() and (len(told) > 18 or int(told) > most):
        raise Refusal(Why.TOO_LARGE, _too_large(told[:20], most))
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise Refusal(Why.TOO_LARGE, _too_large("more", most))
    return bytes(body)


def app(arguments: Mapping[str, Any]) -> Any:
    """The application, for `serve run mobicuda.ray.serve:app config=FILE` or `import_path` of a configuration of Ray
    Serve. `arguments`: `config`, a file (docs/ray.md), or what it holds; none: the environment variable
    MOBICUDA_SERVE_CONFIG names the file. Raises `mobicuda.Error` on what it does not take, by name."""
    config = config_of(arguments)
    # More than replicas and their queue take, so that it is `Ingress` that refuses, and says why.
    most = config.replicas * config.max_ongoing_requests + config.max_queued_requests + _MOST_REFUSED_AT_A_TIME
    replicas = serve.deployment(
        Replica,
        name=REPLICA,
        num_replicas=config.replicas,
        ray_actor_options={"num_cpus": config.cpus, "num_gpus": config.gpus},
        max_ongoing_requests=config.max_ongoing_requests,
        max_queued_requests=config.max_queued_requests,
        health_check_period_s=_HEALTH_SECONDS,
    )
    ingress = serve.deployment(
        Ingress,
        name=INGRESS,
        num_replicas=config.ingress_replicas,
        ray_actor_options={"num_cpus": 0},  # so that it takes none from those that models have
        max_ongoing_requests=most,
        max_queued_requests=most,
        health_check_period_s=_HEALTH_SECONDS,
    )
    return ingress.bind(config, replicas.bind(config))
