"""The configuration of `mobicuda.ray.serve:app`: the table of models, what a replica has, and limits (docs/ray.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from mobicuda.errors import InvalidArgumentError
from mobicuda.ray.config import Object, parse_json, read_file

VARIABLE = "MOBICUDA_SERVE_CONFIG"
"""The environment variable that names a configuration file where the application has no arguments."""

_MOST_MODELS = 256
_OF_A_PLAN = ("precision", "input", "preprocess", "max_batch")


@dataclass(frozen=True)
class ServedModel:
    """A line of the table."""

    name: str
    file: str
    precision: str
    input: str
    """ "fp32": floats as the network reads them; "uint8": images of its size, normalised on the way in."""
    preprocess: str
    max_batch: int
    labels: str | None
    top: int
    """Outputs top_classes, top_scores and top_labels have so many; 0: there are none."""

    @property
    def is_plan(self) -> bool:
        """Whether precision, input, preprocess and max_batch are the file's own."""
        return PurePath(self.file).suffix == ".plan"


@dataclass(frozen=True)
class ServeConfig:
    """What the application is told. Times are in seconds."""

    models: tuple[ServedModel, ...]
    replicas: int
    """Processes that run models."""
    gpus: float
    """Of each replica; 0: the CPU engine, 0.5: two replicas on one GPU."""
    cpus: int
    """Cores that Ray keeps for each replica, and threads of the CPU engine."""
    models_per_replica: int
    """That are loaded at a time; the one that was not asked for longest goes."""
    sessions: int
    """Of each model in a replica: batches that run at a time."""
    ingress_replicas: int
    """Processes that read requests and hand them to replicas."""
    max_ongoing_requests: int
    """In each replica at a time."""
    max_queued_requests: int
    """That wait for a replica, in each process that reads requests; others are refused."""
    max_body_bytes: int
    """Of a request."""
    timeout: float
    """Within which a request is answered or given up."""
    attempts: int
    """How often a request is sent to a replica, as replicas end in mid-request."""

    def model(self, name: str) -> ServedModel | None:
        """The line of that name."""
        return next((model for model in self.models if model.name == name), None)


def config_of(arguments: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> ServeConfig:
    """Of an application's arguments: `config` names a file, else they are the configuration itself; without any, the
    environment names a file. Raises `InvalidArgumentError`, which names the key, and `FileError`."""
    if "config" in arguments:
        if len(arguments) > 1:
            others = ", ".join(sorted(key for key in arguments if key != "config"))
            raise InvalidArgumentError(
                "invalid_argument", "the application's arguments", f"have {others} beside 'config'", "write it there"
            )
        file = arguments["config"]
        if not isinstance(file, str) or not file:
            raise InvalidArgumentError("invalid_argument", "'config'", f"must be a file's path, got {file!r}")
    elif arguments:
        return parse_serve_config(json.dumps(dict(arguments)), "the application's arguments", "")
    else:
        file = environment.get(VARIABLE, "")
        if not file:
            raise InvalidArgumentError(
                "invalid_argument",
                "the application",
                "was given no configuration",
                f"serve run mobicuda.ray.serve:app config=FILE, or {VARIABLE}",
            )
    path, text = read_file(file)
    return parse_serve_config(text, path, os.path.dirname(path))


def parse_serve_config(text: str | bytes, source: str, folder: str) -> ServeConfig:
    """The same of a JSON text. `source` stands in errors; paths are relative to `folder`, and become absolute, as
    replicas have working folders of their own."""
    top = Object(parse_json(text, source), source, "")
    model_dir = os.path.abspath(os.path.join(folder, top.text("model_dir") if top.has("model_dir") else ""))
    values = top.require("models")
    if not isinstance(values, list) or not 1 <= len(values) <= _MOST_MODELS:
        raise top.error(
            "models",
            f"must be a list of 1 to {_MOST_MODELS} models",
            'e.g. [{"file": "mobilenet_v2.onnx", "precision": "fp16"}]',
        )
    gpus = top.real("gpus", 0, 1, 1.0)  # a replica runs on one GPU
    models: list[ServedModel] = []
    for i, value in enumerate(values):
        model = _parse_model(value, source, f"models[{i}]", model_dir, gpus > 0)
        if any(model.name == other.name for other in models):
            raise top.error(f"models[{i}]", f'is another model named "{model.name}"', '"name" gives it one of its own')
        models.append(model)
    config = ServeConfig(
        models=tuple(models),
        replicas=top.number("replicas", 1, 4096, 1),
        gpus=gpus,
        cpus=top.number("cpus", 1, 1024, 1),
        models_per_replica=top.number("models_per_replica", 1, _MOST_MODELS, len(models)),
        sessions=top.number("sessions", 1, 16, 2 if gpus > 0 else 1),
        ingress_replicas=top.number("ingress_replicas", 1, 4096, 1),
        max_ongoing_requests=top.number("max_ongoing_requests", 1, 65536, 64),
        max_queued_requests=top.number("max_queued_requests", 1, 65536, 256),
        max_body_bytes=top.number("max_body_bytes", 1024, 2**31 - 1, 64 * 2**20),
        timeout=top.real("timeout", 0.1, 3600, 30.0),
        attempts=top.number("attempts", 1, 100, 8),
    )
    top.finish()
    return config


def _parse_model(value: Any, source: str, path: str, model_dir: str, on_gpu: bool) -> ServedModel:
    model = Object({"file": value} if isinstance(value, str) else value, source, path)
    file = os.path.join(model_dir, model.text("file"))
    suffix = PurePath(file).suffix
    if suffix not in (".onnx", ".plan"):
        raise model.error("file", f"must end in .onnx or .plan, got {json.dumps(file)}")
    if suffix == ".plan":
        for key in _OF_A_PLAN:
            if model.has(key):
                raise model.error(key, "is the plan file's own")
    name = model.text("name") if model.has("name") else PurePath(file).stem
    if "/" in name:
        raise model.error("name", f"must not hold a slash, as it stands in URLs, got {json.dumps(name)}")
    labels = os.path.join(model_dir, model.text("labels")) if model.has("labels") else None
    found = ServedModel(
        name=name,
        file=file,
        precision=model.one_of("precision", ("fp16", "fp32", "fp32_split", "fp64"), "fp16" if on_gpu else "fp32"),
        input=model.one_of("input", ("fp32", "uint8"), "fp32"),
        preprocess=model.one_of("preprocess", ("torch", "tf"), "torch"),
        max_batch=model.number("max_batch", 1, 1024, 64),
        labels=labels,
        top=model.number("top", 0, 1000, 0 if labels is None else 5),
    )
    model.finish()
    return found
