"""The configuration file of mobicuda_stream (docs/stream.md): the same keys, limits and errors."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from mobicuda.errors import FileError, InvalidArgumentError

_MOST_BYTES = 2**20
_MOST_DEPTH = 16
_MOST_MODELS = 256
_MOST_SHARE = 1e9
_PREPROCESS = ("torch", "tf")
_DECODE = ("auto", "gpu", "gpu-units", "gpu-sms", "cpu")


@dataclass(frozen=True)
class Model:
    name: str
    file: str
    share: float
    preprocess: str


@dataclass(frozen=True)
class Config:
    models: list[Model]
    img_dir: str
    result_dir: str
    gpu_num: int | None
    """Of all machines together; 0: the CPU; None: all GPUs, or the CPU where there is none."""
    batchsize: int
    times: int
    precision: str | None
    """None: "fp16" on GPUs, "fp32" on the CPU."""
    preload: bool
    decode: str
    seed: int
    top: int
    labels: str | None


class Object:
    """An object of the file: every key is asked for by name, and what nobody asked for is refused."""

    def __init__(self, values: Any, source: str, path: str) -> None:
        self._source, self._path = source, path
        self._asked: set[str] = set()
        if not isinstance(values, dict):
            raise self.error("", "must be an object of keys and values")
        self._values = values

    def error(self, key: str, what: str, hint: str = "") -> InvalidArgumentError:
        name = f"{self._path}.{key}" if self._path and key else self._path + key
        return InvalidArgumentError(
            "invalid_argument", f"{self._source}: '{name}'" if name else self._source, what, hint
        )

    def has(self, key: str) -> bool:
        self._asked.add(key)
        return key in self._values

    def require(self, key: str) -> Any:
        if not self.has(key):
            raise self.error(key, "is missing")
        return self._values[key]

    def text(self, key: str) -> str:
        value = self.require(key)
        if not isinstance(value, str):
            raise self.error(key, f"must be a text, got {json.dumps(value)}")
        if not value:
            raise self.error(key, "must not be empty")
        if "\0" in value:
            raise self.error(key, "must not hold a zero byte")
        return value

    def number(self, key: str, least: int, most: int, otherwise: Any) -> Any:
        if not self.has(key):
            return otherwise
        value = self._values[key]
        if type(value) is not int or not least <= value <= most:
            raise self.error(key, f"must be a whole number from {least} to {most}, got {json.dumps(value)}")
        return value

    def real(self, key: str, least: float, most: float, otherwise: float) -> float:
        if not self.has(key):
            return otherwise
        value = self._values[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise self.error(key, f"must be a number from {least} to {most}, got {json.dumps(value)}")
        return float(value)

    def flag(self, key: str, otherwise: bool) -> bool:
        if not self.has(key):
            return otherwise
        value = self._values[key]
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, got {json.dumps(value)}")
        return value

    def one_of(self, key: str, names: tuple[str, ...], otherwise: Any) -> Any:
        if not self.has(key):
            return otherwise
        value = self._values[key]
        if value not in names:
            raise self.error(key, f"must be one of {', '.join(map(json.dumps, names))}, got {json.dumps(value)}")
        return value

    def finish(self) -> None:
        """Throws on keys that were not asked for."""
        for key in self._values:
            if key not in self._asked:
                raise self.error(key, "is not a known key", f"known are: {', '.join(sorted(self._asked))}")


def load_config(file: str | os.PathLike[str]) -> Config:
    """Reads a configuration. Relative paths are relative to the file's folder. Raises `InvalidArgumentError`, which
    names the key, and `FileError`. Whether folders and models exist is not looked at."""
    path, text = read_file(file)
    return parse_config(text, path, os.path.dirname(path))


def read_file(file: str | os.PathLike[str]) -> tuple[str, bytes]:
    """The path and what a configuration file holds. Raises `InvalidArgumentError` where it is too large, and
    `FileError`."""
    path = os.fspath(file)
    try:
        with open(path, "rb") as opened:
            text = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise FileError("io", path, f"cannot be read: {error.strerror}") from None
    if not text:
        raise FileError("io", path, "is empty")
    if len(text) > _MOST_BYTES:
        raise InvalidArgumentError(
            "invalid_argument", path, f"is larger than a configuration may be, {_MOST_BYTES} bytes"
        )
    return path, text


def parse_config(text: str | bytes, source: str, folder: str) -> Config:
    """The same of a text. `source` stands in errors; paths are relative to `folder`."""
    top = Object(parse_json(text, source), source, "")
    img_dir = os.path.join(folder, top.text("img_dir"))
    result_dir = os.path.join(folder, top.text("result_dir"))
    model_dir = os.path.join(folder, top.text("model_dir")) if top.has("model_dir") else folder
    preprocess = top.one_of("preprocess", _PREPROCESS, "torch")
    models = top.require("models")
    if not isinstance(models, list) or not 1 <= len(models) <= _MOST_MODELS:
        raise top.error(
            "models",
            f"must be a list of 1 to {_MOST_MODELS} models",
            'e.g. ["mobilenet_v2", {"file": "resnet50.onnx", "share": 2}]',
        )
    parsed: list[Model] = []
    for i, value in enumerate(models):
        model = _parse_model(value, source, f"models[{i}]", model_dir, preprocess)
        if any(model.name == other.name for other in parsed):
            raise top.error(
                f"models[{i}]", f'is another model named "{model.name}"', '"name" gives it one of its own'
            )
        parsed.append(model)
    config = Config(
        models=parsed,
        img_dir=img_dir,
        result_dir=result_dir,
        gpu_num=top.number("gpu_num", 0, 64, None),
        batchsize=top.number("batchsize", 1, 1024, 64),
        times=top.number("times", 1, 1_000_000, 1),
        precision=top.one_of("precision", ("fp16", "fp32", "fp32_split", "fp64"), None),
        preload=top.flag("preload", True),
        decode=top.one_of("decode", _DECODE, "auto"),
        seed=top.number("seed", 0, 2**63 - 1, 0),
        top=top.number("top", 1, 1000, 5),
        labels=os.path.join(folder, top.text("labels")) if top.has("labels") else None,
    )
    top.finish()
    return config


def _parse_model(value: Any, source: str, path: str, model_dir: str, preprocess: str) -> Model:
    model = Object({"file": value} if isinstance(value, str) else value, source, path)
    file = model.text("file")
    given = PurePath(file)
    share = model.require("share") if model.has("share") else 1
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= _MOST_SHARE:
        raise model.error("share", f"must be a number above 0, 1e9 at most, got {json.dumps(share)}")
    found = Model(
        name=model.text("name") if model.has("name") else given.stem,
        file=os.path.join(model_dir, file) + ("" if given.suffix in (".onnx", ".plan") else ".onnx"),
        share=float(share),
        preprocess=model.one_of("preprocess", _PREPROCESS, preprocess),
    )
    model.finish()
    return found


def parse_json(text: str | bytes, source: str) -> Any:
    """What a JSON text holds: no key twice, not nested too deeply. Raises `InvalidArgumentError`."""

    def refuse(what: str, key: str | None = None) -> InvalidArgumentError:
        return InvalidArgumentError("invalid_argument", source if key is None else f"{source}: '{key}'", what)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise refuse("is there twice", key)
            found[key] = value
        return found

    def constant(name: str) -> Any:
        raise refuse(f"is no JSON: {name} is no value of it")

    try:
        values = json.loads(text, object_pairs_hook=once, parse_constant=constant)
    except RecursionError:
        raise refuse("nests values too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise refuse(f"is no JSON: {error}") from None
    except InvalidArgumentError:
        raise
    except ValueError as error:  # a number of more digits than int() takes
        raise refuse(f"is no JSON: {error}") from None
    if _depth_above(values, _MOST_DEPTH):
        raise refuse("nests values too deeply")
    return values


def _depth_above(value: Any, most: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return most == 0 or any(_depth_above(one, most - 1) for one in inner)
