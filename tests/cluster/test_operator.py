"""The operator on a real control plane, as its own process with its own account and the rights that it ships."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from testbed.agents import Chips, HollowAgents
from testbed.control_plane import ControlPlane
from testbed.hollow import Background, in_background
from testbed.nodes import NFD, HollowNode

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
WITHIN_S = 120.0
CLASS_AND_VENDOR = {f"{NFD}/pci-1200_19e5.present": "true"}
A3 = {f"{NFD}/pci-1200_19e5_d803.present": "true"}
CTL = ["npuoperatorctl", names.CTL_SAMPLE, "-n", names.NAMESPACE]

FLEET = {
    "a2-1": (HollowNode(name="a2-1", labels=CLASS_AND_VENDOR), Chips()),
    "a3-1": (HollowNode(name="a3-1", labels=A3), Chips(family=ChipFamily.ASCEND_A3, model="Ascend910", count=16)),
    "p-1": (
        HollowNode(
            name="p-1", labels={"accelerator": "huawei-Ascend310P"}, has_nfd=False, kernel="5.10.0-60.oe2203.x86_64"
        ),
        Chips(family=ChipFamily.ASCEND_310P, model="310P3", count=4),
    ),
    "web-1": (HollowNode(name="web-1", labels={"nvidia.com/gpu.present": "true"}), None),
    "host-1": (HollowNode(name="host-1", labels={"npu": "true"}), Chips(host_driver="24.1.0")),
}


class Operator:
    """The process, its log, and the cluster as an admin sees it."""

    def __init__(self, cluster: ControlPlane, hollow: Background, agents: HollowAgents, folder: Path) -> None:
        self.cluster = cluster
        self.hollow = hollow
        self.agents = agents
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def start(self) -> None:
        self._starts += 1
        kubeconfig = self.cluster.service_account_kubeconfig(names.NAMESPACE, names.OPERATOR_NAME)
        command = [sys.executable, "-m", "npu_operator.cli.entry", "run", "--kubeconfig", str(kubeconfig)]
        command += ["--namespace", names.NAMESPACE, "--listen", "127.0.0.1:0", "--log", "json"]
        with (self._folder / f"operator-{self._starts}.log").open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(number)
        return process.wait(60)

    def fail_if_dead(self) -> None:
        if self._process is not None and (status := self._process.poll()) is not None:
            pytest.fail(f"the operator ended with {status}\n{self.log[-6000:]}")

    @property
    def log(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("operator-*.log")))

    def get(self, *what: str) -> dict:
        return json.loads(self.cluster.kubectl("get", *what, "-o", "json"))

    def until(self, claim: str, check, *, within_s: float = WITHIN_S):
        end = time.monotonic() + within_s
        while True:
            try:
                if found := check():
                    return found
            except (KeyError, StopIteration):
                pass
            self.fail_if_dead()
            if time.monotonic() > end:
                state = self.cluster.kubectl("get", "npuctl,npunodes,ds,pods", "-A")
                ctl = self.cluster.kubectl("get", "npuctl", "-A", "-o", "yaml")
                pytest.fail(f"never came true: {claim}\n{state}\n{ctl}\n{self.log[-6000:]}")
            time.sleep(0.3)

    def condition(self, kind: str, *what: str) -> dict:
        status = self.get(*(what or CTL))["status"]
        return next(condition for condition in status["conditions"] if condition["type"] == kind)


@pytest.fixture
def operator(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Operator]:
    agents = HollowAgents({name: chips for name, (_, chips) in FLEET.items() if chips is not None})
    cluster = control_plane
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "crds"))
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "manifests" / "install.yaml"))
    cluster.kubectl("scale", "deployment", names.DEPLOYMENT_OPERATOR, "-n", names.NAMESPACE, "--replicas=0")
    with in_background(cluster.client, on_pod=agents.on_pod) as hollow:
        hollow.call(hollow.nodes.add(*(node for node, _ in FLEET.values())))
        operator = Operator(cluster, hollow, agents, tmp_path)
        operator.start()
        try:
            yield operator
        finally:
            cluster.kubectl("delete", "npuctl", "--all", "-A", "--ignore-not-found", "--wait=true")
            operator.until("nothing is left", lambda: not leftovers(operator), within_s=120)
            operator.stop()
            hollow.call(hollow.nodes.remove(*list(hollow.nodes.nodes)))


def leftovers(operator: Operator) -> list[str]:
    kinds = "daemonsets,services,runtimeclasses,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts"
    kinds += ",validatingadmissionpolicies,validatingadmissionpolicybindings"
    label = f"{names.LABEL_MANAGED_BY}={names.OPERATOR_NAME}"
    objects = operator.get(kinds, "-A", "-l", label)["items"]
    found = [f"{item['kind']} {item['metadata']['name']}" for item in objects]
    found += [f"NPUNode {item['metadata']['name']}" for item in operator.get("npunodes")["items"]]
    for node in operator.get("nodes")["items"]:
        marks = {**node["metadata"].get("labels", {}), **node["metadata"].get("annotations", {})}
        found += [f"{node['metadata']['name']} {key}" for key in marks if names.GROUP in key or "openfuyao" in key]
    return found


def all_ready(operator: Operator) -> dict[str, list[str]] | None:
    """The table that `kubectl get npunodes` prints, by node, once each row says Ready; the plan lags a little."""
    rows = {line.split()[0]: line.split() for line in operator.cluster.kubectl("get", "npunodes").splitlines()[1:]}
    return rows if all("Ready" in row for row in rows.values()) else None


def sample(operator: Operator) -> None:
    operator.cluster.kubectl("apply", "-f", str(ROOT / "deploy" / "samples" / "npuoperatorctl-sample.yaml"))


def test_one_object_brings_a_mixed_fleet_to_life_and_takes_it_back(operator: Operator):
    sample(operator)
    operator.until("the fleet is ready", lambda: operator.condition("Ready")["status"] == "True")
    status = operator.get(*CTL)["status"]
    assert status["nodes"]["summary"] == "4/4"
    assert status["nodes"]["npuSummary"] == "36/36"
    pools = {pool["chip"]: pool["image"].rpartition(":")[2] for pool in status["pools"]}
    assert pools == {
        "910b": "25.5.0-910b-6.6.0-145.0.4.135-oe2403sp3",
        "a3": "25.5.0-a3-6.6.0-145.0.4.135-oe2403sp3",
        "310p": "25.5.0-310p-5.10.0-60-oe2203",
    }
    assert "host-1" in operator.condition("HostDriver")["message"]
    table = operator.cluster.kubectl("get", "npuctl", "-A")
    assert "36/36" in table
    rows = operator.until("each node says Ready", lambda: all_ready(operator))
    assert set(rows) == {"a2-1", "a3-1", "p-1", "host-1"}
    assert rows["a2-1"][1:5] == ["8x910B3", "8/8", "25.5.0", "Ready"]
    assert not any("npu" in key for key in operator.get("node", "web-1")["metadata"]["labels"])

    operator.agents.make_sick("a2-1", {3: "80E18402"})
    operator.hollow.call(
        operator.hollow.nodes.each(lambda client, node: operator.agents.report(client, node.name), "a2-1")
    )
    degraded = operator.until(
        "the sick chip is named", lambda: (c := operator.condition("Degraded"))["status"] == "True" and c
    )
    assert "a2-1: chip Ascend910-3 is Critical (fault 80E18402)" in degraded["message"]
    assert operator.condition("Ready")["status"] == "False"

    operator.cluster.kubectl("delete", *CTL)
    operator.until("nothing is left behind", lambda: not leftovers(operator))


def test_a_node_that_joins_and_one_that_goes_are_noticed(operator: Operator):
    sample(operator)
    operator.until("the fleet is ready", lambda: operator.condition("Ready")["status"] == "True")
    operator.agents.chips["late-1"] = Chips()
    operator.hollow.call(operator.hollow.nodes.add(HollowNode(name="late-1", labels=CLASS_AND_VENDOR)))
    operator.until("five nodes are ready", lambda: operator.get(*CTL)["status"]["nodes"]["summary"] == "5/5")
    operator.hollow.call(operator.hollow.nodes.remove("late-1"))
    operator.until("four nodes are ready", lambda: operator.get(*CTL)["status"]["nodes"]["summary"] == "4/4")
    operator.until("its NPUNode is gone", lambda: "late-1" not in operator.cluster.kubectl("get", "npunodes"))


def test_a_manual_edit_of_ours_is_reverted_and_an_idle_cluster_causes_no_writes(operator: Operator):
    sample(operator)
    operator.until("the fleet is ready", lambda: operator.condition("Ready")["status"] == "True")
    exporter = ["daemonset", names.EXPORTER, "-n", names.NAMESPACE]
    before = operator.get(*exporter)["spec"]["template"]["spec"]["containers"][0]["image"]
    operator.cluster.kubectl("set", "image", f"daemonset/{names.EXPORTER}", "*=evil:1", "-n", names.NAMESPACE)
    operator.until(
        "the image is ours again",
        lambda: operator.get(*exporter)["spec"]["template"]["spec"]["containers"][0]["image"] == before,
    )
    operator.until("the fleet is ready again", lambda: operator.condition("Ready")["status"] == "True")
    time.sleep(5)  # the last report of a node's plan comes two seconds after the change
    user = f"system:serviceaccount:{names.NAMESPACE}:{names.OPERATOR_NAME}"
    earlier = len(list(operator.cluster.audit(user)))
    time.sleep(20)
    idle = [(event.verb, event.resource) for event in list(operator.cluster.audit(user))[earlier:]]
    assert [call for call in idle if call[1] != "leases" and call[0] != "watch"] == []
    assert operator.stop() == 0
    earlier = len(list(operator.cluster.audit(user)))
    operator.start()
    lease = ["lease", names.LEASE_LEADER, "-n", names.NAMESPACE]
    operator.until("it leads again", lambda: operator.get(*lease)["spec"]["holderIdentity"])
    time.sleep(8)
    again = [(event.verb, event.resource) for event in list(operator.cluster.audit(user))[earlier:]]
    assert [call for call in again if call[1] != "leases" and call[0] not in ("list", "watch", "get")] == []


def test_a_second_object_waits_for_the_first_to_go(operator: Operator):
    sample(operator)
    second = {
        "apiVersion": names.API_VERSION,
        "kind": names.CTL_KIND,
        "metadata": {"name": "second", "namespace": names.NAMESPACE},
        "spec": {},
    }
    operator.until("the first is in charge", lambda: operator.condition("SpecAccepted")["status"] == "True")
    operator.cluster.kubectl("apply", "-f", "-", input=json.dumps(second))
    other = ["npuoperatorctl", "second", "-n", names.NAMESPACE]
    conflict = operator.until("the second is told", lambda: operator.condition("Conflict", *other))
    assert names.CTL_SAMPLE in conflict["message"]
    made = operator.get("daemonset", names.EXPORTER, "-n", names.NAMESPACE)["metadata"]["uid"]
    operator.cluster.kubectl("delete", *CTL)
    operator.until("the second takes over", lambda: operator.condition("SpecAccepted", *other)["status"] == "True")
    assert operator.get("daemonset", names.EXPORTER, "-n", names.NAMESPACE)["metadata"]["uid"] == made


def test_an_operator_that_is_killed_goes_on_where_it_was(operator: Operator):
    sample(operator)
    operator.stop(signal.SIGKILL)
    operator.start()
    operator.until("the fleet is ready", lambda: operator.condition("Ready")["status"] == "True")
