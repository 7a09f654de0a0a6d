"""The demo on a real control plane: etcd, kube-apiserver, controllers and scheduler run; only the nodes are hollow.

It needs the project's checkout, whose `testbed` builds the control plane once and keeps it outside the tree.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from npu_operator.cli import crds, manifests
from npu_operator.cli.demo.picture import Object
from npu_operator.cli.demo.screen import Screen
from npu_operator.model import names
from npu_operator.model.chips import ChipFamily

if TYPE_CHECKING:
    from testbed.control_plane import ControlPlane

LIMIT_S = 300.0
QUIET_S = 6.0  # a node's plan follows two seconds after its last change
LOOK_EVERY_S = 0.5
CTLS = f"/apis/{names.API_VERSION}/namespaces/{names.NAMESPACE}/{names.CTL_PLURAL}"
NPU_NODES = f"/apis/{names.API_VERSION}/{names.NODE_PLURAL}"


def play(screen: Screen) -> Object | str:
    """Play it; returns the `NPUOperatorCtl` as it is in the end, or in one sentence why this machine cannot."""
    try:
        from testbed import Unavailable
        from testbed.agents import HollowAgents
        from testbed.control_plane import ControlPlane
        from testbed.hollow import in_background
    except ImportError:
        return "the real control plane comes with the project's checkout; run `make demo CLUSTER=real` there"
    nodes, chips = _fleet()
    agents = HollowAgents(chips)
    screen.say("starting a real control plane (the first time it is built, which takes some minutes)")
    try:
        with ControlPlane() as cluster, in_background(cluster.client, on_pod=agents.on_pod) as hollow:
            hollow.call(hollow.nodes.add(*nodes))
            _install(cluster)
            with _operator(cluster):
                return _watch(cluster, screen)
    except Unavailable as why:
        return f"this machine cannot have a real control plane: {why}"


def _fleet() -> tuple[list, dict]:  # type: ignore[type-arg]  # types of the testbed, which may be absent
    from testbed.agents import Chips
    from testbed.nodes import NFD, HollowNode

    by_class, by_device = f"{NFD}/pci-1200_19e5.present", f"{NFD}/pci-1200_19e5_d803.present"
    a3 = Chips(family=ChipFamily.ASCEND_A3, model="Ascend910", count=16)
    inference = Chips(family=ChipFamily.ASCEND_310P, model="310P3", count=4)
    nodes = [
        HollowNode(name="a2-1", labels={by_class: "true"}),
        HollowNode(name="a2-sick", labels={by_class: "true"}),
        HollowNode(name="a3-1", labels={by_device: "true"}),
        HollowNode(name="infer-1", labels={"accelerator": "huawei-Ascend310P"}, kernel="5.10.0-60.oe2203.aarch64"),
        HollowNode(name="hidden-1", has_nfd=False),
        HollowNode(name="host-drv", labels={"npu": "true"}),
        HollowNode(name="web-1"),
    ]
    chips = {
        "a2-1": Chips(),
        "a2-sick": Chips(sick={3: "80E18402"}),
        "a3-1": a3,
        "infer-1": inference,
        "hidden-1": Chips(),
        "host-drv": Chips(host_driver="24.1.0"),
    }
    return nodes, chips


def _install(cluster: "ControlPlane") -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        crds.render(path / "crds")
        manifests.render(path / "manifests")
        cluster.kubectl("apply", "--server-side", "-f", str(path / "crds"))
        cluster.kubectl("apply", "--server-side", "-f", str(path / "manifests"))
    # The operator runs beside this program, with the account that it would have in its pod.
    cluster.kubectl("scale", "deployment", names.DEPLOYMENT_OPERATOR, "-n", names.NAMESPACE, "--replicas=0")


@contextlib.contextmanager
def _operator(cluster: "ControlPlane") -> Iterator[None]:
    kubeconfig = cluster.service_account_kubeconfig(names.NAMESPACE, names.OPERATOR_NAME)
    command = [sys.executable, "-m", "npu_operator.cli.entry", "run", "--kubeconfig", str(kubeconfig)]
    command += ["--namespace", names.NAMESPACE, "--listen", "127.0.0.1:0", "--log", "json"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ})
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _watch(cluster: "ControlPlane", screen: Screen) -> Object:
    async def follow() -> Object:
        async with cluster.client() as client:
            ctl: Object = await client.create(
                CTLS,
                {
                    "apiVersion": names.API_VERSION,
                    "kind": names.CTL_KIND,
                    "metadata": {"name": names.CTL_SAMPLE, "namespace": names.NAMESPACE},
                    "spec": {},
                },
            )
            begun = changed = time.monotonic()
            seen = ""
            while (now := time.monotonic()) - begun < LIMIT_S and now - changed < QUIET_S:
                nodes, _ = await client.list("/api/v1/nodes")
                npu_nodes, _ = await client.list(NPU_NODES)
                ctl = await client.get(f"{CTLS}/{names.CTL_SAMPLE}")
                version = (
                    f"{ctl['metadata']['resourceVersion']} {[n['metadata']['resourceVersion'] for n in npu_nodes]}"
                )
                if version != seen:
                    seen, changed = version, now
                screen.show(f"{now - begun:5.0f} s", nodes, npu_nodes, ctl)
                await asyncio.sleep(LOOK_EVERY_S)
            return ctl

    return asyncio.run(follow())
