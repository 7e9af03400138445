"""Actors of mobicuda.ray that are killed (kill -9) at random moments, while they classify: every row once, and right.
MOBICUDA_RAY_KILLS: how many, of each kind (1). Machines that are killed: test_ray_nodes.py."""

import os

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("PIL.Image", reason="pillow, which makes the pictures, is not installed")
from mobicuda import _native  # noqa: E402

if not _native.has_pictures:
    pytest.skip("libmobicuda_pictures was not built", allow_module_level=True)

import time  # noqa: E402

import ray.data  # noqa: E402
import ray_kills  # noqa: E402

from mobicuda.ray.cluster import RESTARTS  # noqa: E402

KILLS = int(os.environ.get("MOBICUDA_RAY_KILLS", "1"))


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_worker_niceness="0")
    ray.init(
        address="local",  # none that is there already
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=256 * 2**20,
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return ray_kills.write_pictures(tmp_path_factory.mktemp("ray") / "pictures")


@pytest.fixture(scope="module")
def model(write_model):
    return write_model(*ray_kills.MODEL)


@pytest.mark.parametrize("kind", ["classify", "stream"])
def test_no_row_is_lost_when_actors_are_killed(kind, folder, model, tmp_path):
    expected = ray_kills.expected_of(kind, folder, model)
    killed, total, began = 0, {}, time.monotonic()
    while killed < KILLS:
        with ray_kills.Killer(kind, min(KILLS - killed, RESTARTS), seed=killed) as killer:
            found = ray_kills.run(kind, folder, model, tmp_path / f"{killed}")
        assert killer.killed and len(set(killer.killed)) == len(killer.killed)
        killed += len(killer.killed)
        counts = ray_kills.compare(found, expected)
        assert counts == ray_kills.all_right(ray_kills.PICTURES)
        total = {name: total.get(name, 0) + count for name, count in counts.items()}
    print(f"\n{kind}: {killed} actors killed in {time.monotonic() - began:.0f} s: {total}")


def test_the_comparison():
    expected = {"a": [(1, 0.5)], "b": [(2, 0.25)], "c": "error"}
    found = list(expected.items())
    compare = ray_kills.compare
    assert compare(found, expected) == ray_kills.all_right(3)
    assert compare(found[1:], expected) == {**ray_kills.all_right(2), "lost": 1}
    assert compare(found + found[1:2], expected) == {**ray_kills.all_right(4), "doubled": 1}
    assert compare([("a", [(1, 0.5000000001)]), *found[1:]], expected) == {**ray_kills.all_right(3), "wrong": 1}
    assert compare([*found[:2], ("d", "error")], expected) == {"rows": 3, "lost": 1, "doubled": 0, "wrong": 1}
