"""The loop: take what changed, observe, plan, act. The one place where the three are wired together.

All dirty keys are taken at once, so a burst of events is one plan; there is one loop, so the fleet has one decider.
Writes go to the `Writer` and are carried out beside the loop, which stays free to plan anew while a thousand nodes are
being labelled.
"""

import contextlib
import random
from collections.abc import Iterable

import msgspec
import structlog

from npu_operator.kube import merge
from npu_operator.kube.api import NODES, ApiError, Clock, Cluster, NotFound, Object, Preconditions, Resource
from npu_operator.kube.apply import Applier
from npu_operator.kube.clock import stamp
from npu_operator.kube.events import Recorder, Reference
from npu_operator.kube.objects import Whole, decode_whole
from npu_operator.kube.queue import WorkQueue
from npu_operator.model import names, npunode
from npu_operator.model.reading import parse_ctl
from npu_operator.model.reasons import Reason
from npu_operator.operator.picture import FLEET, NODE, Picture
from npu_operator.operator.resources import CTLS, NPU_NODES, resource_of
from npu_operator.operator.settings import Settings
from npu_operator.operator.writer import Urgency, Write, Writer
from npu_operator.plan.fleet import SIGN_PATIENCE_S, Plan, Planner
from npu_operator.plan.snapshot import ObjectKey
from npu_operator.plan.writes import (
    CreateNPUNode,
    DeleteNPUNode,
    Ensure,
    NodeWrite,
    Note,
    ObjectWrite,
    PatchNode,
    Remove,
    ReportCtl,
    ReportNode,
)

LOG = structlog.get_logger()

MANAGER = names.OPERATOR_NAME
"""Field managers are this and the concern: components, nodes, status, plan."""
APPLIED = f"{names.GROUP}/applied"
"""Annotation on what we deploy: the hash of what we applied, so that a field we dropped is noticed."""
API_VERSION_OF = {"Node": "v1", names.CTL_KIND: names.API_VERSION}
"""Of the kinds that events are about."""
STATUS_EVERY_S = 1.0
"""At most one status a second: while a fleet comes up, each of a thousand nodes changes its counts."""
RETRY_CAP_S = 30.0
"""The longest wait after a failed write: when the cause is gone, nobody wants to wait for a quarter of an hour."""
REPORT_AFTER_S = 2.0
"""A node's plan is published when it has stood that long: on a node that comes up it changes many times in a row."""
SILENCE_AFTER_S = 15.0
"""The same for "the agent has not reported": until then its pod is only being started."""


class Operator:
    """One process' work while it leads."""

    def __init__(self, cluster: Cluster, clock: Clock, settings: Settings, rng: random.Random) -> None:
        self._cluster = cluster
        self._clock = clock
        self.queue: WorkQueue[str] = WorkQueue(clock, rng, cap_s=RETRY_CAP_S)
        self.picture = Picture(cluster, clock, settings, rng, self.queue.add)
        self.planner = Planner()
        self.writer = Writer(workers=settings.writers, on_done=self._written)
        self.events = Recorder(
            cluster,
            controller=f"{names.GROUP}/operator",
            instance=settings.identity,
            clock=clock,
            rng=rng,
            on_trouble=lambda error: LOG.warning("event not written", error=str(error)),
        )
        self._applier = Applier(cluster, manager=f"{MANAGER}/components", annotation=APPLIED)
        self.rounds = 0
        self.planning_s = 0.0
        self.last_round = clock.monotonic()
        self._settings = settings
        self._checked: dict[ObjectKey, tuple[Object, Whole]] = {}
        """Pairs of wanted and live objects that were compared and agree."""
        self._status_due = 0.0
        self._report_due: dict[str, tuple[Object, float]] = {}

    async def lead(self) -> None:
        """Reconcile until cancelled. Needs the picture's reflectors and the writer to run beside it."""
        await self.picture.complete()
        for name in self.picture.nodes.view:
            self.queue.add(NODE + name, low=True)
        self.queue.add(FLEET)
        while True:
            keys = await self.queue.take_all()
            try:
                self._reconcile({key.removeprefix(NODE) for key in keys if key.startswith(NODE)})
            finally:
                for key in keys:
                    self.queue.done(key)

    def _reconcile(self, changed: set[str]) -> None:
        """One round. Nothing is awaited, so the picture stands still while it is looked at."""
        begun = self._clock.monotonic()
        refused = {
            ObjectKey(*key.removeprefix("object/").split("|")): str(error)
            for key, error in self.writer.errors.items()
            if key.startswith("object/")
        }
        snapshot = self.picture.snapshot(refused=refused, now=stamp(self._clock.now()))
        plan = self.planner.plan(snapshot, changed)
        self.picture.keep_resources(plan.resources)
        self.picture.note_unsigned(plan.unsigned, plan.nodes)
        self._act(plan)
        self.rounds += 1
        self.last_round = self._clock.monotonic()
        self.planning_s += self.last_round - begun
        if plan.look_again_s is not None:
            self.queue.add_after(FLEET, plan.look_again_s)
        for name in plan.unsigned:
            self.queue.add_after(NODE + name, SIGN_PATIENCE_S)

    def _act(self, plan: Plan) -> None:
        for write in plan.objects:
            self._act_on_object(write)
        for report in plan.ctls:
            self._report_ctl(report)
        for name, writes in plan.nodes.items():
            self._act_on_node(name, writes)

    def _tell(self, notes: Iterable[Note]) -> None:
        for note in notes:
            self.events.record(
                Reference(API_VERSION_OF[note.kind], note.kind, note.name, note.namespace, note.uid),
                type_="Warning" if note.is_warning else "Normal",
                reason=note.reason,
                action="Reconcile",
                note=note.message,
            )

    def _act_on_object(self, write: ObjectWrite) -> None:
        if isinstance(write, Remove):
            key = ObjectKey(write.api_version, write.kind, write.namespace, write.name)
            self.writer.wish(Urgency.OBJECT, _object_key(key), self._removal(write), write.why)
            return
        key = ObjectKey.of(write.body)
        if self._is_premature(write.body):
            return
        live = self.picture.live(key)
        is_settled = self._agree(key, write.body, live)
        why = None if is_settled else self._applier.why(write.body, live.body if live is not None else None)
        if why is not None:
            self.writer.wish(Urgency.OBJECT, _object_key(key), self._applying(write), why)
            return
        assert live is not None, "what does not exist has to be applied"
        self._checked[key] = (write.body, live)
        if self.writer.withdraw(Urgency.OBJECT, _object_key(key)):
            self.queue.add(FLEET)  # the status still has the error

    def _agree(self, key: ObjectKey, wanted: Object, live: Whole | None) -> bool:
        """Have exactly these two been compared before, and found to agree?"""
        before = self._checked.get(key)
        return live is not None and before is not None and before[0] is wanted and before[1] is live

    def _is_premature(self, body: Object) -> bool:
        """A binding is refused before its role exists; when the role is there, that change brings us here again."""
        role = body.get("roleRef")
        if role is None:
            return False
        namespace = body["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
        return self.picture.live(ObjectKey(body["apiVersion"], role["kind"], namespace, role["name"])) is None

    def _act_on_node(self, name: str, writes: tuple[NodeWrite, ...]) -> None:
        self._report_due_unless(name, writes)
        for write in writes:
            if isinstance(write, PatchNode):
                self.writer.wish(Urgency.NODE, NODE + name, self._node_patch(write), write.why)
            elif isinstance(write, CreateNPUNode):
                self.writer.wish(Urgency.NPU_NODE, f"npunode/{name}", self._npu_node(write), "the node has an NPU")
            elif isinstance(write, DeleteNPUNode):
                self.writer.wish(Urgency.NPU_NODE, f"npunode/{name}", self._npu_node_removal(write), "no NPU any more")
        if not any(isinstance(write, PatchNode) for write in writes):
            self.writer.withdraw(Urgency.NODE, NODE + name)

    def _report_due_unless(self, name: str, writes: tuple[NodeWrite, ...]) -> None:
        """Publish the node's plan once it has stood for a moment; forget it when there is nothing new to say."""
        report = next((write for write in writes if isinstance(write, ReportNode)), None)
        if report is None:
            self._report_due.pop(name, None)
            self.writer.withdraw(Urgency.REPORT, f"report/{name}")
            return
        said = {key: value for key, value in report.plan.items() if key != "since"}
        now = self._clock.monotonic()
        before, due = self._report_due.get(name, ({}, 0.0))
        if before != said:
            due = now + (SILENCE_AFTER_S if report.plan.get("reason") == Reason.AgentSilent else REPORT_AFTER_S)
            self._report_due[name] = (said, due)
        if now >= due:
            self.writer.wish(Urgency.REPORT, f"report/{name}", self._report(report), report.plan.get("reason", ""))
        else:
            self.queue.add_after(NODE + name, due - now)

    def _report_ctl(self, report: ReportCtl) -> None:
        now = self._clock.monotonic()
        if now < self._status_due:
            self.queue.add_after(FLEET, self._status_due - now)
            return
        self._status_due = now + STATUS_EVERY_S
        key = f"ctl/{report.namespace}/{report.name}"
        self.writer.wish(Urgency.STATUS, key, self._status(report), "the status changed")

    def _applying(self, write: Ensure) -> Write:
        async def act() -> None:
            resource = resource_of(write.body["apiVersion"], write.body["kind"])
            answer = await self._applier.apply(resource, write.body)
            self.picture.objects[resource].put(decode_whole(answer))

        return act

    def _removal(self, write: Remove) -> Write:
        async def act() -> None:
            resource = resource_of(write.api_version, write.kind)
            await self._delete(resource, write.name, write.uid, write.namespace or None)
            key = f"{write.namespace}/{write.name}" if write.namespace else write.name
            self.picture.objects[resource].remove(key, "")
            self._checked.pop(ObjectKey(write.api_version, write.kind, write.namespace, write.name), None)

        return act

    def _node_patch(self, write: PatchNode) -> Write:
        async def act() -> None:
            answer = await self._cluster.patch(NODES, write.node, write.body, manager=f"{MANAGER}/nodes")
            self.picture.nodes.put(self.picture.decode_node(answer))

        return act

    def _npu_node(self, write: CreateNPUNode) -> Write:
        async def act() -> None:
            body: Object = {
                "apiVersion": names.API_VERSION,
                "kind": names.NODE_KIND,
                "metadata": {
                    "name": write.node,
                    "labels": {names.LABEL_MANAGED_BY: names.OPERATOR_NAME},
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Node", "name": write.node, "uid": write.node_uid}
                    ],
                },
            }
            answer = await self._cluster.create(NPU_NODES, body, manager=f"{MANAGER}/nodes")
            self.picture.npu_nodes.put(npunode.decode(answer))

        return act

    def _npu_node_removal(self, write: DeleteNPUNode) -> Write:
        async def act() -> None:
            await self._delete(NPU_NODES, write.node, write.uid)
            self.picture.npu_nodes.remove(write.node, "")

        return act

    async def _delete(self, resource: Resource, name: str, uid: str, namespace: str | None = None) -> None:
        """Delete exactly this one; that it has gone already is what was wanted."""
        with contextlib.suppress(NotFound):
            await self._cluster.delete(resource, name, namespace, preconditions=Preconditions(uid=uid))

    def _report(self, write: ReportNode) -> Write:
        async def act() -> None:
            there = self.picture.npu_nodes.get(write.node)
            if there is None:
                return  # it has gone meanwhile; the change has marked the node dirty
            change = merge.difference(msgspec.to_builtins(there.status.plan), write.plan)
            # Its agent writes the other half of the status all the time; that is no reason to refuse this half.
            patch = {"metadata": {"uid": there.metadata.uid}, "status": {"plan": change}}
            answer = await self._cluster.patch(
                NPU_NODES, write.node, patch, manager=f"{MANAGER}/plan", subresource="status"
            )
            self.picture.npu_nodes.put(npunode.decode(answer))
            self._tell(write.notes)

        return act

    def _status(self, write: ReportCtl) -> Write:
        async def act() -> None:
            there = self.picture.ctls.get(f"{write.namespace}/{write.name}")
            if there is None:
                return  # it has gone meanwhile; the change has marked the fleet dirty
            patch = {
                "metadata": {"resourceVersion": there.metadata.resource_version},
                "status": merge.difference(msgspec.to_builtins(there.status), write.status),
            }
            answer = await self._cluster.patch(
                CTLS, write.name, patch, write.namespace, manager=f"{MANAGER}/status", subresource="status"
            )
            self.picture.ctls.put(parse_ctl(answer))
            self._tell(write.notes)

        return act

    def _written(self, key: str, error: ApiError | None, was_wished_again: bool) -> None:
        """Plan the key again after a failure, with a back-off, or when it was planned again before the answer came."""
        again = NODE + key.partition("/")[2] if key.startswith((NODE, "npunode/", "report/")) else FLEET
        if error is not None:
            self.queue.retry(again, at_least_s=error.retry_after_s)
            return
        self.queue.forget(again)
        if was_wished_again:
            self.queue.add(again)


def _object_key(key: ObjectKey) -> str:
    return "object/" + "|".join(key)
