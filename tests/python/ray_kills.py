"""What tests that kill Ray's processes share: which are at work, whether each row is in the result once, and right."""

import collections
import json
import random
import threading
import time

import numpy as np
import pyarrow.parquet
from PIL import Image
from ray_processes import children, kill

import mobicuda
from mobicuda.ray import classify, run_stream
from mobicuda.ray.config import load_config

PICTURES = 400
BROKEN = 17  # number of the picture that is none
MODEL = ("--resolution", "160")
TOP = 3

# A process of Ray's has the method that it runs in its title.
AT_WORK = {"classify": "ray::MapWorker(MapBatches(PictureActor)).submit", "stream": "ray::Worker.classify"}


def at_work(kind, of=None):
    """Actors that classify right now."""
    return [process for process, title in children(of).items() if title == AT_WORK[kind]]


class Killer(threading.Thread):
    """Kills actors that are at work, at random moments, until it is told to stop; `killed` has them."""

    def __init__(self, kind, most, seed):
        super().__init__()
        self.killed = []
        self._kind, self._most, self._random = kind, most, random.Random(seed)
        self._stop_it = threading.Event()

    def run(self):
        while len(self.killed) < self._most and not self._stop_it.wait(self._random.uniform(0.05, 1)):
            victims = at_work(self._kind)
            if victims:
                victim = self._random.choice(victims)
                kill([victim])
                self.killed.append(victim)
                while victim in children() and not self._stop_it.wait(0.05):
                    pass

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._stop_it.set()
        self.join()


def write_pictures(folder):
    numbers = np.random.default_rng(6)
    folder.mkdir()
    for i in range(PICTURES):
        Image.fromarray(numbers.integers(0, 256, (64 + i % 40, 90, 3), np.uint8)).save(folder / f"{i:03}.png")
    (folder / f"{BROKEN:03}.png").write_bytes(b"no picture")
    return folder


def expected_of(kind, folder, model):
    """name -> (class, score) of the likeliest, as an engine in this process has them; "error" of what is no picture."""
    normalised = {"picture_input": mobicuda.PictureInput.torch()} if kind == "stream" else {}  # in the engine, there
    engine = mobicuda.Engine.from_onnx(model, backend="cpu", max_batch=64, **normalised)
    found = {f"{BROKEN:03}.png": "error"}
    for name, best in mobicuda.classify(folder, engine, top_k=TOP, on_broken=lambda *_: None):
        found[name] = [(int(label), score) for label, score in best]
    assert len(found) == PICTURES
    return found


def run(kind, folder, model, output, actors=2):
    """Classifies the folder; pairs of a row's name and what became of it, as expected_of() has it."""
    if kind == "classify":
        report = classify(folder, model, output, gpus=0, actors=actors, cpus=1, top_k=TOP)
        assert report == (PICTURES, 1)
        rows = pyarrow.parquet.read_table(output).to_pylist()
        return [
            (row["name"], list(zip(row["classes"], row["scores"])) if row["error"] is None else "error") for row in rows
        ]
    output.mkdir()
    config = {"models": [str(model)], "img_dir": str(folder), "result_dir": "results", "gpu_num": 0, "batchsize": 4}
    (output / "config.json").write_text(json.dumps({**config, "top": TOP}))
    summary = run_stream(load_config(output / "config.json"))
    assert (summary["done"], summary["failed"], summary["complete"], summary["lost"]) == (PICTURES, 1, True, {})
    lines = [json.loads(line) for line in (output / "results/results.jsonl").read_text().splitlines()]
    return [
        (
            line["picture"],
            "error" if "error" in line else [(one["class"], float(np.float32(one["score"]))) for one in line["top"]],
        )
        for line in lines
    ]


def compare(found, expected):
    """How many rows are lost, doubled and wrong."""
    times = collections.Counter(name for name, _ in found)
    return {
        "rows": len(found),
        "lost": sum(name not in times for name in expected),
        "doubled": sum(number - 1 for number in times.values()),
        "wrong": sum(outcome != expected.get(name) for name, outcome in found),
    }


def all_right(rows):
    return {"rows": rows, "lost": 0, "doubled": 0, "wrong": 0}


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
    return value
