#!/usr/bin/env python3
"""A machine of Ray's that dies (kill -9) in mid-stream, again and again: every picture has one result, the right one.

  PYTHONPATH=BUILD/python PYTHON_OF_RAY tests/python/ray_nodes.py MODEL.onnx PICTURES [RUNS]

The machines are two of Ray's on this one (ray.cluster_utils), with an actor on the CPU engine each. In each of RUNS streams (default
20) the second one, its raylet and all its processes, is killed in the midst of the stream, and another one comes. Prints a line a run
and a JSON document; exit codes: 0 every picture once and right in each run, 1 not, 2 usage.
"""

import json
import os
import pathlib
import sys
import tempfile
import threading
import time

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")

import ray
from ray.cluster_utils import Cluster

from mobicuda.ray import run_stream
from mobicuda.ray.config import load_config

SECONDS = 6  # of a stream on two actors, about
OBJECT_STORE = 128 << 20


def write_config(folder, model, pictures, times):
    keys = {"models": [str(model)], "img_dir": str(pictures), "result_dir": "results", "gpu_num": 0, "batchsize": 4, "times": times, "top": 1}
    file = folder / "config.json"
    file.write_text(json.dumps(keys))
    return file


def results_of(folder):
    return [json.loads(line) for line in (folder / "results/results.jsonl").read_text().splitlines()]


def best_of(results):
    """What each picture was answered with; a set, which has one member where all agree."""
    best = {}
    for one in results:
        best.setdefault(one["picture"], set()).add(json.dumps(one.get("top") or one.get("error")))
    return best


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    model, pictures = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    runs = int(sys.argv[3]) if len(sys.argv) == 4 else 20
    node = {"num_cpus": 1, "object_store_memory": OBJECT_STORE}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    second = cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False)
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top) / "first"
        folder.mkdir()
        start = time.monotonic()
        summary = run_stream(load_config(write_config(folder, model, pictures, 1)))
        right = best_of(results_of(folder))
        times = max(2, round(SECONDS / max(time.monotonic() - start, 0.1)))
        told = []
        for number in range(runs):
            folder = pathlib.Path(top) / f"run_{number}"
            folder.mkdir()
            items = summary["done"] * times
            begun = threading.Event()

            def progress(done, *_):
                if done >= items // 4:
                    begun.set()

            def kill():
                nonlocal second
                begun.wait(120)
                cluster.remove_node(second, allow_graceful=False)
                second = cluster.add_node(**node)

            killer = threading.Thread(target=kill)
            killer.start()
            start = time.monotonic()
            one = run_stream(load_config(write_config(folder, model, pictures, times)), progress=progress)
            seconds = time.monotonic() - start
            killer.join()
            results = results_of(folder)
            found = sorted(result["item"] for result in results)
            lost = len(set(range(items)) - set(found))
            doubled = len(found) - len(set(found))
            wrong = sum(answers != right[picture] for picture, answers in best_of(results).items())
            told.append({"items": items, "lost": lost, "doubled": doubled, "wrong": wrong, "seconds": round(seconds, 1),
                         "complete": one["complete"], "actorsLost": one["lost"]})
            print(number, told[-1], flush=True)
        print(json.dumps({"runs": runs, "items": sum(one["items"] for one in told),
                          **{name: sum(one[name] for one in told) for name in ("lost", "doubled", "wrong")}}))
    ray.shutdown()
    cluster.shutdown()
    return 0 if told and all(one["complete"] and not one["lost"] + one["doubled"] + one["wrong"] for one in told) else 1


if __name__ == "__main__":
    sys.exit(main())
