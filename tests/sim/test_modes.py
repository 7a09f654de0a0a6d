"""Passthrough, Plan, Paused, the startup taint and a reboot, in the simulated cluster."""

import pytest
import structlog

from npu_operator.kube import api
from npu_operator.model import names
from npu_operator.sim.agents import NPU_NODES
from npu_operator.sim.fleet import NodeKind, Sign
from tests.sim.test_operator import A2, ACCOUNT, LEASES, played, ready

HOST = NodeKind(host_driver="24.1.0", sign=Sign.NFD_CLASS)


def daemon_sets(world) -> set[str]:
    return {each.key[-1] for each in world.cluster.all(api.DAEMON_SETS)}


def written(world) -> set[str]:
    """What the operator has written to, by resource, but for its lease and events."""
    mine = [call for call in world.cluster.clients.log if call.user == ACCOUNT.name]
    writes = {call.ask.what for call in mine if call.ask.verb in ("create", "apply", "patch", "delete", "evict")}
    return writes - {LEASES, "events.events.k8s.io"}


def test_in_passthrough_the_hosts_drivers_are_used_and_nothing_can_reboot_a_node():
    async def story(world):
        world.cluster.add_nodes(HOST, count=2)
        world.start()
        await world.create_ctl({"driver": {"enabled": False}})
        await ready(world)
        assert names.REBOOTER not in daemon_sets(world)
        assert not any(name.startswith(names.DRIVER_PREFIX) for name in daemon_sets(world))
        assert world.status()["nodes"]["npuSummary"] == "16/16"

    played(story)


def test_switching_to_passthrough_leaves_loaded_drivers_their_loader_and_says_so():
    async def story(world):
        world.cluster.add_nodes(A2, count=2)
        world.start()
        await world.create_ctl()
        await ready(world)
        drivers = {name for name in daemon_sets(world) if name.startswith(names.DRIVER_PREFIX)}
        await world.create_ctl({"driver": {"enabled": False}})
        await world.cluster.settle()
        assert drivers
        assert drivers <= daemon_sets(world)
        assert "keep its loader" in world.condition("DriverOwnedByUs")["message"]
        assert world.status()["nodes"]["npuSummary"] == "16/16"

    played(story)


@pytest.mark.parametrize("mode", ["Plan", "Paused"])
def test_plan_and_paused_write_nothing_but_status(mode):
    async def story(world):
        world.cluster.add_nodes(A2, count=2)
        world.start()
        await world.create_ctl({"mode": mode})
        await world.cluster.settle()
        assert written(world) == {"npuoperatorctls.npu-operator.alauda.io/status"}
        assert world.status()["nodes"]["total"] == 2
        await world.create_ctl({"mode": "Apply"})
        await ready(world)

    played(story)


def test_a_startup_taint_keeps_work_away_until_the_node_is_ready_for_the_first_time():
    async def story(world):
        world.cluster.add_node("a1", A2)
        world.start()
        await world.create_ctl({"placement": {"taint": {"mode": "UntilReady"}}})
        await world.cluster.settle(lambda: bool(taints(world, "a1")), within_s=60)
        assert taints(world, "a1") == [names.TAINT_DEFAULT_KEY]
        await ready(world)
        await world.cluster.settle(lambda: not taints(world, "a1"), within_s=60)
        await world.cluster.reboot("a1")
        await world.cluster.settle()
        assert taints(world, "a1") == []
        assert world.is_ready()

    played(story)


def taints(world, node: str) -> list[str]:
    found = world.cluster.find(api.NODES, node)["spec"].get("taints") or ()
    return [taint["key"] for taint in found if not taint["key"].startswith("node.kubernetes.io/")]


def test_after_a_reboot_nothing_of_the_boot_before_is_believed():
    async def story(world):
        world.cluster.add_node("a1", A2)
        world.start()
        await world.create_ctl()
        await ready(world)
        before = world.cluster.find(NPU_NODES, "a1")["status"]["found"]["bootId"]
        await world.cluster.reboot("a1", down_s=300)
        await world.cluster.settle(lambda: not world.is_ready(), within_s=60)
        await ready(world)
        found = world.cluster.find(NPU_NODES, "a1")["status"]["found"]
        assert found["bootId"] == world.cluster.find(api.NODES, "a1")["status"]["nodeInfo"]["bootID"] != before

    played(story)


def test_a_resource_may_be_renamed_to_any_domain_while_the_fleet_runs():
    async def story(world):
        world.cluster.add_nodes(A2, count=2)
        world.start()
        await world.create_ctl()
        await ready(world)
        for node in world.cluster.kinds:
            amounts = {"example.com/npu": "8"}
            status = {"status": {"capacity": amounts, "allocatable": amounts}}
            await world.cluster.client().patch(api.NODES, node, status, manager="kubelet", subresource="status")
        await world.create_ctl({"devicePlugin": {"resourceNames": {"910b": "example.com/npu"}}})
        await world.cluster.settle(lambda: observed(world) == 2, within_s=60)
        await ready(world)
        assert world.status()["nodes"]["npuSummary"] == "16/16"

    played(story)


def observed(world) -> int:
    return world.status().get("observedGeneration", 0)


def test_a_node_that_cannot_be_read_is_named_in_the_log_and_blinds_nobody_for_the_others():
    async def story(world):
        world.cluster.add_nodes(A2, count=2)
        await world.cluster.client().patch(
            api.NODES,
            "node-0001",
            {"status": {"allocatable": {"huawei.com/odd": "1500m"}}},
            manager="x",
            subresource="status",
        )
        with structlog.testing.capture_logs() as logs:
            world.start()
            await world.create_ctl()
            await world.cluster.settle(lambda: world.status().get("nodes", {}).get("summary") == "1/1", within_s=600)
        told = [entry for entry in logs if entry["event"] == "object cannot be read and keeps its last readable form"]
        assert {entry["key"] for entry in told} == {"node-0001"}

    played(story)
