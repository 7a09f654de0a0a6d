"""The operator in the simulated cluster: the main job, bad days, and crashes at every write, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from npu_operator.kube import api
from npu_operator.kube.answers import Ask
from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from npu_operator.sim.agents import NPU_NODES
from npu_operator.sim.clock import run_virtual
from npu_operator.sim.faults import Faults, Rates
from npu_operator.sim.fleet import NodeKind, Sign
from npu_operator.sim.installation import ACCOUNT, CTLS, Installation

A2 = NodeKind()
A3 = NodeKind(chip=ChipFamily.ASCEND_A3, model="Ascend910", chips=16, sign=Sign.NFD_DEVICE)
INFERENCE = NodeKind(
    chip=ChipFamily.ASCEND_310P,
    model="310P3",
    chips=4,
    sign=Sign.MINDCLUSTER,
    kernel="5.10.0-60.18.0.50.oe2203.aarch64",
)
HIDDEN = NodeKind(sign=Sign.NONE)
BARE = NodeKind(chip=None)
HOST = NodeKind(host_driver="24.1.0", sign=Sign.NPU)

LEASES = "leases.coordination.k8s.io"
Story = Callable[[Installation], Awaitable[None]]


def played(story: Story, *, seed: int = 1, limit_s: float = 7200) -> None:
    async def main(clock):
        installation = Installation(clock, seed=seed)
        await installation.install()
        try:
            await story(installation)
        finally:
            await installation.close()

    run_virtual(main, limit_s=limit_s)


async def ready(installation: Installation, within_s: float = 600) -> None:
    await installation.cluster.settle(installation.is_ready, within_s=within_s)


def test_a_mixed_fleet_comes_to_life_and_each_node_gets_only_what_it_should():
    async def story(world):
        for name, kind in {"a2": A2, "a3": A3, "p": INFERENCE, "hidden": HIDDEN, "web": BARE, "host": HOST}.items():
            world.cluster.add_node(name, kind)
        world.start()
        await world.create_ctl()
        await ready(world)
        status = world.status()
        assert status["nodes"]["summary"] == "5/5"
        assert status["nodes"]["npuSummary"] == "44/44"
        assert {pool["chip"]: pool["nodes"] for pool in status["pools"]} == {"910b": 2, "a3": 1, "310p": 1}
        assert [each.key[-1] for each in world.cluster.all(NPU_NODES)] == ["a2", "a3", "hidden", "host", "p"]
        assert not any("npu" in key for key in world.cluster.find(api.NODES, "web")["metadata"]["labels"])
        assert "host" in world.condition("HostDriver")["message"]
        assert not [pod for pod in world.cluster.pods_on("host") if pod.key[-1].startswith(names.DRIVER_PREFIX)]

    played(story)


def test_a_sick_chip_is_named_and_a_healed_one_makes_the_fleet_ready_again():
    async def story(world):
        world.cluster.add_node("a1", A2)
        world.start()
        await world.create_ctl()
        await ready(world)
        world.agents.make_sick("a1", {3: "80E18402"})
        await world.cluster.settle(lambda: world.condition("Degraded").get("status") == "True", within_s=120)
        assert "a1: chip Ascend910-3 is Critical (fault 80E18402)" in world.condition("Degraded")["message"]
        assert not world.is_ready()
        assert world.agents.allocatable("a1") == 7
        world.agents.make_sick("a1", {})
        await ready(world)

    played(story)


def test_deleting_the_object_leaves_nothing_behind():
    async def story(world):
        world.cluster.add_nodes(A2, count=3)
        world.start()
        await world.create_ctl()
        await ready(world)
        await world.cluster.client().delete(CTLS, names.CTL_SAMPLE, names.NAMESPACE)
        await world.cluster.settle(lambda: not world.leftovers(), within_s=120)

    played(story)


def test_an_idle_cluster_causes_no_calls_and_a_restart_no_writes():
    async def story(world):
        world.cluster.add_nodes(A2, count=5)
        world.start()
        await world.create_ctl()
        await ready(world)
        await world.cluster.settle()
        before = len(list(world.cluster.clients.log))
        await world.clock.sleep(3600)
        assert calls(world, since=before) == []
        await world.stop()
        before = len(list(world.cluster.clients.log))
        world.start("operator-2")
        await world.clock.sleep(120)
        assert {verb for verb, _ in calls(world, since=before)} == {"list"}
        assert world.is_ready()

    played(story, limit_s=20000)


def calls(world: Installation, *, since: int = 0) -> list[tuple[str, str]]:
    """What the operator asked for, but for its lease and the watches, which end and begin anew by themselves."""
    mine = [call for call in list(world.cluster.clients.log)[since:] if call.user == ACCOUNT.name]
    return [(call.ask.verb, call.ask.what) for call in mine if call.ask.verb != "watch" and call.ask.what != LEASES]


def test_labels_that_vanish_for_five_minutes_remove_nothing():
    async def story(world):
        names_of_nodes = world.cluster.add_nodes(A2, count=3)
        world.start()
        await world.create_ctl({"discovery": "Off"})
        await ready(world)
        pods = {pod.key for node in names_of_nodes for pod in world.cluster.pods_on(node)}
        for node in names_of_nodes:
            await label(world, node, {"feature.node.kubernetes.io/pci-1200_19e5.present": None})
        await world.clock.sleep(300)
        assert {pod.key for node in names_of_nodes for pod in world.cluster.pods_on(node)} == pods
        for node in names_of_nodes:
            await label(world, node, {"feature.node.kubernetes.io/pci-1200_19e5.present": "true"})
        await world.clock.sleep(900)
        assert {pod.key for node in names_of_nodes for pod in world.cluster.pods_on(node)} == pods
        assert world.is_ready()

    played(story)


def test_labels_that_stay_away_take_our_own_with_them_after_ten_minutes():
    async def story(world):
        world.cluster.add_node("a1", A2)
        world.start()
        await world.create_ctl({"discovery": "Off"})
        await ready(world)
        await label(world, "a1", {"feature.node.kubernetes.io/pci-1200_19e5.present": None})
        await world.clock.sleep(540)
        assert names.NPU_PRESENT in world.cluster.find(api.NODES, "a1")["metadata"]["labels"]
        await world.clock.sleep(120)
        assert names.NPU_PRESENT not in world.cluster.find(api.NODES, "a1")["metadata"]["labels"]
        assert world.status()["nodes"]["total"] == 0

    played(story)


async def label(world: Installation, node: str, labels: dict[str, str | None]) -> None:
    await world.cluster.client().patch(api.NODES, node, {"metadata": {"labels": labels}}, manager="nfd")


def test_a_new_operator_version_restarts_no_driver_pod():
    async def story(world):
        world.cluster.add_nodes(A2, count=2)
        world.start(version="1.0.0")
        await world.create_ctl()
        await ready(world)
        drivers = [pod.uid for pod in world.cluster.all(api.PODS) if names.DRIVER_PREFIX in pod.key[-1]]
        await world.stop()
        world.start("operator-2", version="1.1.0")
        await world.cluster.settle()
        assert [pod.uid for pod in world.cluster.all(api.PODS) if names.DRIVER_PREFIX in pod.key[-1]] == drivers
        await ready(world)
        image = world.cluster.find(api.DAEMON_SETS, names.EXPORTER, names.NAMESPACE)["spec"]["template"]["spec"]
        assert image["containers"][0]["image"] == "npu-operator:1.1.0"

    played(story)


def test_a_service_monitor_is_made_when_its_definition_comes_later():
    async def story(world):
        world.cluster.add_node("a1", A2)
        world.start()
        await world.create_ctl()
        await ready(world)
        await world.cluster.apply([service_monitors()])
        monitors = api.Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
        await world.cluster.settle(
            lambda: world.cluster.find(monitors, names.SERVICE_MONITOR, names.NAMESPACE) is not None, within_s=120
        )

    played(story)


def service_monitors() -> api.Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plural = {
        "plural": "servicemonitors",
        "singular": "servicemonitor",
        "kind": "ServiceMonitor",
        "listKind": "Monitors",
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {**plural, "listKind": "ServiceMonitorList"},
            "versions": [version],
        },
    }


def test_all_nodes_not_ready_for_two_minutes_delete_nothing():
    async def story(world):
        nodes = world.cluster.add_nodes(A2, count=3)
        world.start()
        await world.create_ctl()
        await ready(world)
        sets = {each.uid for each in world.cluster.all(api.DAEMON_SETS)}
        for node in nodes:
            world.cluster.kubelets.power_off(node)
        await world.clock.sleep(120)
        assert world.condition("Degraded")["reason"] == "NodeNotReady"
        assert {each.uid for each in world.cluster.all(api.DAEMON_SETS)} == sets
        for node in nodes:
            world.cluster.kubelets.power_on(node, world.cluster.new_boot_id())
        await ready(world)
        assert {each.uid for each in world.cluster.all(api.DAEMON_SETS)} == sets

    played(story)


def test_a_second_replica_takes_over_when_the_first_one_dies():
    async def story(world):
        world.cluster.add_node("a1", A2)
        faults = Faults()
        world.start("operator-1", faults=faults)
        world.start("operator-2")
        await world.create_ctl()
        await ready(world)
        faults.is_down = True  # so that it cannot even give its lease back
        world.kill("operator-1")
        await world.clock.sleep(60)
        world.cluster.add_node("a2", A2)
        await world.cluster.settle(lambda: world.status()["nodes"]["summary"] == "2/2", within_s=300)

    played(story)


RATES = Rates(
    too_many_requests=0.1,
    conflict=0.1,
    gone=0.05,
    server_error=0.1,
    refused=0.05,
    lost_answer=0.05,
    silent_watch=0.2,
    slow=0.2,
)


@pytest.mark.parametrize("seed", range(5))
def test_refusals_lost_answers_and_broken_watches_lead_to_the_same_end(seed):
    async def story(world):
        world.cluster.add_nodes(A2, count=4)
        world.cluster.add_node("p", INFERENCE)
        faults = Faults(RATES, seed=seed)
        world.start(faults=faults)
        await world.create_ctl()
        await world.clock.sleep(900)
        faults.calm()
        await world.cluster.settle(
            lambda: world.is_ready() and world.status()["nodes"]["npuSummary"] == "36/36", within_s=900
        )

    played(story, seed=seed, limit_s=20000)


def test_an_api_server_that_is_away_for_ten_minutes_is_waited_for():
    async def story(world):
        faults = Faults()
        world.cluster.add_nodes(A2, count=2)
        world.start(faults=faults)
        await world.create_ctl()
        await ready(world)
        faults.is_down = True
        world.cluster.add_node("late", A2)
        await world.clock.sleep(600)
        faults.is_down = False
        await world.cluster.settle(lambda: world.status()["nodes"]["summary"] == "3/3", within_s=300)

    played(story)


def writes_of_a_whole_run() -> int:
    done: list[Ask] = []

    async def story(world):
        world.cluster.add_nodes(A2, count=2)
        world.start(after_write=done.append)
        await world.create_ctl()
        await ready(world)

    played(story)
    return len(done)


@pytest.mark.parametrize("moment", ["before_write", "after_write"])
def test_a_crash_at_any_write_changes_nothing_about_the_end(moment):
    total = writes_of_a_whole_run()
    assert total > 30
    for number in range(total):
        killed_at(number, moment)


def killed_at(number: int, moment: str) -> None:
    """Let the first replica die without a word at its write `number`; the second one has to get everything right."""

    async def story(world):
        world.cluster.add_nodes(A2, count=2)
        faults, seen = Faults(), []

        def kill(ask: Ask) -> None:
            seen.append(ask)
            if len(seen) == number + 1:
                faults.is_down = True
                world.kill("operator-1")
                raise asyncio.CancelledError

        world.start("operator-1", faults=faults, **{moment: kill})
        await world.create_ctl()
        await world.clock.sleep(5)
        world.start("operator-2")
        await world.cluster.settle(
            lambda: world.is_ready() and world.status()["nodes"]["npuSummary"] == "16/16", within_s=1200
        )
        await world.cluster.client().delete(CTLS, names.CTL_SAMPLE, names.NAMESPACE)
        await world.cluster.settle(lambda: not world.leftovers(), within_s=300)

    played(story)
