"""Our hollow agents: what they publish and offer, and when."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from npu_operator.components.driver import WantedDriver
from npu_operator.kube import api
from npu_operator.kube.api import Object
from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from npu_operator.sim.agents import NPU_NODES, HollowAgents
from npu_operator.sim.clock import VirtualClock, run_virtual
from npu_operator.sim.cluster import SimCluster
from npu_operator.sim.controllers.kubelets import Impossible
from npu_operator.sim.fleet import NodeKind
from npu_operator.sim.server.objects import at

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
NODE = "node-0001"


class Node:
    """One node with agents, and the DaemonSets that the operator would make."""

    def __init__(self, cluster: SimCluster, agents: HollowAgents) -> None:
        self.cluster = cluster
        self.agents = agents

    async def has_npu_node(self, **spec: Any) -> None:
        kind = {"apiVersion": names.API_VERSION, "kind": names.NODE_KIND}
        await self.cluster.apply([{**kind, "metadata": {"name": NODE}, **({"spec": spec} if spec else {})}])

    async def runs(self, *workloads: str, driver: str = "", settle: bool = True) -> None:
        for workload in workloads:
            await self.cluster.apply([a_workload(workload, driver)])
        if settle:
            await self.cluster.settle()

    def found(self) -> Any:
        return at(self.cluster.find(NPU_NODES, NODE), "status", "found") or {}

    def offered(self) -> int:
        return self.agents.allocatable(NODE)


DRIVER = f"{names.DRIVER_PREFIX}pool"
ALL = (names.NODE_AGENT, DRIVER, names.DEVICE_PLUGIN, names.VALIDATOR)


def a_workload(name: str, driver: str) -> Object:
    annotations = WantedDriver(driver).annotations if driver else {}
    limits = {names.VALIDATION_RESOURCE: "1"} if name == names.VALIDATOR else {}
    labels = {"app": name, names.LABEL_MANAGED_BY: names.OPERATOR_NAME}
    pod = {
        "serviceAccountName": "agent",
        "containers": [{"name": "main", "image": "agent:1", "resources": {"limits": limits}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
        },
    }


ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "agent", "namespace": "default"}}
RIGHTS: tuple[Object, ...] = (
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "agent"},
        "rules": [
            {"apiGroups": [names.GROUP], "resources": [f"{names.NODE_PLURAL}/status"], "verbs": ["patch"]},
            {"apiGroups": [names.GROUP], "resources": [names.NODE_PLURAL], "verbs": ["create"]},
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "agent"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "agent"},
        "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": "default"}],
    },
)


def on_a_node(test: Any, kind: NodeKind = NodeKind(), *, rights: bool = True) -> None:  # noqa: B008 - frozen
    async def main(clock: VirtualClock) -> None:
        agents = HollowAgents()
        cluster = SimCluster(clock, seed=1, hooks=agents)
        agents.attach(cluster)
        cluster.add_nodes(kind)
        await cluster.apply(yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml")))
        await cluster.apply((ACCOUNT, *(RIGHTS if rights else ())))
        await cluster.settle()
        await test(Node(cluster, agents))

    run_virtual(main, limit_s=86_400)


def test_the_agent_publishes_what_is_in_the_node() -> None:
    async def test(node: Node) -> None:
        await node.has_npu_node()
        await node.runs(names.NODE_AGENT)
        found = node.found()
        assert found["bootId"] == node.cluster.kubelets.boot_id(NODE)
        assert (found["chip"], found["summary"], found["healthy"]) == ("910b", "8x910B3", "8/8")
        assert (found["kernel"], found["architecture"]) == ("6.6.0-145.0.4.135.oe2403sp3.aarch64", "aarch64")
        assert found["driver"]["managedBy"] == "None"
        assert found["inService"] is False

    on_a_node(test)


def test_without_an_agent_or_an_object_nothing_is_published() -> None:
    async def test(node: Node) -> None:
        await node.runs(names.NODE_AGENT)
        assert node.cluster.find(NPU_NODES, NODE) is None
        await node.has_npu_node()
        await node.cluster.settle()
        assert node.found()["summary"] == "8x910B3"

    on_a_node(test)


def test_chips_are_offered_once_driver_plugin_and_validator_have_done_their_part() -> None:
    async def test(node: Node) -> None:
        await node.has_npu_node()
        await node.runs(names.NODE_AGENT, names.DEVICE_PLUGIN)
        assert node.offered() == 0
        await node.runs(names.VALIDATOR)
        assert node.offered() == 0
        await node.runs(DRIVER, driver="25.5.0")
        assert node.offered() == 8
        found = node.found()
        assert found["inService"] is True
        assert found["driver"]["version"] == found["validation"]["version"] == "25.5.0"
        assert found["driver"]["managedBy"] == "Operator"

    on_a_node(test)


def test_a_driver_of_the_host_needs_no_loader() -> None:
    async def test(node: Node) -> None:
        await node.has_npu_node()
        await node.runs(names.NODE_AGENT, names.DEVICE_PLUGIN, names.VALIDATOR)
        assert node.offered() == 8
        assert (node.found()["driver"]["managedBy"], node.found()["driver"]["version"]) == ("Host", "24.1.0")

    on_a_node(test, NodeKind(host_driver="24.1.0"))


def test_sick_and_isolated_chips_are_not_offered_and_are_named() -> None:
    async def test(node: Node) -> None:
        await node.has_npu_node()
        await node.runs(*ALL, driver="25.5.0")
        assert node.offered() == 7
        node.agents.make_sick(NODE, {2: "80E01801", 5: "80E01801"})
        await node.cluster.settle()
        assert (node.offered(), node.found()["healthy"]) == (6, "6/8")
        await node.has_npu_node(isolatedChips=["Ascend910-0"])
        await node.cluster.settle()
        assert node.offered() == 5
        node.agents.make_sick(NODE, {})
        await node.has_npu_node()
        await node.cluster.settle()
        assert (node.offered(), node.found()["healthy"]) == (8, "8/8")

    on_a_node(test, NodeKind(sick={3: "80E01801"}))


def test_without_the_plugin_no_chip_is_offered() -> None:
    async def test(node: Node) -> None:
        await node.has_npu_node()
        await node.runs(*ALL, driver="25.5.0")
        await node.cluster.client().delete(api.DAEMON_SETS, names.DEVICE_PLUGIN, "default")
        await node.cluster.settle()
        assert node.offered() == 0

    on_a_node(test)


def test_another_driver_is_staged_and_waits_for_a_boot() -> None:
    async def test(node: Node) -> None:
        await node.has_npu_node()
        await node.runs(*ALL, driver="25.5.0")
        await node.cluster.apply([a_workload(DRIVER, "25.7.0")])
        (pod,) = node.cluster.all(api.PODS, "default", labels=f"app={DRIVER}")
        await node.cluster.client().delete(api.PODS, pod.name, "default")
        await node.cluster.settle()
        found = node.found()
        assert found["driver"]["version"] == "25.5.0"
        assert {each["version"] for each in found["staged"]} == {"25.5.0", "25.7.0"}
        assert node.offered() == 8
        await node.cluster.reboot(NODE)
        await node.cluster.settle()
        found = node.found()
        assert found["driver"]["version"] == found["validation"]["version"] == "25.7.0"
        assert found["bootId"] == node.cluster.kubelets.boot_id(NODE)
        assert node.offered() == 8

    on_a_node(test)


def test_discovery_makes_the_object_of_a_node_with_chips_only() -> None:
    async def test(node: Node) -> None:
        node.cluster.add_node("bare", NodeKind(chip=None))
        await node.runs(names.DISCOVERY)
        assert [each.name for each in node.cluster.all(NPU_NODES)] == [NODE]

    on_a_node(test, NodeKind(chip=ChipFamily.ASCEND_310P, model="310P3", chips=2))


def test_an_agent_without_rights_reports_nothing_and_tries_again() -> None:
    async def test(node: Node) -> None:
        await node.has_npu_node()
        await node.runs(names.NODE_AGENT, settle=False)
        await node.cluster.clock.sleep(60)
        assert node.found() == {}
        assert node.cluster.clients.log.count("patch", code=403) > 5
        await node.cluster.apply(RIGHTS)
        await node.cluster.settle(lambda: node.found().get("summary") == "8x910B3", within_s=30)

    on_a_node(test, rights=False)


def test_a_settled_node_is_quiet() -> None:
    async def test(node: Node) -> None:
        await node.has_npu_node()
        await node.runs(*ALL, driver="25.5.0")
        before = node.cluster.clients.log.count()
        await node.cluster.clock.sleep(3600)
        assert node.cluster.clients.log.count() == before

    on_a_node(test)


def test_a_chip_that_is_not_there_cannot_be_sick() -> None:
    async def test(node: Node) -> None:
        with pytest.raises(Impossible, match="has no chip 8: it has 8"):
            node.agents.make_sick(NODE, {8: "80E01801"})
        with pytest.raises(Impossible, match="there is no node nowhere"):
            node.agents.make_sick("nowhere", {0: "80E01801"})

    on_a_node(test)


def test_what_is_published_is_plain_json() -> None:
    async def test(node: Node) -> None:
        await node.has_npu_node()
        await node.runs(*ALL, driver="25.5.0")
        assert json.loads(json.dumps(node.found()))["validation"]["passed"] is True

    on_a_node(test)
