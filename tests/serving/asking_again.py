#!/usr/bin/env python3
"""asking_again.py MODEL URL...: loads servers through mobicuda.serving.Client until a line or the end of its input.

MODEL takes UINT8 images. Prints "ready" once it has answers, and at the end one line of JSON: answers, those that were
wrong (others than to the same images before, but for rounding), those that were others in any bit, requests that were
lost, with a text, and how many were asked again.
"""

import importlib.util
import json
import pathlib
import sys
import threading

import numpy as np

THREADS = 4
MOST_DIFFERENCE = 0.02  # relative: batches of other sizes round otherwise


def load_client():
    """mobicuda.serving alone: it needs no library."""
    file = pathlib.Path(__file__).parents[2] / "python/mobicuda/serving.py"
    spec = importlib.util.spec_from_file_location("mobicuda_serving", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def images_of(client):
    shape = client.metadata()["inputs"][0]["shape"]
    height, width, channels = (int(extent) for extent in shape[1:])
    random = np.random.default_rng(1)
    return random.integers(0, 256, (THREADS, 2, height, width, channels), dtype=np.uint8)


def main():
    model, *urls = sys.argv[1:]
    counts = {"answers": 0, "wrong": 0, "different": 0, "lost": 0}
    told, ended, lock = [], threading.Event(), threading.Lock()
    with load_client().Client(urls, model, timeout=120) as client:
        images = images_of(client)
        expected = [next(iter(client.infer(one).values())) for one in images]

        def work(i):
            while not ended.is_set():
                try:
                    answer = next(iter(client.infer(images[i]).values()))
                except Exception as error:  # noqa: BLE001  whatever it is, the request is lost
                    with lock:
                        counts["lost"] += 1
                        told.append(repr(error))
                    continue
                off = np.linalg.norm(answer - expected[i]) / np.linalg.norm(expected[i])
                with lock:
                    counts["answers"] += 1
                    counts["wrong"] += not off <= MOST_DIFFERENCE
                    counts["different"] += not np.array_equal(answer, expected[i])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        sys.stdin.readline()
        ended.set()
        for thread in threads:
            thread.join()
        print(json.dumps({**counts, "retries": client.retries, "told": told[:3]}))


if __name__ == "__main__":
    main()
