"""A simulated cluster for a test, and the objects it is filled with."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from npu_operator.kube import api
from npu_operator.kube.api import Object
from npu_operator.sim.clock import VirtualClock, run_virtual
from npu_operator.sim.cluster import SimCluster
from npu_operator.sim.controllers.kubelets import PodHooks
from npu_operator.sim.fleet import NodeKind
from npu_operator.sim.server.eviction import is_ready
from npu_operator.sim.server.objects import Stored, at

T = TypeVar("T")
PLAIN = NodeKind(chip=None, sign="None")  # type: ignore[arg-type]


def in_cluster(
    test: Callable[[SimCluster], Awaitable[T]], *, hooks: PodHooks | None = None, nodes: int = 0, seed: int = 1
) -> T:
    """Run an async test in a fresh cluster with some plain nodes."""

    async def main(clock: VirtualClock) -> T:
        cluster = SimCluster(clock, seed=seed, hooks=hooks)
        if nodes:
            cluster.add_nodes(PLAIN, count=nodes)
            await cluster.settle()
        return await test(cluster)

    return run_virtual(main, limit_s=86_400)


def a_daemon_set(
    name: str = "agents", *, strategy: str = "RollingUpdate", image: str = "agent:1", **pod: Any
) -> Object:
    """A DaemonSet in `default`; further arguments go into its pod spec."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"type": strategy},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}], **pod},
            },
        },
    }


def a_pod(name: str, **spec: Any) -> Object:
    """A pod in `default`."""
    labels = spec.pop("labels", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "work:1"}], **spec},
    }


def chips(number: int) -> list[Object]:
    """Containers that ask for chips."""
    limits = {"huawei.com/Ascend910": str(number)}
    return [{"name": "main", "image": "work:1", "resources": {"limits": limits}}]


def nodes_of(pods: list[Stored]) -> list[str]:
    """Where pods are, sorted."""
    return sorted(at(pod.tree, "spec", "nodeName") or "" for pod in pods)


def pods_of(cluster: SimCluster, app: str = "agents") -> list[Stored]:
    """The pods of a DaemonSet."""
    return cluster.all(api.PODS, "default", labels=f"app={app}")


def all_ready(cluster: SimCluster, count: int, app: str = "agents") -> Callable[[], bool]:
    """Whether that many pods run and are ready, and no more are there."""

    def check() -> bool:
        pods = pods_of(cluster, app)
        return len(pods) == count and all(is_ready(pod) and not pod.is_leaving for pod in pods)

    return check


def status(cluster: SimCluster, name: str = "agents") -> Object:
    """The status of a DaemonSet."""
    found = cluster.find(api.DAEMON_SETS, name, "default")
    assert found is not None
    return found["status"]  # type: ignore[no-any-return]
