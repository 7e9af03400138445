"""Folders, parquet and WebDataset archives of pictures to parquet, by Ray Data."""

from __future__ import annotations

import os
import posixpath
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Union

from mobicuda import _options
from mobicuda.errors import DeviceLostError, Error, InvalidArgumentError
from mobicuda.ray.classifier import Classifier, refuse_result_columns
from mobicuda.ray.cluster import RESTARTS, RETRIES, connect, machines_of, plan_actors, require_ray
from mobicuda.ray.stream import list_folder

Kind = Literal["pictures", "parquet", "webdataset"]
_KINDS = ("pictures", "parquet", "webdataset")
_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".pnm")  # of a sample's members that are pictures
_BLOCK_ROWS = 4096  # at most: what an actor takes at a time, and does again where it was killed
_BLOCKS_OF_ACTOR = 8


class Report(NamedTuple):
    """What `classify` did."""

    rows: int
    """Of the source, and of the output."""
    failed: int
    """Rows with an error."""


class PictureActor(Classifier):
    """`Classifier` as Ray Data runs it."""

    def __init__(self, model: Any, *, kind: Kind, **options: Any) -> None:
        super().__init__(model, **options)
        self._kind = kind
        if kind == "webdataset":
            self.null_error = f"the sample must have one file of {', '.join(_SUFFIXES)}"

    def __call__(self, batch: Any) -> Any:
        try:
            return super().__call__(_samples(batch) if self._kind == "webdataset" else batch)
        except DeviceLostError as error:
            # Ray starts the process anew, and gives it the same rows.
            sys.stderr.write(f"mobicuda.ray: {error}\n")
            sys.stderr.flush()
            os._exit(1)


def classify(
    source: Union[_options.Path, Sequence[_options.Path]],
    model: Union[_options.Path, bytes],
    output: _options.Path,
    *,
    kind: Kind | None = None,
    column: str = "bytes",
    actors: int | None = None,
    gpus: float | None = None,
    cpus: int | None = None,
    address: str | None = None,
    **options: Any,
) -> Report:
    """Classifies pictures on Ray's machines, and writes a row for each into parquet files.

    source, as `kind` says, which by default is told by its files' extensions:
        "pictures": a folder, with all files below it, hidden ones left out. Rows have `name`, the path in it.
        "parquet": files, or a folder of them, with encoded pictures in `column`. Rows keep all other columns.
        "webdataset": tar archives, or a folder of them. A row for each sample: `name`, its key, and `archive`.
    model: an ONNX or plan file, or its bytes.
    output: a folder without files, which is made where it is missing.
    Paths are the same on every machine; a source or output with "://" is what pyarrow and Ray take as one (s3://...).
    actors: how many classify; by default one for each GPU, or without GPUs one for each machine.
    gpus: that each has; by default 1 where there are any, else 0, which is the CPU engine.
    cpus: cores that each has, for decoding and the CPU engine; by default they share half of each machine's, as Ray
        reads and writes with the others.
    address: of the cluster, as of ray.init(), where Ray is not connected yet.
    options: those of `Classifier`.

    Rows get `classes`, `labels`, `scores` and `error`, as of `Classifier`; their order is not kept. The output's rows
    are counted and compared with the source's. An actor that is killed comes back, and its rows are done again, 3
    times; then, and where the model cannot be loaded, the whole call fails.

    Raises `Error`, also where rows were lost; ValueError and TypeError for arguments; ModuleNotFoundError without Ray.
    """
    paths = [_options.path("source", source)] if isinstance(source, (str, os.PathLike)) else list(source)
    paths = [_local("source", path) for path in paths]
    target = _local("output", output)
    kind = _options.one_of("kind", kind, _KINDS) if kind is not None else None  # type: ignore[assignment]
    if actors is not None:
        _options.integer("actors", actors, 1)
    if cpus is not None:
        _options.integer("cpus", cpus, 0)
    ray = connect(address)
    require_ray("ray.data")
    if not isinstance(model, bytes):
        model = _local("model", model)
    _require_no_files(target)
    machines = machines_of(ray)
    if gpus is None:
        gpus = 1 if any(machine.gpus for machine in machines) else 0
    planned = plan_actors(machines, None if gpus else 0, part=2)
    actors = actors or max(1, int(len(planned) / gpus) if gpus else len(planned))
    if cpus is None:
        cpus = int(min((one.cpus for one in planned), default=0) * (gpus or 1))
    kind = kind or _kind_of(paths)
    options = {"column": column, "threads": max(1, cpus), "kind": kind, **options}
    if not _is_plan(model):
        options.setdefault("backend", "custom" if gpus else "cpu")

    data, rows = _read(ray, paths, kind, column, actors, options)
    try:  # Ray Data gives what an actor's constructor raises as text alone
        ray.get(ray.remote(_try).options(num_gpus=gpus, num_cpus=cpus).remote(PictureActor, model, options))
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from None
    with warnings.catch_warnings():
        # Of max_restarts and max_task_retries, which Ray has no other name for yet.
        warnings.simplefilter("ignore", require_ray("ray.util.annotations").RayDeprecationWarning)
        classified = data.map_batches(
            PictureActor,
            fn_constructor_args=(model,),
            fn_constructor_kwargs=options,
            compute=ray.data.ActorPoolStrategy(size=actors),
            batch_size=None,
            batch_format="pyarrow",
            num_gpus=gpus,
            num_cpus=cpus,
            max_restarts=RESTARTS,
            max_task_retries=RETRIES,
        )
    classified.write_parquet(target)
    return _check(target, rows)


def _try(actor: Any, model: Any, options: dict[str, Any]) -> None:
    actor(model, **options).close()


def _local(name: str, path: Any) -> str:
    text = _options.path(name, path)
    return text if "://" in text else os.path.abspath(text)


def _is_plan(model: Any) -> bool:
    from mobicuda.engine import is_plan

    return is_plan(model)


def _kind_of(paths: Sequence[str]) -> Kind:
    names = list(paths)
    if len(paths) == 1 and os.path.isdir(paths[0]):
        names = os.listdir(paths[0])
    kinds: dict[str, Kind] = {".parquet": "parquet", ".tar": "webdataset"}
    found = {kinds.get(posixpath.splitext(name)[1].lower(), "pictures") for name in names if name[:1] != "."}
    if len(found) > 1:
        raise ValueError(f"source has files of several kinds: say kind=, one of {', '.join(map(repr, _KINDS))}")
    return found.pop() if found else "pictures"


def _read(
    ray: Any, paths: list[str], kind: Kind, column: str, actors: int, options: dict[str, Any]
) -> tuple[Any, int]:
    """The source as a dataset, and how many rows it has."""
    import pyarrow

    if kind == "parquet":
        data = ray.data.read_parquet(paths)
        names = data.schema().names
        if column not in names:
            raise ValueError(f"source has no column {column!r} of pictures; it has {', '.join(names)}")
        refuse_result_columns([name for name in names if name != column])
        return data, data.count()
    if kind == "webdataset":
        options["column"] = "picture"
        archives = [path for given in paths for path in _files_of(given, ".tar")]
        count = ray.remote(_count_samples)
        return ray.data.read_webdataset(archives, decoder=None), sum(ray.get([count.remote(one) for one in archives]))
    if len(paths) != 1:
        raise ValueError(f"source must be one folder of pictures, got {len(paths)} paths")
    options["column"] = "path"
    if "://" in paths[0]:
        options["column"] = "bytes"
        files = _files_of(paths[0], "")
        data = ray.data.read_binary_files(files, include_paths=True)
        return data.rename_columns({"path": "name"}), len(files)
    options["files"] = True
    names = list_folder(paths[0])
    size = min(_BLOCK_ROWS, -(-len(names) // (_BLOCKS_OF_ACTOR * actors)))
    encoded = [os.fsencode(name) for name in names]
    folder = os.fsencode(paths[0])
    tables = [
        pyarrow.table(
            {
                "name": pyarrow.array([name.decode("utf-8", "replace") for name in part], pyarrow.string()),
                "path": pyarrow.array([os.path.join(folder, name) for name in part], pyarrow.binary()),
            }
        )
        for part in (encoded[first : first + size] for first in range(0, len(encoded), size))
    ]
    return ray.data.from_arrow(tables), len(names)


def _files_of(path: str, suffix: str) -> list[str]:
    """A file, or those below a folder whose names end so; hidden ones left out."""
    from pyarrow import fs

    system, inner = fs.FileSystem.from_uri(path)
    info = system.get_file_info(inner)
    if info.type == fs.FileType.File:
        return [path]
    if info.type != fs.FileType.Directory:
        raise InvalidArgumentError("invalid_argument", path, "there is no such file or folder")
    below = [one.path for one in system.get_file_info(fs.FileSelector(inner, recursive=True)) if one.is_file]
    scheme = path[: path.index("://") + 3] if "://" in path else ""
    found = [
        scheme + one
        for one in sorted(below)
        if one.lower().endswith(suffix) and not any(part.startswith(".") for part in one[len(inner) :].split("/"))
    ]
    if not found:
        raise InvalidArgumentError("invalid_argument", path, f"holds no {suffix or 'files'}")
    return found


def _count_samples(path: str) -> int:
    """The samples of an archive: files with the same path up to their names' first dot, one behind the other."""
    import tarfile

    from pyarrow import fs

    system, inner = fs.FileSystem.from_uri(path)
    count, before = 0, None
    with system.open_input_stream(inner) as stream, tarfile.open(fileobj=stream, mode="r|*") as archive:
        for member in archive:
            folder, name = posixpath.split(member.name)
            key, dot, _ = name.partition(".")
            if member.isfile() and key and dot:
                here = (folder, key)
                count += here != before
                before = here
    return count


def _samples(table: Any) -> Any:
    """Samples as Ray reads them, a column for each extension, as rows of name, archive and picture."""
    import pyarrow

    members = [name for name in table.column_names if name.lower().endswith(tuple(one[1:] for one in _SUFFIXES))]
    columns = {name: table.column(name).to_pylist() for name in members}
    pictures = []
    for row in range(table.num_rows):
        found = [column[row] for column in columns.values() if isinstance(column[row], bytes)]  # else null or NaN
        pictures.append(found[0] if len(found) == 1 else None)  # of two it cannot be said which one is meant
    return pyarrow.table(
        {
            "name": table.column("__key__"),
            "archive": table.column("__url__"),
            "picture": pyarrow.array(pictures, pyarrow.binary()),
        }
    )


def _require_no_files(path: str) -> None:
    from pyarrow import fs

    system, inner = fs.FileSystem.from_uri(path)
    info = system.get_file_info(inner)
    if info.type == fs.FileType.File or (
        info.type == fs.FileType.Directory and system.get_file_info(fs.FileSelector(inner))
    ):
        raise InvalidArgumentError("invalid_argument", path, "is there, and not an empty folder", "name another output")


def _check(path: str, rows: int) -> Report:
    import pyarrow.dataset

    written = pyarrow.dataset.dataset(path, format="parquet")
    found = written.count_rows()
    if found != rows:
        raise Error(
            "io",
            path,
            f"has {found} rows, the source {rows}",
            "every machine must write to the same folder: share it, or use an object store",
        )
    return Report(rows, written.count_rows(filter=pyarrow.dataset.field("error").is_valid()))
