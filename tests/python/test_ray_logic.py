"""mobicuda.ray as far as it goes without Ray: columns, configurations, what a stream is, where its results go."""

import fcntl
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

import mobicuda
from mobicuda import _native
from mobicuda.ray import Classifier, machines, run_stream
from mobicuda.ray import __main__ as program
from mobicuda.ray.cluster import Actor, Machine, plan_actors, require_ray
from mobicuda.ray.config import load_config, parse_config
from mobicuda.ray.machines import Worker
from mobicuda.ray.stream import Assignment, Done, Journal, Unit, Where, items_of, list_folder, result_line, units

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/stream.schema.json").read_text())
Image = pytest.importorskip("PIL.Image", reason="pillow, which makes the pictures, is not installed")
if not _native.has_pictures:
    pytest.skip("libmobicuda_pictures was not built", allow_module_level=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve pictures of several formats, with what is none among them."""
    top = tmp_path_factory.mktemp("stream") / "photos"
    (top / "below").mkdir(parents=True)
    (top / ".hidden").mkdir()
    random = np.random.default_rng(5)
    for i in range(12):
        pixels = random.integers(0, 256, (60 + 9 * i, 90 - 3 * i, 3), np.uint8)
        name = ("below/" if i % 3 == 0 else "") + f"{i:02}" + (".png" if i % 2 else ".jpg")
        Image.fromarray(pixels).save(top / name)
    (top / "text.jpg").write_text("no picture")
    (top / "empty.png").touch()
    (top / ".hidden/x.jpg").write_text("never read")
    os.symlink("nowhere", top / "gone.jpg")
    os.symlink("below", top / "link")
    (top / os.fsdecode(b"\xff \xc3\xa4.jpg")).write_bytes((top / "01.png").read_bytes())
    (top / 'quote"\n.jpg').write_bytes((top / "02.jpg").read_bytes())
    return top


FILES = 18


@pytest.fixture
def config(folder, write_model, tmp_path):
    """config(**keys) -> path of a configuration file for two models."""
    (tmp_path / "models").mkdir()
    for name, classes in (("one", "10"), ("two", "12")):
        model = write_model("--width", "0.35", "--resolution", "32", "--classes", classes)
        os.symlink(model, tmp_path / f"models/{name}.onnx")

    def write(name="config", **more):
        keys = {
            "models": ["one", {"file": "two.onnx", "name": "Two", "share": 2.5, "preprocess": "tf"}],
            "model_dir": "models",
            "img_dir": str(folder),
            "result_dir": "results",
            "gpu_num": 0,
            "batchsize": 4,
            "top": 3,
            **more,
        }
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({key: value for key, value in keys.items() if value is not None}))
        return file

    return write


def test_ray_is_not_imported():
    code = "import mobicuda.ray, mobicuda.ray.__main__, sys; assert not {'ray', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_ray(monkeypatch, config, folder, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'mobicuda\[ray\]'") as caught:
        require_ray()
    assert caught.value.name == "ray"
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        mobicuda.ray.classify(folder, "m.onnx", tmp_path / "out")
    assert program.main([str(config())]) == 1
    assert "pip install 'mobicuda[ray]'" in capsys.readouterr().err


# The callable class, on dicts of NumPy arrays.


def objects(values):
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def test_columns(mobilenet, folder):
    names = list_folder(str(folder))
    encoded = [None if not (folder / name).is_file() else (folder / name).read_bytes() for name in names]
    expected = {}
    engine = mobicuda.Engine.from_onnx(mobilenet, backend="cpu", max_batch=4)
    pictures = [(name, data) for name, data in zip(names, encoded) if data is not None]
    broken = {}
    for name, classes in mobicuda.classify(pictures, engine, top_k=3, on_broken=broken.__setitem__):
        expected[name] = classes
    assert set(broken) == {"empty.png", "text.jpg"} and len(expected) == FILES - 4
    classifier = Classifier(mobilenet, column="jpg", top_k=3, batch=4, backend="cpu")
    given = {"id": np.arange(len(names)), "jpg": objects(encoded)}
    result = classifier(given)
    assert list(result) == ["id", "classes", "labels", "scores", "error"] and list(given) == ["id", "jpg"]
    assert result["id"] is given["id"]
    for row, name in enumerate(names):
        found = list(zip(result["labels"][row], result["scores"][row]))
        assert found == expected.get(name, [])
        assert result["labels"][row] == [str(index) for index in result["classes"][row]]
        assert (result["error"][row] is None) == (name in expected)
        assert result["error"][row] in (None, broken.get(name), "there is no picture: the value is null")
    # The same from files, which are read by the classifier.
    files = Classifier(mobilenet, column="path", files=True, top_k=3, batch=4, backend="cpu")
    for paths in (
        [str(folder / name) for name in names],
        [os.fsencode(folder / name) for name in names],
    ):
        read = files({"path": objects(paths)})
        for key in ("classes", "labels", "scores"):
            assert read[key].tolist() == result[key].tolist()
        assert all(read["error"][names.index(name)] for name in ("gone.jpg", "link", "text.jpg", "empty.png"))


def test_columns_at_their_edges(mobilenet, folder):
    classifier = Classifier(mobilenet, labels=[f"class {i // 2}" for i in range(1000)], top_k=2, backend="cpu")
    data = (folder / "01.png").read_bytes()
    result = classifier({"bytes": objects([memoryview(data), bytearray(data), data])})
    assert result["classes"][0] == result["classes"][1] == result["classes"][2]
    assert result["labels"][0] == [f"class {index // 2}" for index in result["classes"][0]]
    nothing = classifier({"bytes": objects([]), "id": np.zeros(0)})
    assert [len(column) for column in nothing.values()] == [0] * 5
    nulls = classifier({"bytes": objects([None, None])})
    assert list(nulls["classes"]) == [[], []] and all(nulls["error"])
    for batch, kind, text in [
        ({"image": objects([data])}, ValueError, "no column 'bytes' of pictures; there are image"),
        ({"bytes": np.array([data])}, TypeError, "dtype=object"),
        ({"bytes": objects(["path"])}, TypeError, "files=True"),
        ({"bytes": np.zeros((1, 2))}, TypeError, "got list"),
        ({"bytes": objects([data]), "labels": objects([3])}, ValueError, "'labels' is there already"),
        ([data], TypeError, "batch_format"),
    ]:
        with pytest.raises(kind, match=text):
            classifier(batch)
    classifier.close()
    for options, kind, text in [
        ({"column": 3}, TypeError, "column"),
        ({"files": 1}, TypeError, "files"),
        ({"labels": ["a"]}, ValueError, "labels names 1"),
        ({"top_k": 0}, ValueError, "top_k"),
        ({"no_such": 1}, TypeError, "no_such"),
    ]:
        with pytest.raises(kind, match=text):
            Classifier(mobilenet, backend="cpu", **options)
    with pytest.raises(FileNotFoundError):
        Classifier("missing.onnx")


def test_plans_and_bytes(mobilenet, folder, tmp_path):
    mobicuda.Engine.from_onnx(mobilenet, backend="cpu", max_batch=3).save(tmp_path / "m.plan")
    batch = {"bytes": objects([(folder / "01.png").read_bytes()] * 5)}
    expected = Classifier(mobilenet, backend="cpu")(batch)
    for model in (tmp_path / "m.plan", (tmp_path / "m.plan").read_bytes()):
        found = Classifier(model)(batch)
        assert found["scores"].tolist() == expected["scores"].tolist()
        with pytest.raises(TypeError, match="precision"):
            Classifier(model, precision="fp32")
    assert Classifier(pathlib.Path(mobilenet).read_bytes(), backend="cpu")(batch)["classes"][0]


# Configurations.


def parse(**keys):
    keys = {"models": ["m"], "img_dir": "i", "result_dir": "r", **keys}
    return parse_config(json.dumps({key: value for key, value in keys.items() if value is not None}), "c.json", "/at")


def test_a_configuration():
    config = parse(
        models=["a/one", {"file": "two.plan", "name": "2", "share": 0.5, "preprocess": "tf"}, {"file": "/x/y.b"}],
        model_dir="m",
        labels="l.txt",
        preprocess="torch",
        seed=2**63 - 1,
    )
    assert [(one.name, one.file, one.share, one.preprocess) for one in config.models] == [
        ("one", "/at/m/a/one.onnx", 1, "torch"),
        ("2", "/at/m/two.plan", 0.5, "tf"),
        ("y", "/x/y.b.onnx", 1, "torch"),
    ]
    assert (config.img_dir, config.result_dir, config.labels) == ("/at/i", "/at/r", "/at/l.txt")
    assert parse().models[0].file == "/at/m.onnx"


def test_the_schema_s_keys_and_limits():
    def edges(schema):
        """Values at the edges of what the schema allows, and beyond."""
        if "enum" in schema:
            return schema["enum"], ["no such", 1, None.__class__, True]
        if schema["type"] == "boolean":
            return [True, False], [1, "true"]
        if schema["type"] == "string":
            return ["text"], ["", 1, "a\0b", ["a"]]
        assert schema["type"] == "integer"
        least, most = schema["minimum"], schema["maximum"]
        return [least, most], [least - 1, most + 1, 1.5, True, "1"]

    for key, schema in SCHEMA["properties"].items():
        if key == "models":
            continue
        allowed, refused = edges(schema)
        for value in allowed:
            parse(**{key: value})
        for value in refused:
            if value is None.__class__:
                continue
            with pytest.raises(mobicuda.InvalidArgumentError, match=f"'{key}'"):
                parse(**{key: value})
    for key in SCHEMA["required"]:
        with pytest.raises(mobicuda.InvalidArgumentError, match=f"'{key}': is missing"):
            parse(**{key: None})
    with pytest.raises(mobicuda.InvalidArgumentError, match="'no_such': is not a known key") as caught:
        parse(no_such=1)
    assert caught.value.hint == "known are: " + ", ".join(sorted(SCHEMA["properties"]))
    models = SCHEMA["properties"]["models"]
    of_model = models["items"]["anyOf"][1]["properties"]
    with pytest.raises(mobicuda.InvalidArgumentError, match=r"'models\[1\].x': is not a known key") as caught:
        parse(models=["a", {"file": "b", "x": 1}])
    assert caught.value.hint == "known are: " + ", ".join(sorted(of_model))
    parse(models=[f"m{i}" for i in range(models["maxItems"])])
    parse(models=[{"file": "m", "share": of_model["share"]["maximum"]}])
    for refused in (
        [],
        "m",
        [f"m{i}" for i in range(models["maxItems"] + 1)],
        [{"file": "m", "share": 0}],
        [{"file": "m", "share": of_model["share"]["maximum"] * 1.01}],
        [{"file": "m", "share": True}],
        [{"name": "m"}],
        ["a/m", "b/m"],
        [""],
        [3],
    ):
        with pytest.raises(mobicuda.InvalidArgumentError, match="models"):
            parse(models=refused)


@pytest.mark.parametrize(
    "text, what",
    [
        ("{", "is no JSON"),
        ("[]", "object of keys"),
        ('{"seed": 1, "seed": 2}', "'seed': is there twice"),
        ('{"seed": NaN}', "is no JSON"),
        ("[" * 100_000, "nests values too deeply"),
        ('{"models": ' + "[" * 20 + "]" * 20 + "}", "nests values too deeply"),
        ('{"seed": ' + "9" * 5000 + "}", "c.json"),
        (b'{"seed": "\xff"}', "is no JSON"),
    ],
)
def test_texts_that_are_no_configuration(text, what):
    with pytest.raises(mobicuda.InvalidArgumentError, match=what):
        parse_config(text, "c.json", "")


def test_configuration_files(tmp_path):
    for name, content, kind in [
        ("missing", None, mobicuda.FileError),
        ("empty", b"", mobicuda.FileError),
        ("large", b" " * (2**20 + 1), mobicuda.InvalidArgumentError),
    ]:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(kind, match=name):
            load_config(tmp_path / name)
    with pytest.raises(mobicuda.FileError):
        load_config(tmp_path)


# What a stream is.


def test_models_are_drawn_as_by_mobicuda_stream():
    assignment = Assignment([1, 1, 1], 42)
    # As tests/stream/assignment_test.cpp has it, worked out with another implementation.
    assert [assignment.model_of(item) for item in range(16)] == [2, 0, 0, 1, 0, 2, 0, 2, 1, 1, 0, 1, 1, 1, 1, 0]
    assert {Assignment([3], 9).model_of(item) for item in range(100)} == {0}


def test_units_have_each_item_once():
    config = parse(models=["a", {"file": "b", "share": 3}], batchsize=4)
    items = 1000
    done = Done(items)
    before = set(range(0, items, 7))
    assert all(done.add(item) for item in before) and not done.add(7) and not done.add(items)
    dealt = list(units(config, items, done, workers=2))
    assert sorted(item for unit in dealt for item in unit.items) == sorted(set(range(items)) - before)
    assignment = Assignment([1, 3], 0)
    assert all(assignment.model_of(item) == unit.model for unit in dealt for item in unit.items)
    sizes = [len(unit.items) for unit in dealt]
    assert max(sizes[:3]) == 64 and min(sizes[:3]) >= 4 and max(sizes[-6:]) == 4
    anew = units(parse(models=["a"], batchsize=4, preload=False), items, Done(items), workers=2)
    assert {len(unit.items) for unit in anew} == {4}


def test_too_many_items():
    assert items_of(parse(times=1_000_000), 4294) == 4_294_000_000
    with pytest.raises(mobicuda.InvalidArgumentError, match="'times'"):
        items_of(parse(times=1_000_000), 4295)


def test_actors():
    eight = [Machine(128, 8), Machine(128, 8)]
    assert plan_actors(eight, None) == [Actor(1, 16)] * 16 and Actor(1, 16).threads == 16
    assert plan_actors(eight, 3, part=2) == [Actor(1, 8)] * 3
    assert plan_actors(eight, 0) == [Actor(0, 128)] * 2
    assert plan_actors([Machine(2, 0), Machine(0, 0)], None, part=2) == [Actor(0, 1)]
    poor = plan_actors([Machine(1, 2), Machine(64, 0), Machine(32, 4)], None)
    assert poor == [Actor(1, 0)] * 6 and poor[0].threads == 1
    with pytest.raises(mobicuda.DeviceUnavailableError, match="'gpu_num': is 17, Ray's machines have 16 GPUs"):
        plan_actors(eight, 17)


# Dealing, by a Ray whose actors answer at once, or, where their machine went away, never.


class Ray:
    class exceptions:
        class RayTaskError(Exception):
            pass

        class RayActorError(Exception):
            pass

    def __init__(self):
        self.killed = []

    def wait(self, pending, num_returns, timeout):
        ready = [call for call in pending if call.answer is not None][:num_returns]
        assert ready or timeout is not None, "this waits for ever"
        if not ready:
            time.sleep(timeout)
        return ready, [call for call in pending if call not in ready]

    def get(self, call):
        if isinstance(call.answer, Exception):
            raise call.answer
        return call.answer

    def kill(self, actor):
        self.killed.append(actor)


class Call:
    def __init__(self, answer):
        self.answer = answer


class FakeActor:
    """answers: to load() and then to each unit; the last one stays."""

    def __init__(self, *answers):
        self.answers, self.units = list(answers), []

    @property
    def load(self):
        return self

    def remote(self):
        return Call(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


def deal(*actors, count=9):
    """The units that had a result, in ascending order; lost actors."""

    def call(actor, unit):
        actor.units.append(unit.model)
        return actor.remote()

    names = {actor: f"actor {number}" for number, actor in enumerate(actors)}
    dealer = machines._Dealer(Ray(), names, (Unit(i, [i]) for i in range(count)), call)
    return sorted(unit.model for unit, _ in dealer.results()), dealer.lost


def test_dealing(monkeypatch):
    monkeypatch.setattr(machines, "_LATE_SECONDS", 0.05)
    monkeypatch.setattr(machines, "_LOOK_SECONDS", 0.01)
    works, never, lost = "a result", None, Ray.exceptions.RayActorError("it was killed")
    assert deal(FakeActor(works), FakeActor(works)) == (list(range(9)), {})
    # A machine went away with two units, and another one before its actor was there.
    gone = FakeActor(works, never)
    assert deal(gone, FakeActor(works)) == (list(range(9)), {}) and len(gone.units) == 2
    assert deal(FakeActor(never), FakeActor(works)) == (list(range(9)), {})
    # The second one that has the late units is lost too, the third has them as well.
    assert deal(FakeActor(works, never), FakeActor(*[works] * 6, lost), FakeActor(works))[0] == list(range(9))
    with pytest.raises(mobicuda.DeviceLostError, match="no actor is left to go on.*it was killed"):
        deal(FakeActor(works, works, lost), FakeActor(works, lost))


def test_what_is_not_late_is_dealt_once(monkeypatch):
    monkeypatch.setattr(machines, "_LOOK_SECONDS", 0.01)
    slow = FakeActor("a result", None)
    other = FakeActor("a result")
    wait, calls = Ray.wait, []

    class SlowRay(Ray):
        def wait(self, pending, num_returns, timeout):
            calls.append(timeout)
            if len(calls) == 30:
                for one in pending:
                    one.answer = "a late result"
            return wait(self, pending, num_returns, timeout)

    def call(actor, unit):
        actor.units.append(unit.model)
        return actor.remote()

    dealer = machines._Dealer(SlowRay(), {slow: "slow", other: "other"}, (Unit(i, [i]) for i in range(9)), call)
    assert sorted(unit.model for unit, _ in dealer.results()) == list(range(9))
    assert len(slow.units) == 2 and len(other.units) == 7


# Where results go: the same folder as mobicuda_stream's.


def classify_here(config, resume=False, most=None):
    """What run_stream() does, in this process; ends behind `most` units."""
    pictures = list_folder(config.img_dir)
    worker = Worker(config, gpus=0, threads=2)
    worker.load()
    journal = Journal(config, pictures, resume)
    try:
        for unit in list(units(config, items_of(config, len(pictures)), journal.done, 1))[:most]:
            paths = [os.fsencode(os.path.join(config.img_dir, pictures[item % len(pictures)])) for item in unit.items]
            where, outcomes = worker.classify(unit.model, paths)
            assert where.gpu is None and len(outcomes) == len(paths)
            lines = [result_line(config, pictures, [], unit, i, one, where) for i, one in enumerate(outcomes)]
            journal.append("".join(lines))
    finally:
        journal.close()


def results(folder):
    found = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert len({one["item"] for one in found}) == len(found)
    return {one["item"]: {key: one[key] for key in one if key not in ("machine",)} for one in found}


@pytest.fixture(scope="module")
def stream():
    given = os.environ.get("MOBICUDA_STREAM", "")
    if not given:
        pytest.skip("MOBICUDA_STREAM is not set: mobicuda_stream was not built")
    return lambda *options: subprocess.run([given, "--config", *options], capture_output=True, text=True, check=False)


def test_the_same_results_as_mobicuda_stream(config, stream, tmp_path):
    # Plans, as of ONNX files the programs round the constants of bytes differently: one in float, one in double.
    for model, kind in (("one", mobicuda.PictureInput.torch()), ("two", mobicuda.PictureInput.tf())):
        file = tmp_path / f"models/{model}.onnx"
        engine = mobicuda.Engine.from_onnx(file, backend="cpu", max_batch=4, picture_input=kind)
        engine.save(file.with_suffix(".plan"))
    keys = {"times": 3, "seed": 12, "models": ["one.plan", {"file": "two.plan", "name": "Two \u00e4", "share": 0.3}]}
    done = stream(config(result_dir="by_program", **keys))
    assert done.returncode == 0, done.stderr
    classify_here(load_config(config(result_dir="by_package", **keys)))
    by_program, by_package = results(tmp_path / "by_program"), results(tmp_path / "by_package")
    assert len(by_program) == 3 * FILES
    assert sum("error" in one for one in by_program.values()) == 3 * 4
    for item, one in by_program.items():
        other = by_package[item]
        if "error" in one and "error" in other:  # of links, the listing knows more than the reading
            one["error"] = other["error"]
        assert one == other
    assert (tmp_path / "by_program/stream.json").read_text() == (tmp_path / "by_package/stream.json").read_text()


def test_the_same_models_as_mobicuda_stream(config, stream, tmp_path):
    assert stream(config(result_dir="by_program")).returncode == 0
    classify_here(load_config(config(result_dir="by_package")))
    by_program, by_package = results(tmp_path / "by_program"), results(tmp_path / "by_package")
    for item, one in by_program.items():
        assert (one["model"], "top" in one) == (by_package[item]["model"], "top" in by_package[item])
        if "top" in one:
            # A unit in the last place of scale and shift, which a network of so few layers makes no hundred of.
            best, other = one["top"][0]["score"], by_package[item]["top"][0]["score"]
            assert abs(best - other) <= 100 * 2**-23 * abs(best)


@pytest.mark.parametrize("precision, preload", [(None, True), ("fp32", False)])
def test_either_program_goes_on(config, stream, tmp_path, precision, preload):
    file = config(times=2, precision=precision, preload=preload, batchsize=2)
    classify_here(load_config(file), most=5)
    assert 0 < len(results(tmp_path / "results")) < 2 * FILES
    with open(tmp_path / "results/results.jsonl", "a") as lines:
        lines.write('{"item":35,"pic')  # as if the last write had been cut
    classify_here(load_config(file), resume=True, most=3)
    between = len(results(tmp_path / "results"))
    done = stream(file, "--resume")
    assert done.returncode == 0, done.stderr
    assert f"{between} were done before" in done.stdout
    assert sorted(results(tmp_path / "results")) == list(range(2 * FILES))
    assert run_stream(load_config(file), resume=True)["complete"]  # without Ray: nothing is left


def test_what_is_refused_in_a_result_folder(config, tmp_path, capsys):
    file = config()
    classify_here(load_config(file))
    assert program.main([str(file)]) == 2
    assert "--resume goes on" in capsys.readouterr().err
    assert program.main([str(file), "--resume"]) == 0
    assert capsys.readouterr().out == f"all {FILES} pictures were done before\n"
    for key, value in [("times", 2), ("seed", 1), ("top", 2), ("precision", "fp32"), ("models", ["one"])]:
        assert program.main([str(config("other", **{key: value})), "--resume"]) == 2
        assert f"the results are of a stream with another '{key}'" in capsys.readouterr().err
    file = config()
    pictures = list_folder(load_config(file).img_dir)
    with open(tmp_path / "results/results.jsonl") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(mobicuda.InvalidArgumentError, match="another process"):
            Journal(load_config(file), pictures, resume=True, wait=0.1)
    good = (tmp_path / "results/results.jsonl").read_text()
    twice = good + good.splitlines()[3] + "\n"
    for wrong in (twice, good + "{}\n", f'{{"item":{FILES},"x":1}}\n', '{"item":-1,"x":1}\n', "\n"):
        (tmp_path / "results/results.jsonl").write_text(wrong)
        with pytest.raises(mobicuda.FileError, match="is no result of this stream"):
            Journal(load_config(file), pictures, resume=True)
        assert (tmp_path / "results/results.jsonl").read_text() == wrong
    (tmp_path / "results/stream.json").write_text("{")
    with pytest.raises(mobicuda.FileError, match="not what a stream has written"):
        Journal(load_config(file), pictures, resume=True)
    (tmp_path / "results/results.jsonl").unlink()
    os.symlink("elsewhere", tmp_path / "results/results.jsonl")
    with pytest.raises(mobicuda.FileError, match="results.jsonl"):
        Journal(load_config(file), pictures, resume=False)


def test_mistakes(config, tmp_path, capsys):
    (tmp_path / "nothing").mkdir()
    for more, code, text in [
        ({"batch": 1}, 2, "'batch': is not a known key"),
        ({"img_dir": "nowhere"}, 1, "nowhere"),
        ({"img_dir": "nothing"}, 1, "holds no files"),
        ({"models": ["absent"]}, 1, "absent.onnx: the model cannot be read"),
        ({"labels": "none.txt"}, 1, "none.txt"),
    ]:
        assert program.main([str(config(**more))]) == code
        assert text in capsys.readouterr().err
        assert not (tmp_path / "results").exists()
    with pytest.raises(SystemExit) as ended:
        program.main([])
    assert ended.value.code == 2


def test_a_plan_of_another_precision(config, mobilenet, tmp_path):
    mobicuda.Engine.from_onnx(mobilenet, backend="cpu", max_batch=2).save(tmp_path / "models/m.plan")
    Worker(load_config(config(models=["m.plan"])), 0, 1).load()
    worker = Worker(load_config(config(models=["m.plan"], precision="fp64")), 0, 1)
    with pytest.raises(mobicuda.InvalidArgumentError, match="compiled for fp32, 'precision' asks for fp64"):
        worker.load()


def test_lines(config):
    given = load_config(config())
    unit, outcome = Unit(1, [37]), mobicuda.ray.Outcome([3, 11], [float("nan"), 1.5], None)
    line = json.loads(result_line(given, ["a", "b"], ["", "", "", "cat"], unit, 0, outcome, Where("host", 2)))
    assert line == {
        "item": 37,
        "picture": "b",
        "time": 18,
        "model": "Two",
        "gpu": 2,
        "machine": "host",
        "top": [{"class": 3, "label": "cat", "score": None}, {"class": 11, "score": 1.5}],
    }
