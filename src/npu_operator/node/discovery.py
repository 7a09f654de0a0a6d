"""The discovery agent: looks at the PCI bus of a node without labels, and creates its `NPUNode` where a chip is.

That object is the sign for the operator, whose label then takes this pod off the node. It runs as nobody and sees sysfs
alone; its account may do nothing but create an `NPUNode`, and the admission policy lets it name its own node only. A
bus can change (a card is plugged in, or given back by a virtual machine), so it looks again now and then; that costs no
call.
"""

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Mapping
from pathlib import Path

import msgspec

from npu_operator.ascend import pci
from npu_operator.components import environment
from npu_operator.kube.api import ApiError, Cluster, Conflict, Object, Resource
from npu_operator.model import names
from npu_operator.node import health

LOG = logging.getLogger(__name__)

LOOK_EVERY_S = 300.0
RETRY_FIRST_S, RETRY_CAP_S = 2.0, 120.0
ATTRIBUTES = ("vendor", "device", "subsystem_vendor", "subsystem_device", "class")
NPU_NODES = Resource(names.GROUP, names.VERSION, names.NODE_PLURAL, names.NODE_KIND, namespaced=False)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the pod's environment says."""

    node: str
    host_root: Path = Path("/")
    health_socket: Path | None = None


def from_environment(env: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the environment. Raises KeyError when the node's name is missing."""
    socket = env.get(environment.HEALTH_SOCKET)
    return Settings(
        node=env[environment.NODE_NAME],
        host_root=Path(env.get(environment.HOST_ROOT) or "/"),
        health_socket=Path(socket) if socket else None,
    )


def has_npu(host_root: Path) -> bool:
    """Is there a function of a known NPU on the bus? What cannot be read is passed over; no bus at all is no NPU."""
    try:
        addresses = sorted(path.name for path in (host_root / "sys/bus/pci/devices").iterdir())
    except OSError:
        return False
    return any(_is_npu(host_root / "sys/bus/pci/devices" / address) for address in addresses)


async def main(settings: Settings) -> None:
    """Look and tell until cancelled. Only the telling needs the API server, and waits for it."""
    from npu_operator.kube import client
    from npu_operator.kube.clock import SystemClock

    rng = random.Random()  # noqa: S311  # jitter
    trouble = ""

    async def readiness() -> str:
        return trouble

    async with contextlib.AsyncExitStack() as stack:
        if settings.health_socket is not None:
            server = await health.serve(settings.health_socket, readiness)
            stack.callback(server.close)
        while not await asyncio.to_thread(has_npu, settings.host_root):
            LOG.info("no NPU on the PCI bus node=%s, looking again in %.0f s", settings.node, LOOK_EVERY_S)
            await asyncio.sleep(LOOK_EVERY_S * rng.uniform(0.9, 1.1))
        cluster = client.connect(None, None, clock=SystemClock(), rng=rng, user_agent="npu-discovery")
        stack.push_async_callback(cluster.close)
        wait_s = RETRY_FIRST_S
        while trouble := await tell(cluster, settings.node):
            LOG.warning("%s; trying again in about %.0f s", trouble, wait_s)
            await asyncio.sleep(wait_s * rng.uniform(0.5, 1.5))
            wait_s = min(2 * wait_s, RETRY_CAP_S)
        await asyncio.get_running_loop().create_future()  # the operator's label ends this pod


async def tell(cluster: Cluster, node: str) -> str:
    """Create the node's `NPUNode`; that it exists is as good. Returns what went wrong, in one sentence, or nothing."""
    body: Object = {"apiVersion": names.API_VERSION, "kind": names.NODE_KIND, "metadata": {"name": node}}
    try:
        await cluster.create(NPU_NODES, body, manager=names.DISCOVERY)
    except Conflict:
        return ""
    except ApiError as error:
        return str(error)
    LOG.info("an NPU was found and told node=%s", node)
    return ""


def _is_npu(folder: Path) -> bool:
    attributes = {name: text for name in ATTRIBUTES if (text := _text(folder / name)) is not None}
    function = pci.from_sysfs(folder.name, attributes)
    return function is not None and function.family is not None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None
