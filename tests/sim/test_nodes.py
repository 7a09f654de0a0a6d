"""Hollow kubelets, the scheduler and what follows from a node's condition."""

import pytest

from npu_operator.kube import api
from npu_operator.sim.cluster import NotSettled, SimCluster
from npu_operator.sim.controllers.kubelets import Impossible, Ordinary, PodOutcome
from npu_operator.sim.server.eviction import is_ready
from npu_operator.sim.server.objects import Stored, Tree, at, condition
from tests.sim.builders import a_daemon_set, a_pod, all_ready, chips, in_cluster, nodes_of, pods_of


def ready_of(cluster: SimCluster, node: str) -> str:
    found = cluster.find(api.NODES, node)
    return str((condition(at(found, "status", "conditions") or (), "Ready") or {}).get("status"))


def taints_of(cluster: SimCluster, node: str) -> list[str]:
    found = cluster.find(api.NODES, node)
    return [f"{taint['key'].rpartition('/')[2]}:{taint['effect']}" for taint in at(found, "spec", "taints") or ()]


def pod(cluster: SimCluster, name: str) -> Stored:
    return cluster.server.get(api.PODS, name, "default")


async def run(cluster: SimCluster, *bodies: Tree) -> None:
    for body in bodies:
        await cluster.client().create(api.PODS, body, "default", manager="test")
    await cluster.settle()


def test_a_node_becomes_ready_and_loses_its_first_taint() -> None:
    async def test(cluster: SimCluster) -> None:
        assert ready_of(cluster, "node-0001") == "True"
        assert taints_of(cluster, "node-0001") == []

    in_cluster(test, nodes=1)


def test_a_cordon_is_a_taint_as_well() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.client().patch(api.NODES, "node-0001", {"spec": {"unschedulable": True}}, manager="admin")
        await cluster.settle()
        assert taints_of(cluster, "node-0001") == ["unschedulable:NoSchedule"]
        await cluster.client().patch(api.NODES, "node-0001", {"spec": {"unschedulable": None}}, manager="admin")
        await cluster.settle()
        assert taints_of(cluster, "node-0001") == []

    in_cluster(test, nodes=1)


def test_pods_are_spread_over_nodes_that_let_them_in() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.client().patch(api.NODES, "node-0002", {"spec": {"unschedulable": True}}, manager="admin")
        await cluster.settle()
        await run(cluster, *(a_pod(f"p{number}", labels={"app": "work"}) for number in range(4)))
        assert nodes_of(pods_of(cluster, "work")) == ["node-0001", "node-0001", "node-0003", "node-0003"]
        assert all(is_ready(each) for each in pods_of(cluster, "work"))

    in_cluster(test, nodes=3)


def test_chips_are_counted_and_a_pod_waits_for_them() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.kubelets.set_resources("node-0001", {"huawei.com/Ascend910": 8})
        await run(cluster, a_pod("first", containers=chips(6)), a_pod("second", containers=chips(4)))
        assert at(pod(cluster, "first").tree, "spec", "nodeName") == "node-0001"
        waiting = pod(cluster, "second").tree
        assert at(waiting, "spec", "nodeName") is None
        why = condition(waiting["status"]["conditions"], "PodScheduled")
        assert why is not None
        assert (why["status"], why["reason"]) == ("False", "Unschedulable")
        await cluster.client().delete(api.PODS, "first", "default")
        await cluster.settle()
        assert at(pod(cluster, "second").tree, "spec", "nodeName") == "node-0001"

    in_cluster(test, nodes=2)


def test_a_stopped_pod_needs_its_time_but_no_more_than_its_grace() -> None:
    class Slow(Ordinary):
        def on_pod_stopping(self, node: str, pod: Stored) -> float:
            return 60.0

    async def test(cluster: SimCluster) -> float:
        await run(cluster, a_pod("work"))
        await cluster.client().delete(api.PODS, "work", "default", grace_s=10)
        return await cluster.settle(lambda: cluster.find(api.PODS, "work", "default") is None)

    assert in_cluster(test, hooks=Slow(), nodes=1) == pytest.approx(10, abs=1)


def test_tests_decide_what_a_pod_does() -> None:
    class NoImage(Ordinary):
        def on_pod(self, node: str, pod: Stored) -> PodOutcome:
            return PodOutcome(phase="Pending", reason="ImagePullBackOff", message="not found")

    async def test(cluster: SimCluster) -> None:
        await run(cluster, a_pod("work"))
        (container,) = pod(cluster, "work").tree["status"]["containerStatuses"]
        assert container["state"] == {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
        assert not is_ready(pod(cluster, "work"))

    in_cluster(test, hooks=NoImage(), nodes=1)


def test_a_silent_node_is_unknown_after_its_grace_and_its_pods_are_not_ready() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set()])
        await cluster.settle(all_ready(cluster, 1))
        cluster.kubelets.power_off("node-0001")
        await cluster.clock.sleep(45)
        assert ready_of(cluster, "node-0001") == "True"
        await cluster.clock.sleep(10)
        assert ready_of(cluster, "node-0001") == "Unknown"
        assert taints_of(cluster, "node-0001") == ["unreachable:NoSchedule", "unreachable:NoExecute"]
        assert not is_ready(pods_of(cluster)[0])

    in_cluster(test, nodes=1)


def test_a_quick_reboot_is_never_unknown_and_has_a_new_boot_id() -> None:
    async def test(cluster: SimCluster) -> None:
        before = cluster.kubelets.boot_id("node-0001")
        seen = set()
        cluster.server.store.table(api.NODES).listeners.append(lambda event: seen.add(ready_of(cluster, "node-0001")))
        await cluster.reboot("node-0001", down_s=20)
        await cluster.settle()
        found = cluster.find(api.NODES, "node-0001")
        assert at(found, "status", "nodeInfo", "bootID") == cluster.kubelets.boot_id("node-0001") != before
        assert seen == {"False", "True"}

    in_cluster(test, nodes=1)


def test_daemon_pods_survive_a_long_silence_and_others_are_evicted() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set()])
        await run(cluster, a_pod("work"))
        cluster.kubelets.power_off("node-0001")
        await cluster.clock.sleep(50 + 300 + 5)
        assert pod(cluster, "work").is_leaving
        assert not pods_of(cluster)[0].is_leaving
        cluster.kubelets.power_on("node-0001", cluster.new_boot_id())
        await cluster.settle()
        assert cluster.find(api.PODS, "work", "default") is None
        assert all_ready(cluster, 1)()

    in_cluster(test, nodes=1)


def test_a_pod_of_a_node_without_power_does_not_end() -> None:
    async def test(cluster: SimCluster) -> None:
        await run(cluster, a_pod("work"))
        cluster.kubelets.power_off("node-0001")
        await cluster.client().delete(api.PODS, "work", "default")
        with pytest.raises(NotSettled, match="not settled within 600 s"):
            await cluster.settle(lambda: cluster.find(api.PODS, "work", "default") is None)
        assert cluster.kubelets.running("node-0001") == ()

    in_cluster(test, nodes=1)


def test_pods_of_a_removed_node_are_collected() -> None:
    async def test(cluster: SimCluster) -> None:
        await run(cluster, a_pod("work"))
        cluster.remove_node("node-0001")
        assert await cluster.settle(lambda: cluster.find(api.PODS, "work", "default") is None) > 30

    in_cluster(test, nodes=1)


def test_impossible_wishes_are_refused_with_a_reason() -> None:
    async def test(cluster: SimCluster) -> None:
        kubelets = cluster.kubelets
        with pytest.raises(Impossible, match="there is no node nowhere"):
            kubelets.power_off("nowhere")
        with pytest.raises(Impossible, match="there is no node nowhere"):
            kubelets.set_resources("nowhere", {"huawei.com/Ascend910": 8})
        with pytest.raises(Impossible, match="it is up"):
            kubelets.power_on("node-0001", "new")
        kubelets.power_off("node-0001")
        with pytest.raises(Impossible, match="it has none"):
            kubelets.power_off("node-0001")
        with pytest.raises(Impossible, match="has no power"):
            kubelets.set_resources("node-0001", {"huawei.com/Ascend910": 8})
        with pytest.raises(Impossible, match="it had that before"):
            kubelets.power_on("node-0001", kubelets.boot_id("node-0001"))
        with pytest.raises(Impossible, match="there is a node node-0001 already"):
            cluster.add_node("node-0001", cluster.kinds["node-0001"])

    in_cluster(test, nodes=1)


def test_the_same_seed_gives_the_same_history() -> None:
    async def test(cluster: SimCluster) -> list[str]:
        await cluster.apply([a_daemon_set()])
        await run(cluster, *(a_pod(f"p{number}") for number in range(3)))
        return [
            f"{event.new.version} {event.type} {event.new.resource.name} {event.new.key} {event.new.uid}"
            for table in cluster.server.store.tables.values()
            for event in table.history
        ]

    first, second, other = (in_cluster(test, nodes=5, seed=seed) for seed in (3, 3, 4))
    assert first == second
    assert first != other
