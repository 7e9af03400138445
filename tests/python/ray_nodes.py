"""A machine of Ray's is killed while its actor classifies, once in a stream and once in `classify`.

  ray_nodes.py FOLDER MODEL OUTPUT SEED

The machines are Ray's, on this one (ray.cluster_utils): one without cores, where this process is, and three that
classify. All processes of one of them, Ray's own first, get SIGKILL at a random moment in which it has an actor at
work. Prints a line with JSON: for each kind what became of the pictures (ray_kills.run), and what was killed.
"""

import json
import os
import pathlib
import random
import sys
import threading
import time

os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_AUTH_MODE="disabled",
    RAY_raylet_start_wait_time_s="120",
    RAY_worker_niceness="0",  # else workers stand still where the machine has other work
    RAY_health_check_period_ms="500",  # that a machine is dead is noticed after 5 of them
)

import ray  # noqa: E402
import ray.data  # noqa: E402
import ray_kills  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from ray_processes import children, kill  # noqa: E402

from mobicuda.ray import machines as stream  # noqa: E402

stream._LATE_SECONDS = 5

MACHINES = 3
OBJECT_STORE = 128 << 20


class Killer(threading.Thread):
    """Kills a machine that has an actor at work, and then looks which actors classify."""

    def __init__(self, kind, machines, moment):
        super().__init__(daemon=True)
        self.machine = None
        self.killed = {}  # its processes: process id -> title
        self.others = set()  # actors that were at work when it was dead
        self._kind, self._machines, self._moment = kind, machines, moment
        self._ended = threading.Event()

    def run(self):
        moment = None
        while not self._ended.wait(0.05):
            actors = [ray_kills.at_work(self._kind, raylet_of(one)) for one in self._machines]
            busy = [one for one, found in zip(self._machines, actors, strict=True) if found]
            if busy and moment is None:
                moment = time.monotonic() + self._moment
            if busy and time.monotonic() >= moment:
                self.machine = random.choice(busy)
                raylet = raylet_of(self.machine)
                self.killed = {raylet: "raylet", **children(raylet)}
                if ray_kills.AT_WORK[self._kind] in self.killed.values():  # still
                    kill(self.killed)
                    break
        while not self._ended.wait(0.05):
            self.others.update(set(ray_kills.at_work(self._kind)) - set(self.killed))

    def end(self):
        self._ended.set()
        self.join()


def raylet_of(machine):
    return machine.all_processes["raylet"][0].process.pid


def alive():
    return sum(node["Alive"] for node in ray.nodes())


def main(folder, model, output, seed):
    random.seed(seed)
    began = time.monotonic()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": OBJECT_STORE},
    )
    machines = [cluster.add_node(num_cpus=2, object_store_memory=OBJECT_STORE) for _ in range(MACHINES)]
    ray.init(address=cluster.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    told = {"seconds of the start": round(time.monotonic() - began, 1)}
    for kind in ("stream", "classify"):
        began = time.monotonic()
        killer = Killer(kind, machines, random.uniform(0, 1.5))
        killer.start()
        found = ray_kills.run(kind, folder, model, output / kind)
        killer.end()
        machines.remove(killer.machine)
        told[kind] = {
            "found": found,
            "killed": sorted(killer.killed.values()),
            "others": len(killer.others),
            "seconds": round(time.monotonic() - began, 1),
        }
        ray_kills.wait_for(lambda: alive() == 1 + len(machines))  # else the dead one is counted
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*(pathlib.Path(argument) for argument in sys.argv[1:4]), int(sys.argv[4]))
    kill(children())  # Ray's own end waits for those that are dead
    os._exit(0)
