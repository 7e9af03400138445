"""What Ray's machines have, and how many actors of what size they get."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from mobicuda.errors import DeviceUnavailableError

RESTARTS = 3
"""How often an actor that was killed, or whose machine went away, comes back: a picture that kills must not do so for
ever."""
RETRIES = -1
"""How often a call of an actor is repeated: without end, as RESTARTS ends it. Until Ray has noticed that a machine went
away, which takes seconds, each call to it fails at once."""

# What is missing where Ray was installed without that part.
_PARTS = {
    "data": ("ray", "pyarrow", "pandas"),
    "serve": ("ray", "fastapi", "starlette", "uvicorn", "grpc", "grpc_reflection", "google"),
}


def require_ray(module: str = "ray", extra: Literal["data", "serve"] = "data") -> Any:
    """Ray, or a module of it. Raises ModuleNotFoundError with what to install for `extra`, Ray's name for a part."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _PARTS[extra]:
            raise
        own = "mobicuda[ray]" if extra == "data" else "mobicuda[serve]"
        raise ModuleNotFoundError(
            f"mobicuda.ray needs Ray, and {error.name} is not installed: pip install '{own}', or 'ray[{extra}]'",
            name=error.name,
        ) from None


def connect(address: str | None) -> Any:
    """Ray, connected: to `address`, else as ray.init() finds it (RAY_ADDRESS, a cluster of this machine, or one of its
    own that ends with this process)."""
    ray = require_ray()
    if not ray.is_initialized():
        ray.init(address=address, include_dashboard=False) if address is None else ray.init(address=address)
    return ray


class Machine(NamedTuple):
    cpus: int
    gpus: int


def machines_of(ray: Any) -> list[Machine]:
    """Those that are up."""
    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [Machine(int(one.get("CPU", 0)), int(one.get("GPU", 0))) for one in resources]


class Actor(NamedTuple):
    """What an actor takes of its machine."""

    gpus: float
    cpus: int
    """Cores that Ray keeps for it."""

    @property
    def threads(self) -> int:
        return max(1, self.cpus)


def plan_actors(machines: Sequence[Machine], gpu_num: int | None, part: int = 1) -> list[Actor]:
    """An actor for each of `gpu_num` GPUs, None for all; on the CPU, which 0 and None without a GPU mean, one for each
    machine. They share each machine's cores, or the `part`-th part of them. Raises `DeviceUnavailableError`.

    Where machines differ, GPUs have as many cores each as the poorest machine has for them: Ray chooses the machine.
    """
    there = sum(machine.gpus for machine in machines)
    wanted = there if gpu_num is None else gpu_num
    if wanted > there:
        raise DeviceUnavailableError(
            "device_unavailable", "'gpu_num'", f"is {wanted}, Ray's machines have {there} GPUs", "0 takes the CPU"
        )
    if wanted == 0:
        return [Actor(0, machine.cpus // part) for machine in machines if machine.cpus > 0]
    cpus = min(machine.cpus // part // machine.gpus for machine in machines if machine.gpus > 0)
    return [Actor(1, cpus)] * wanted
