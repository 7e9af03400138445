"""mobicuda.ray on a Ray of this machine, with CPU engines; that it has GPUs is told to Ray alone."""

import io
import json
import os
import signal
import sys
import tarfile
import time

import numpy as np
import pytest

import mobicuda
from mobicuda import _native
from mobicuda.ray import Outcome, classify, data, machines, run_stream
from mobicuda.ray import __main__ as program
from mobicuda.ray.cluster import RESTARTS
from mobicuda.ray.config import load_config

ray = pytest.importorskip("ray", reason="Ray is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
Image = pytest.importorskip("PIL.Image", reason="pillow, which makes the pictures, is not installed")
if not _native.has_pictures:
    pytest.skip("libmobicuda_pictures was not built", allow_module_level=True)

import pyarrow.parquet  # noqa: E402
import ray.data  # noqa: E402

PICTURES = 60
BROKEN = {"06.jpg": b"\xff\xd8\xff no picture", "below/31.png": b""}
GPUS = 4
LOST_GPU = 3


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    # Ray's own niceness of 15 leaves workers nothing of a busy machine.
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_worker_niceness="0")
    ray.init(
        address="local",  # none that is there already
        num_cpus=2,
        num_gpus=GPUS,
        include_dashboard=False,
        object_store_memory=256 * 2**20,
        log_to_driver=False,
    )
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which the actors cannot import
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("ray") / "photos of a year"
    (top / "below").mkdir(parents=True)
    random = np.random.default_rng(6)
    for i in range(PICTURES):
        name = ("below/" if i % 2 else "") + f"{i:02}" + (".png" if i % 2 else ".jpg")
        Image.fromarray(random.integers(0, 256, (40 + i, 90, 3), np.uint8)).save(top / name)
    for name, content in BROKEN.items():
        (top / name).write_bytes(content)
    return top


@pytest.fixture(scope="module")
def model(write_model):
    return write_model("--width", "0.35", "--resolution", "32", "--classes", "10")


@pytest.fixture(scope="module")
def expected(folder, model):
    """name -> (class, score) of the likeliest three; those that are broken are not there."""
    engine = mobicuda.Engine.from_onnx(model, backend="cpu", max_batch=64)
    found = mobicuda.classify(folder, engine, top_k=3, on_broken=lambda *_: None)
    return {name: [(int(label), score) for label, score in best] for name, best in found}


def check(output, expected, names):
    """Every row once, each as a classifier of this process has it."""
    rows = pyarrow.parquet.read_table(output).to_pylist()
    assert sorted(row["name"] for row in rows) == sorted(names)
    for row in rows:
        assert list(zip(row["classes"], row["scores"])) == expected.get(names[row["name"]], [])
        assert (row["error"] is None) == (names[row["name"]] in expected)
    return rows


def names_of(folder):
    return {str(path.relative_to(folder)): str(path.relative_to(folder)) for path in folder.rglob("*.*")}


# What kills its own process once, in the midst of its work, as kill -9 would.


def die_once(marker):
    if not os.path.exists(marker):
        open(marker, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)


class KilledActor(data.PictureActor):
    def __init__(self, model, *, marker, **options):
        super().__init__(model, **options)
        self.marker, self.calls = marker, 0

    def __call__(self, batch):
        self.calls += 1
        if self.calls == 3:
            die_once(self.marker)
        return super().__call__(batch)


class HopelessActor(data.PictureActor):
    def __init__(self, model, *, log, **options):
        super().__init__(model, **options)
        self.log = log

    def __call__(self, batch):
        if any(b"41.png" in path for path in batch.column("path").to_pylist()):
            open(f"{self.log}/{os.getpid()}", "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


class KilledWorker(machines.Worker):
    marker = ""

    def classify(self, model, paths):
        if any(b"20.jpg" in path for path in paths):
            die_once(self.marker)
        return super().classify(model, paths)


class HopelessWorker(machines.Worker):
    def classify(self, model, paths):
        if any(b"41.png" in path for path in paths):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().classify(model, paths)


class LostWorker(machines.Worker):
    def classify(self, model, paths):
        raise mobicuda.DeviceLostError("device_lost", "GPU", "it is gone")


class GpuWorker(machines.Worker):
    """Tells where it is, and waits until eight do: no engine can be made on a GPU that Ray was only told of."""

    gate = ""

    def load(self):
        pass

    def classify(self, model, paths):
        where = self._where()
        open(os.path.join(self.gate, f"{where.gpu}"), "a").close()
        assert os.environ["CUDA_VISIBLE_DEVICES"] == str(where.gpu)
        end = time.monotonic() + 300
        while len(os.listdir(self.gate)) < GPUS and time.monotonic() < end:
            time.sleep(0.02)
        self.calls = getattr(self, "calls", 0) + 1
        if where.gpu == LOST_GPU and self.calls == 2:
            raise mobicuda.DeviceLostError("device_lost", "GPU", "it is gone")
        return where, [Outcome([0], [1.0], None) for _ in paths]


class PlainWorker(machines.Worker):
    def load(self):
        pass

    def classify(self, model, paths):
        return self._where(), [Outcome([0], [1.0], None) for _ in paths]


@pytest.mark.filterwarnings("error::ray.util.annotations.RayDeprecationWarning")
def test_a_folder(folder, model, expected, tmp_path):
    labels = [f"class {i}" for i in range(10)]
    report = classify(folder, model, tmp_path / "out 1", gpus=0, top_k=3, labels=labels)
    assert report == (PICTURES, len(BROKEN))
    rows = check(tmp_path / "out 1", expected, names_of(folder))
    assert all(row["labels"] == [f"class {index}" for index in row["classes"]] for row in rows)
    with pytest.raises(mobicuda.InvalidArgumentError, match="not an empty folder"):
        classify(folder, model, tmp_path / "out 1", gpus=0)


def test_a_folder_and_a_kill(folder, model, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "PictureActor", KilledActor)
    marker = tmp_path / "killed"
    report = classify(folder, model, tmp_path / "out", gpus=0, top_k=3, marker=str(marker))
    assert marker.exists()
    assert report == (PICTURES, len(BROKEN))
    check(tmp_path / "out", expected, names_of(folder))


def test_a_picture_that_kills_every_time_ends_the_call(folder, model, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "PictureActor", HopelessActor)
    (tmp_path / "log").mkdir()
    with pytest.raises(ray.exceptions.ActorDiedError):
        classify(folder, model, tmp_path / "out", gpus=0, log=str(tmp_path / "log"))
    assert len(list((tmp_path / "log").iterdir())) == 1 + RESTARTS


def test_parquet(folder, model, expected, tmp_path):
    names = list(names_of(folder))
    table = pyarrow.table(
        {
            "name": names + ["null"],
            "id": range(len(names) + 1),
            "jpeg": pyarrow.array([(folder / name).read_bytes() for name in names] + [None], pyarrow.binary()),
        }
    )
    (tmp_path / "in").mkdir()
    for part in range(2):
        pyarrow.parquet.write_table(table.slice(part * 40, 40), tmp_path / f"in/{part}.parquet")
    with pytest.raises(ValueError, match="no column 'bytes' of pictures; it has name, id, jpeg"):
        classify(tmp_path / "in", model, tmp_path / "out", gpus=0)
    report = classify(tmp_path / "in", model, tmp_path / "out", gpus=0, column="jpeg", top_k=3)
    assert report == (PICTURES + 1, len(BROKEN) + 1)
    rows = check(tmp_path / "out", expected, {name: name for name in [*names, "null"]})
    assert all(row["id"] == [*names, "null"].index(row["name"]) and "jpeg" not in row for row in rows)


def test_webdataset(folder, model, expected, tmp_path):
    names = sorted(names_of(folder))
    keys = {name.rpartition(".")[0]: name for name in names}
    for part in range(2):
        with tarfile.open(tmp_path / f"{part}.tar", "w") as archive:
            for name in names[part::2]:
                archive.add(folder / name, name)
                label = tarfile.TarInfo(name.rpartition(".")[0] + ".cls")
                label.size = 1
                archive.addfile(label, io.BytesIO(b"3"))
            if part == 1:
                for name in ("none.txt", "two.left.jpg", "two.right.jpg"):
                    archive.add(folder / names[0], name)
    report = classify([tmp_path / "0.tar", tmp_path / "1.tar"], model, tmp_path / "out", gpus=0, top_k=3)
    assert report == (PICTURES + 2, len(BROKEN) + 2)
    rows = check(tmp_path / "out", expected, {**keys, "none": "none", "two": "two"})
    errors = {row["name"]: row["error"] for row in rows}
    assert all("must have one file of .jpg" in errors[name] for name in ("none", "two"))
    assert {os.path.basename(row["archive"]) for row in rows} == {"0.tar", "1.tar"}


def test_a_url(folder, model, expected, tmp_path):
    url = folder.as_uri()
    report = classify(url, model, tmp_path / "out", gpus=0, top_k=3)
    assert report == (PICTURES, len(BROKEN))
    check(tmp_path / "out", expected, {str(folder / name): name for name in names_of(folder)})


def test_a_model_that_cannot_be_read(folder, tmp_path):
    with pytest.raises(mobicuda.MissingFileError, match="missing.onnx: there is no such file"):
        classify(folder, tmp_path / "missing.onnx", tmp_path / "out", gpus=0)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(mobicuda.InvalidModelError, match="broken.onnx"):
        classify(folder, broken, tmp_path / "out", gpus=0)


@pytest.fixture
def config(folder, model, tmp_path):
    def write(**more):
        keys = {"models": [str(model)], "img_dir": str(folder), "result_dir": "results", "gpu_num": 0, "batchsize": 4}
        (tmp_path / "config.json").write_text(json.dumps({**keys, "top": 3, **more}))
        return tmp_path / "config.json"

    return write


def check_stream(tmp_path, expected, times):
    found = [json.loads(line) for line in (tmp_path / "results/results.jsonl").read_text().splitlines()]
    assert sorted(one["item"] for one in found) == list(range(PICTURES * times))
    for one in found:
        best = expected.get(one["picture"])
        assert ("error" in one) == (best is None)
        if best is not None:  # normalised in the engine there, before it here
            assert one["top"][0]["score"] == pytest.approx(best[0][1], rel=1e-4)
    return found


def test_a_stream_and_a_kill(config, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machines, "Worker", KilledWorker)
    monkeypatch.setattr(KilledWorker, "marker", str(tmp_path / "killed"))
    assert program.main([str(config(times=2)), "--quiet"]) == 0
    assert (tmp_path / "killed").exists()
    assert "120 pictures in" in capsys.readouterr().out
    found = check_stream(tmp_path, expected, times=2)
    assert all(one["gpu"] is None and one["machine"] for one in found)
    summary = json.loads((tmp_path / "results/summary.json").read_text())
    assert (summary["done"], summary["failed"], summary["complete"], summary["lost"]) == (120, 4, True, {})


def test_a_stream_that_loses_all_goes_on_later(config, expected, tmp_path, monkeypatch):
    file = config(times=2)
    items = 2 * PICTURES
    monkeypatch.setattr(machines, "Worker", HopelessWorker)
    with pytest.raises(mobicuda.DeviceLostError, match="no actor is left to go on.*--resume goes on"):
        run_stream(load_config(file))
    done = (tmp_path / "results/results.jsonl").read_text().count("\n")
    assert 0 < done < items
    monkeypatch.setattr(machines, "Worker", LostWorker)
    with pytest.raises(mobicuda.DeviceLostError, match="it is gone"):
        run_stream(load_config(file), resume=True)
    monkeypatch.undo()

    def interrupt(*_):
        raise KeyboardInterrupt

    summary = run_stream(load_config(file), resume=True, progress=interrupt)
    assert summary["interrupted"] and 0 < summary["done"] < items - done and not summary["complete"]
    done += summary["done"]
    summary = run_stream(load_config(file), resume=True)
    assert (summary["doneBefore"], summary["done"], summary["complete"]) == (done, items - done, True)
    check_stream(tmp_path, expected, times=2)


def test_errors_of_a_stream(config, tmp_path, capsys):
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    for more, code, text in [
        ({"gpu_num": GPUS + 1}, 4, f"'gpu_num': is {GPUS + 1}, Ray's machines have {GPUS} GPUs"),
        ({"decode": "gpu"}, 2, "'gpu_num' asks for no GPU"),
        ({"models": ["broken"], "result_dir": "other"}, 1, "broken.onnx"),
    ]:
        assert program.main([str(config(**more)), "--quiet"]) == code
        assert text in capsys.readouterr().err


def test_each_actor_has_a_gpu_and_one_is_lost(config, tmp_path, monkeypatch):
    (tmp_path / "gate").mkdir()
    monkeypatch.setattr(machines, "Worker", GpuWorker)
    monkeypatch.setattr(GpuWorker, "gate", str(tmp_path / "gate"))
    summary = run_stream(load_config(config(gpu_num=GPUS, batchsize=1)))
    assert sorted(one["gpu"] for one in summary["processors"]) == list(range(GPUS))
    assert sorted(os.listdir(tmp_path / "gate")) == [str(i) for i in range(GPUS)]
    # One is lost at its second unit: others take it over, and what was in its queue.
    assert list(summary["lost"].values()) == ["device_lost: GPU: it is gone"]
    done = [one["pictures"] for one in summary["processors"] if one["gpu"] == LOST_GPU]
    assert len(done) == 1 and 0 < done[0] < PICTURES  # its first unit, as large as the schedule made it
    assert (summary["done"], summary["complete"]) == (PICTURES, True)


def test_an_actor_for_which_there_is_no_room_is_not_waited_for(config, monkeypatch):
    monkeypatch.setattr(machines, "Worker", PlainWorker)
    other = ray.remote(num_gpus=GPUS - 1)(PlainWorker).remote(None, 0, 1)  # other work of the cluster
    ray.get(other.load.remote())
    summary = run_stream(load_config(config(gpu_num=2)))
    ray.kill(other)
    assert len(summary["processors"]) == 1 and (summary["done"], summary["complete"]) == (PICTURES, True)
