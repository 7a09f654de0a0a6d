"""Our operator in a simulated cluster: installed from the manifests it ships, run as replicas with those rights."""

import asyncio
import contextlib
import random
from collections.abc import Mapping
from typing import Any, Final

from npu_operator.components import operator_manifests
from npu_operator.kube import api
from npu_operator.kube.api import Object, Resource
from npu_operator.model import crd, names
from npu_operator.operator.process import Replica
from npu_operator.operator.settings import Settings
from npu_operator.sim.agents import NPU_NODES, HollowAgents
from npu_operator.sim.client import Hook, SimClient, no_hook
from npu_operator.sim.clock import VirtualClock
from npu_operator.sim.cluster import SimCluster
from npu_operator.sim.faults import Faults
from npu_operator.sim.server.access import service_account

CTLS: Final = Resource(names.GROUP, names.VERSION, names.CTL_PLURAL, names.CTL_KIND)
ACCOUNT: Final = service_account(names.NAMESPACE, names.OPERATOR_NAME)


class Installation:
    """A cluster with agents on its nodes and the operator's own objects; replicas are started and stopped at will."""

    def __init__(self, clock: VirtualClock, *, seed: int = 0) -> None:
        self.clock = clock
        self.agents = HollowAgents()
        self.cluster = SimCluster(clock, seed=seed, hooks=self.agents)
        self.agents.attach(self.cluster)
        self._rng = random.Random(seed)
        self._replicas: dict[str, asyncio.Task[None]] = {}

    async def install(self, version: str = "1.0.0") -> None:
        """Apply definitions and manifests, as an admin would. The Deployment's pods are played by `start`."""
        install = operator_manifests.Install(version=version)
        await self.cluster.apply(crd.all_crds())
        await self.cluster.apply(body for body in operator_manifests.build(install) if body["kind"] != "Deployment")

    def start(
        self,
        identity: str = "operator-1",
        *,
        version: str = "1.0.0",
        faults: Faults | None = None,
        before_write: Hook = no_hook,
        after_write: Hook = no_hook,
    ) -> SimClient:
        """Start a replica; returns its client, which counts its calls."""
        client = self.cluster.client(ACCOUNT, faults=faults, before_write=before_write, after_write=after_write)
        settings = Settings(identity=identity, version=version, image=f"npu-operator:{version}")
        replica = Replica(client, self.clock, settings, random.Random(self._rng.random()))
        self._replicas[identity] = asyncio.create_task(replica.run(), name=f"replica {identity}")
        return client

    def kill(self, identity: str) -> None:
        """A replica stops without another word; its client has to be cut off before, or it gives its lease back."""
        self._replicas.pop(identity).cancel()

    async def stop(self, identity: str = "operator-1") -> None:
        """Stop a replica cleanly: it gives its lease back. An error that had ended it is raised."""
        task = self._replicas.pop(identity)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def close(self) -> None:
        """Stop all replicas."""
        for identity in list(self._replicas):
            await self.stop(identity)

    # --- looking ------------------------------------------------------------------------------------------------------

    async def create_ctl(self, spec: Mapping[str, Any] | None = None, name: str = names.CTL_SAMPLE) -> None:
        """Apply an `NPUOperatorCtl`."""
        await self.cluster.apply([ctl(spec, name)])

    def status(self, name: str = names.CTL_SAMPLE, namespace: str = names.NAMESPACE) -> Mapping[str, Any]:
        """The object's status; empty before there is one."""
        found = self.cluster.find(CTLS, name, namespace)
        return (found or {}).get("status") or {}

    def condition(self, kind: str, name: str = names.CTL_SAMPLE, namespace: str = names.NAMESPACE) -> Mapping[str, Any]:
        """One condition; empty when it is not there."""
        conditions = self.status(name, namespace).get("conditions") or ()
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def is_ready(self) -> bool:
        """Does the object say Ready=True?"""
        return self.condition("Ready").get("status") == "True"

    def leftovers(self) -> list[str]:
        """Everything of ours in the cluster, but what installing the operator made."""
        found = []
        for resource in self.cluster.server.served():
            label = f"{names.LABEL_MANAGED_BY}={names.OPERATOR_NAME}"
            found += [
                f"{resource.kind} {'/'.join(filter(None, each.key))}"
                for each in self.cluster.all(resource, labels=label)
            ]
        found += [f"NPUNode {each.key[-1]}" for each in self.cluster.all(NPU_NODES)]
        for node in self.cluster.all(api.NODES):
            keys = (*node.meta.get("labels", {}), *node.meta.get("annotations", {}))
            found += [f"{node.key[-1]} {key}" for key in keys if names.GROUP in key or "openfuyao.com" in key]
        return found


def ctl(
    spec: Mapping[str, Any] | None = None, name: str = names.CTL_SAMPLE, namespace: str = names.NAMESPACE
) -> Object:
    """An `NPUOperatorCtl` as somebody would write it."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.CTL_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec or {}),
    }
