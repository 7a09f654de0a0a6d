"""The hollow DaemonSet controller."""

import pytest

from npu_operator.kube import api
from npu_operator.kube.api import Object
from npu_operator.sim.cluster import SimCluster
from npu_operator.sim.controllers.kubelets import Ordinary, PodOutcome
from npu_operator.sim.fleet import NodeKind
from npu_operator.sim.server.objects import Stored, at
from tests.sim.builders import PLAIN, a_daemon_set, all_ready, in_cluster, nodes_of, pods_of, status


def test_each_node_gets_one_pod_and_the_status_says_so() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set()])
        await cluster.settle(lambda: status(cluster).get("numberReady") == 3)
        assert nodes_of(pods_of(cluster)) == ["node-0001", "node-0002", "node-0003"]
        assert status(cluster) == {
            "currentNumberScheduled": 3,
            "desiredNumberScheduled": 3,
            "numberAvailable": 3,
            "numberMisscheduled": 0,
            "numberReady": 3,
            "observedGeneration": 1,
            "updatedNumberScheduled": 3,
        }

    in_cluster(test, nodes=3)


def test_a_pod_is_made_as_the_real_controller_makes_it() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set()])
        await cluster.settle(all_ready(cluster, 1))
        (pod,) = pods_of(cluster)
        daemon_set = cluster.server.get(api.DAEMON_SETS, "agents", "default")
        assert pod.name.startswith("agents-")
        assert pod.labels["pod-template-generation"] == "1"
        assert pod.labels["controller-revision-hash"]
        (owner,) = pod.meta["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("DaemonSet", daemon_set.uid, True)
        assert at(pod.tree, "spec", "affinity", "nodeAffinity") == {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0001"]}]}
                ]
            }
        }
        tolerated = {(each["key"].rpartition("/")[2], each["effect"]) for each in pod.tree["spec"]["tolerations"]}
        assert tolerated == {
            ("not-ready", "NoExecute"),
            ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("memory-pressure", "NoSchedule"),
            ("pid-pressure", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
        }

    in_cluster(test, nodes=1)


def expression(operator: str, *values: str) -> Object:
    term = {"key": "zone", "operator": operator, **({"values": list(values)} if values else {})}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        ({"nodeSelector": {"zone": "a"}}, ["a1"]),
        (expression("In", "a", "b"), ["a1", "b1"]),
        (expression("NotIn", "a"), ["b1", "none", "tainted"]),
        (expression("Exists"), ["a1", "b1"]),
        (expression("DoesNotExist"), ["none", "tainted"]),
        (
            {"tolerations": [{"key": "dedicated", "operator": "Exists"}], **expression("DoesNotExist")},
            ["none", "tainted"],
        ),
    ],
)
def test_only_nodes_that_fit_get_a_pod(pod: Object, wanted: list[str]) -> None:
    async def test(cluster: SimCluster) -> list[str]:
        cluster.add_node("a1", NodeKind(chip=None, labels={"zone": "a"}))
        cluster.add_node("b1", NodeKind(chip=None, labels={"zone": "b"}))
        cluster.add_node("none", PLAIN)
        cluster.add_node("tainted", NodeKind(chip=None, taints=({"key": "dedicated", "effect": "NoSchedule"},)))
        await cluster.settle()
        await cluster.apply([a_daemon_set(**pod)])
        await cluster.settle()
        return nodes_of(pods_of(cluster))

    tolerates = "tolerations" in pod
    assert in_cluster(test) == (wanted if tolerates else [name for name in wanted if name != "tainted"])


def test_a_cordoned_node_keeps_and_gets_its_daemon_pod() -> None:
    async def test(cluster: SimCluster) -> None:
        admin = cluster.client()
        await admin.patch(api.NODES, "node-0001", {"spec": {"unschedulable": True}}, manager="admin")
        await cluster.apply([a_daemon_set()])
        await cluster.settle(all_ready(cluster, 2))
        await admin.patch(api.NODES, "node-0002", {"spec": {"unschedulable": True}}, manager="admin")
        await cluster.settle()
        assert len(pods_of(cluster)) == 2

    in_cluster(test, nodes=2)


def test_a_node_that_matches_no_more_loses_its_pod() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.add_node("a1", NodeKind(chip=None, labels={"zone": "a"}))
        await cluster.apply([a_daemon_set(nodeSelector={"zone": "a"})])
        await cluster.settle(all_ready(cluster, 1))
        await cluster.client().patch(api.NODES, "a1", {"metadata": {"labels": {"zone": None}}}, manager="admin")
        await cluster.settle(all_ready(cluster, 0))
        assert status(cluster)["desiredNumberScheduled"] == 0

    in_cluster(test)


def test_on_delete_leaves_old_pods_until_they_are_deleted() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set(strategy="OnDelete")])
        await cluster.settle(all_ready(cluster, 2))
        before = {pod.uid for pod in pods_of(cluster)}
        await cluster.apply([a_daemon_set(strategy="OnDelete", image="agent:2")])
        await cluster.settle()
        assert {pod.uid for pod in pods_of(cluster)} == before
        assert status(cluster).get("updatedNumberScheduled", 0) == 0
        (old,) = [pod for pod in pods_of(cluster) if at(pod.tree, "spec", "nodeName") == "node-0001"]
        await cluster.client().delete(api.PODS, old.name, "default")
        await cluster.settle(lambda: status(cluster).get("updatedNumberScheduled") == 1)
        await cluster.settle(all_ready(cluster, 2))
        images = {
            at(pod.tree, "spec", "nodeName"): pod.tree["spec"]["containers"][0]["image"] for pod in pods_of(cluster)
        }
        assert images == {"node-0001": "agent:2", "node-0002": "agent:1"}

    in_cluster(test, nodes=2)


def test_a_rolling_update_takes_one_node_at_a_time() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set()])
        await cluster.settle(all_ready(cluster, 4))
        fewest = 4

        def watch_availability() -> bool:
            nonlocal fewest
            fewest = min(fewest, sum(1 for pod in pods_of(cluster) if not pod.is_leaving))
            new = [pod for pod in pods_of(cluster) if pod.tree["spec"]["containers"][0]["image"] == "agent:2"]
            return len(new) == 4 and status(cluster).get("numberAvailable") == 4

        await cluster.apply([a_daemon_set(image="agent:2")])
        await cluster.settle(watch_availability)
        assert fewest == 3

    in_cluster(test, nodes=4)


def test_a_terminating_pod_counts_as_the_nodes_pod() -> None:
    class Slow(Ordinary):
        def on_pod_stopping(self, node: str, pod: Stored) -> float:
            return 25.0

    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set()])
        await cluster.settle(all_ready(cluster, 1))
        (old,) = pods_of(cluster)
        await cluster.client().delete(api.PODS, old.name, "default")
        await cluster.clock.sleep(20)
        assert [pod.uid for pod in pods_of(cluster)] == [old.uid]
        took_s = await cluster.settle(all_ready(cluster, 1))
        assert took_s == pytest.approx(7, abs=2)
        assert [pod.uid for pod in pods_of(cluster)] != [old.uid]

    in_cluster(test, hooks=Slow(), nodes=1)


def test_a_failed_pod_is_replaced() -> None:
    class FailsOnce(Ordinary):
        def __init__(self) -> None:
            self.tries = 0

        def on_pod(self, node: str, pod: Stored) -> PodOutcome:
            self.tries += 1
            return PodOutcome(phase="Failed", reason="Evicted") if self.tries == 1 else PodOutcome()

    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set()])
        await cluster.settle(all_ready(cluster, 1))

    in_cluster(test, hooks=FailsOnce(), nodes=1)


def test_nodes_that_join_and_leave_are_followed() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set()])
        await cluster.settle(all_ready(cluster, 1))
        cluster.add_nodes(PLAIN, count=2)
        await cluster.settle(all_ready(cluster, 3))
        cluster.remove_node("node-0002")
        await cluster.settle(all_ready(cluster, 2))
        assert nodes_of(pods_of(cluster)) == ["node-0001", "node-0003"]

    in_cluster(test, nodes=1)


def test_min_ready_seconds_delay_availability() -> None:
    async def test(cluster: SimCluster) -> None:
        body = a_daemon_set()
        body["spec"]["minReadySeconds"] = 20
        await cluster.apply([body])
        await cluster.settle(lambda: status(cluster).get("numberReady") == 1)
        assert "numberAvailable" not in status(cluster)
        assert await cluster.settle(lambda: status(cluster).get("numberAvailable") == 1) == pytest.approx(20, abs=2)

    in_cluster(test, nodes=1)


def test_deleting_the_set_deletes_its_pods() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set()])
        await cluster.settle(all_ready(cluster, 3))
        await cluster.client().delete(api.DAEMON_SETS, "agents", "default")
        await cluster.settle(all_ready(cluster, 0))

    in_cluster(test, nodes=3)


def test_an_idle_cluster_writes_nothing() -> None:
    async def test(cluster: SimCluster) -> int:
        await cluster.apply([a_daemon_set()])
        await cluster.settle(all_ready(cluster, 3))
        await cluster.settle()
        before = cluster.writes
        await cluster.clock.sleep(3600)
        return cluster.writes - before

    assert in_cluster(test, nodes=3) == 0


def test_pods_wait_for_an_account_that_comes_later() -> None:
    async def test(cluster: SimCluster) -> None:
        await cluster.apply([a_daemon_set(serviceAccountName="late")])
        await cluster.settle()
        assert pods_of(cluster) == []
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "late", "namespace": "default"}}
        await cluster.apply([account])
        await cluster.settle(all_ready(cluster, 2))

    in_cluster(test, nodes=2)
