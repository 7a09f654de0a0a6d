"""Deployments, as little as they are needed: as many pods as asked for, and a status that says so.

There are no ReplicaSets in between and no rolling updates: pods of an old template are replaced at once.
"""

import zlib
from typing import Final

import msgspec

from npu_operator.kube import api
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.eviction import is_ready
from npu_operator.sim.server.objects import Key, Stored, at
from npu_operator.sim.server.refusals import Refused
from npu_operator.sim.server.store import Event

SYNC_S: Final = 0.2
RETRY_S: Final = 5.0
MANAGER: Final = "kube-controller-manager"
HASH: Final = "pod-template-hash"


class Deployments:
    """The Deployment controller."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._deployments = server.store.table(api.DEPLOYMENTS)
        self._chores: Chores[Key] = Chores(self._sync, delay_s=SYNC_S)
        self._deployments.listeners.append(self._changed)
        server.store.table(api.PODS).listeners.append(self._pod_changed)

    def _changed(self, event: Event) -> None:
        if event.type != "DELETED":
            self._chores.add(event.new.key)

    def _pod_changed(self, event: Event) -> None:
        for owner in event.new.meta.get("ownerReferences", ()):
            if owner["kind"] == "Deployment" and owner.get("controller"):
                self._chores.add((event.new.namespace, owner["name"]))

    def _sync(self, key: Key) -> None:
        deployment = self._deployments.objects.get(key)
        if deployment is None or deployment.is_leaving:
            return
        revision = f"{zlib.crc32(msgspec.json.encode(deployment.tree['spec']['template'], order='sorted')):x}"
        pods = [pod for pod in self._server.list(api.PODS, deployment.namespace) if _is_of(pod, deployment)]
        staying = [pod for pod in pods if not pod.is_leaving and at(pod.tree, "status", "phase") != "Failed"]
        current = [pod for pod in staying if pod.labels.get(HASH) == revision]
        wanted = int(at(deployment.tree, "spec", "replicas") or 0)
        for pod in [pod for pod in staying if pod not in current] + current[wanted:]:
            self._server.delete(api.PODS, pod.name, pod.namespace)
        try:
            for _ in range(wanted - len(current)):
                self._create(deployment, revision)
        except Refused:  # an account that is not there yet
            self._chores.add(key, after_s=RETRY_S)
        ready = sum(is_ready(pod) for pod in current)
        self._write_status(deployment, total=len(staying), updated=len(current), ready=ready, wanted=wanted)

    def _create(self, deployment: Stored, revision: str) -> None:
        template = deployment.tree["spec"]["template"]
        meta = template.get("metadata", {})
        body = {
            "metadata": {
                **meta,
                "generateName": f"{deployment.name}-{revision}-",
                "labels": {**meta.get("labels", {}), HASH: revision},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": deployment.name,
                        "uid": deployment.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": template["spec"],
        }
        self._server.create(api.PODS, body, deployment.namespace, manager=MANAGER)

    def _write_status(self, deployment: Stored, *, total: int, updated: int, ready: int, wanted: int) -> None:
        status = {
            "observedGeneration": deployment.meta["generation"],
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, wanted - ready),
        }
        self._server.patch(
            api.DEPLOYMENTS,
            deployment.name,
            {"status": status},
            deployment.namespace,
            manager=MANAGER,
            subresource="status",
        )


def _is_of(pod: Stored, deployment: Stored) -> bool:
    return any(owner["uid"] == deployment.uid for owner in pod.meta.get("ownerReferences", ()))
