"""The demo on a cluster inside this process: real operator, simulated API server and nodes, virtual time."""

import time

from npu_operator.cli.demo.screen import Screen
from npu_operator.kube import api
from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from npu_operator.sim.agents import NPU_NODES
from npu_operator.sim.clock import VirtualClock, run_virtual
from npu_operator.sim.fleet import NodeKind, Sign
from npu_operator.sim.installation import CTLS, Installation

A2 = NodeKind(sign=Sign.NFD_CLASS)
FLEET = {
    "a2-1": A2,
    "a2-sick": NodeKind(sign=Sign.NFD_CLASS, sick={3: "80E18402"}),
    "a3-1": NodeKind(chip=ChipFamily.ASCEND_A3, model="Ascend910", chips=16, sign=Sign.NFD_DEVICE),
    "infer-1": NodeKind(
        chip=ChipFamily.ASCEND_310P, model="310P3", chips=4, sign=Sign.MINDCLUSTER, kernel="5.10.0-60.oe2203.aarch64"
    ),
    "hidden-1": NodeKind(sign=Sign.NONE),
    "host-drv": NodeKind(host_driver="24.1.0", sign=Sign.NPU),
    "web-1": NodeKind(chip=None),
}
"""A2, A2 with a sick chip, A3, 310P, one without any label, one with a driver installed by hand, one without NPU."""
LIMIT_S = 900.0
STEP_S = 1.0
QUIET_S = 20.0  # virtual seconds without a change: this is how it stays


def play(screen: Screen) -> api.Object:
    """Play it; returns the `NPUOperatorCtl` as it is in the end."""
    return run_virtual(lambda clock: _play(clock, screen), limit_s=2 * LIMIT_S)


async def _play(clock: VirtualClock, screen: Screen) -> api.Object:
    world = Installation(clock)
    for name, kind in FLEET.items():
        world.cluster.add_node(name, kind)
    begun = clock.monotonic()
    _show(world, screen, begun)
    await world.install()
    world.start()
    await world.create_ctl()
    changed, writes = begun, -1
    while clock.monotonic() - begun < LIMIT_S and clock.monotonic() - changed < QUIET_S:
        await clock.sleep(STEP_S)
        if world.cluster.writes != writes:
            changed, writes = clock.monotonic(), world.cluster.writes
        _show(world, screen, begun)
    found = world.cluster.find(CTLS, names.CTL_SAMPLE, names.NAMESPACE)
    await world.close()
    assert found is not None, "it was created above"
    return dict(found)


def _show(world: Installation, screen: Screen, begun: float) -> None:
    nodes = [each.tree for each in world.cluster.all(api.NODES)]
    npu_nodes = [each.tree for each in world.cluster.all(NPU_NODES)]
    ctl = world.cluster.find(CTLS, names.CTL_SAMPLE, names.NAMESPACE) if CTLS in world.cluster.server.served() else None
    screen.show(f"{world.clock.monotonic() - begun:5.0f} s", nodes, npu_nodes, ctl)
    time.sleep(screen.frame_s)  # virtual time stands still meanwhile, so nothing is missed
