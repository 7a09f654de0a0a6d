"""Hollow nodes: Node objects with a small stand-in for their kubelets, on a real API server.

    async with HollowNodes(cluster.client(), on_pod=my_hook) as nodes:
        await nodes.add(HollowNode(name="a1"), HollowNode(name="a2"))

Pods come from the real controllers and the real scheduler. The stand-in watches the pods on its nodes, gives each the
status that `on_pod` decides (running and ready unless told otherwise), and lets deleted pods go. Nobody else plays
kubelet here: no logs, no exec, no real containers. Nodes need no heartbeat (see `testbed.control_plane`).

A test that blocks (kubectl, a process of its own) must not share the event loop with the nodes: see `in_background`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import itertools
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import httpx2

from testbed import nodes, pods
from testbed.client import ApiError, Client, Object, is_passing, persist
from testbed.nodes import HollowNode
from testbed.pods import Container, PodOutcome

T = TypeVar("T")
OnPod = Callable[[Object], PodOutcome]
AT_ONCE = 32  # requests under way at the same time
LOST_IN_REBOOT = PodOutcome(every=Container(state="terminated", reason="Error", exit_code=255))
REBOOT_NOT_READY_S = 2.0  # a real kubelet shows its new boot id with Ready=False for 2-5 s


def run_everything(_pod: Object) -> PodOutcome:
    """Every pod runs and is ready at once."""
    return PodOutcome()


@dataclasses.dataclass
class _Pod:
    """A pod we take care of: as last seen, what works on it, and which restarts of its node it has lived through."""

    seen: Object
    outcome: PodOutcome = dataclasses.field(default_factory=PodOutcome)
    work: asyncio.Task[None] | None = None
    is_ending: bool = False
    restarts: int = 0

    @property
    def node(self) -> str:
        return str(self.seen["spec"]["nodeName"])

    @property
    def path(self) -> str:
        metadata = self.seen["metadata"]
        return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


class HollowNodes:
    """The nodes and their stand-in kubelets; runs from `async with` to its end.

    `client` must be allowed everything and is closed at the end. `on_pod` is asked once for each pod that comes to one
    of our nodes (and again after `reconsider` and `reboot`). An error in a hook ends the `async with` block.
    """

    def __init__(self, client: Client, *, on_pod: OnPod = run_everything) -> None:
        self.client = client
        self.nodes: dict[str, HollowNode] = {}
        self._on_pod = on_pod
        self._pods: dict[str, _Pod] = {}  # by uid
        self._down: set[str] = set()  # nodes whose kubelet does not run
        self._tasks = asyncio.TaskGroup()
        self._watching: asyncio.Task[None] | None = None
        self._addresses = itertools.count(1)

    async def __aenter__(self) -> HollowNodes:
        await self._tasks.__aenter__()
        self._watching = self._tasks.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._watching
        self._watching.cancel()
        for pod in self._pods.values():
            self._cancel(pod)
        try:
            await self._tasks.__aexit__(kind, error, trace)
        finally:
            await self.client.__aexit__(kind, error, trace)

    # -- nodes

    async def add(self, *new: HollowNode) -> None:
        """Create the Node objects, ready from the start, and care for pods on them from now on."""
        self.nodes |= {node.name: node for node in new}

        async def create(node: HollowNode) -> None:
            await self.client.create("/api/v1/nodes", nodes.manifest(node, _now()))

        await _each(create, new)

    async def remove(self, *names: str) -> None:
        """Delete the Node objects; what becomes of their pods is for the real controllers (about a minute)."""
        for name in names:
            del self.nodes[name]

        async def delete(name: str) -> None:
            await self.client.delete(f"/api/v1/nodes/{name}")

        await _each(delete, names)

    async def each(self, hook: Callable[[Client, HollowNode], Awaitable[None]], *names: str) -> None:
        """Await the hook for each node (or only the named ones), many at once: the stand-in for agents on nodes that
        run no pods.
        """
        chosen = [self.nodes[name] for name in names] if names else list(self.nodes.values())

        async def call(node: HollowNode) -> None:
            await hook(self.client, node)

        await _each(call, chosen)

    async def set_ready(self, name: str, status: str = "True", message: str = "") -> None:
        """Set the node's Ready condition to "True", "False", or "Unknown" (its kubelet has fallen silent).

        The real node lifecycle controller answers with the taints that belong to it. A node that is not "True" starts
        no pods and ends none until it is set to "True" again.
        """
        if status == "True":
            self._down.discard(name)
        else:
            self._down.add(name)
            for pod in self._pods_on(name):
                if pod.work and not pod.work.done():
                    self._cancel(pod)
        reason = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}[status]
        path = f"/api/v1/nodes/{name}"
        found = await persist(lambda: self.client.get(path))
        others = [each for each in found["status"]["conditions"] if each["type"] != "Ready"]
        ready = nodes.condition("Ready", status, reason, message, _now())
        await self._patch_node(name, {"conditions": [*others, ready]})
        if status == "True":
            for pod in self._pods_on(name):
                self._look_after(pod)

    async def set_resources(self, name: str, resources: dict[str, int], *, allocatable_only: bool = False) -> None:
        """Publish extended resources of a node, as its kubelet does for a device plugin."""
        amounts = {resource: str(amount) for resource, amount in resources.items()}
        status: Object = {"allocatable": amounts}
        if not allocatable_only:
            status["capacity"] = amounts
        await self._patch_node(name, status)

    async def reboot(self, name: str, *, down_s: float = 0.0, not_ready_s: float = REBOOT_NOT_READY_S) -> str:
        """Reboot a node and return its new boot id when it is ready again.

        For `down_s` seconds it is silent (Ready is Unknown, or nobody notices if that is 0), for `not_ready_s` more it
        has the new boot id and is not ready; then its pods are started again, with one restart more, but those that
        never restart have failed. Extended resources are gone until a pod publishes them again.
        """
        self._down.add(name)
        for pod in self._pods_on(name):
            self._cancel(pod)
            pod.restarts += 1
        if down_s:
            await self.set_ready(name, "Unknown", "Kubelet stopped posting node status.")
            await asyncio.sleep(down_s)
        boot_id = str(uuid.uuid4())
        self.nodes[name] = dataclasses.replace(self.nodes[name], boot_id=boot_id)
        await self._patch_node(name, {"nodeInfo": {"bootID": boot_id}})
        for resource in {resource for pod in self._pods_on(name) for resource in _published(pod)}:
            await self.set_resources(name, {resource: 0}, allocatable_only=True)
        await self.set_ready(name, "False", "container runtime is down")
        await asyncio.sleep(not_ready_s)
        await self.set_ready(name)
        return boot_id

    # -- pods

    def reconsider(self) -> None:
        """Ask `on_pod` again about every pod: the test has changed its mind, say about a chip that is sick now."""
        for pod in self._pods.values():
            self._cancel(pod)
            self._look_after(pod)

    def _pods_on(self, name: str) -> list[_Pod]:
        return [pod for pod in self._pods.values() if pod.node == name]

    async def _watch(self) -> None:
        """Follow all pods that have a node, whatever happens to the API server."""
        everywhere = {"fieldSelector": "spec.nodeName!="}
        while True:
            found, version = await persist(lambda: self.client.list("/api/v1/pods", **everywhere))
            for uid in self._pods.keys() - {pod["metadata"]["uid"] for pod in found}:
                await self._forget(uid)
            for pod in found:
                self._see(pod)
            try:
                while True:
                    async with contextlib.aclosing(self.client.watch("/api/v1/pods", version, **everywhere)) as changes:
                        async for kind, pod in changes:
                            version = pod["metadata"]["resourceVersion"]
                            await self._take(kind, pod)
            except Exception as error:
                is_too_old = isinstance(error, ApiError) and error.code == httpx2.codes.GONE
                if not is_too_old and not is_passing(error):
                    raise
                await asyncio.sleep(0.1)

    async def _take(self, kind: str, pod: Object) -> None:
        if kind == "DELETED":
            await self._forget(pod["metadata"]["uid"])
        elif kind != "BOOKMARK":
            self._see(pod)

    def _see(self, seen: Object) -> None:
        uid = seen["metadata"]["uid"]
        if seen["spec"]["nodeName"] not in self.nodes:
            return
        pod = self._pods.get(uid)
        if pod is None:
            pod = self._pods[uid] = _Pod(seen)
        pod.seen = seen
        self._look_after(pod)

    def _look_after(self, pod: _Pod) -> None:
        """Start what has to be done for this pod, unless it is being done or its kubelet does not run."""
        if pod.node in self._down or pod.node not in self.nodes:
            return
        if "deletionTimestamp" in pod.seen["metadata"]:
            if not pod.is_ending:
                self._cancel(pod)
                pod.is_ending = True
                pod.work = self._tasks.create_task(self._end(pod))
        elif pod.work is None and pod.seen.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            pod.work = self._tasks.create_task(self._run(pod))

    async def _run(self, pod: _Pod) -> None:
        is_lost = pod.restarts and pod.seen["spec"].get("restartPolicy") == "Never"
        outcome: PodOutcome | None = LOST_IN_REBOOT if is_lost else self._on_pod(pod.seen)
        pod_ip = "10.244.{}.{}".format(*divmod(next(self._addresses) % 65536, 256))
        while outcome:
            pod.outcome = outcome
            await asyncio.sleep(outcome.after_s)
            place = pods.Place(nodes.address(pod.node), pod_ip, _now(), pod.restarts)
            status = pods.status(pod.seen, outcome, place)
            if not await self._write_status(pod, status):
                return
            if outcome.node_resources and pods.is_ready(status):
                await self.set_resources(pod.node, dict(outcome.node_resources))
            if outcome.then:
                await outcome.then(self.client, pod.seen)
            outcome = outcome.next

    async def _write_status(self, pod: _Pod, status: Object) -> bool:
        return await self._if_there(lambda: self.client.merge(f"{pod.path}/status", {"status": status}))

    async def _end(self, pod: _Pod) -> None:
        grace_s = pod.seen["metadata"].get("deletionGracePeriodSeconds", 0)
        await asyncio.sleep(min(pod.outcome.stop_after_s, grace_s))
        same = {"uid": pod.seen["metadata"]["uid"]}
        await self._if_there(lambda: self.client.delete(pod.path, gracePeriodSeconds=0, preconditions=same))

    async def _forget(self, uid: str) -> None:
        """The pod is gone; with a device plugin go the resources that it offered, unless another pod offers them."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self._cancel(pod)
        others = [other for other in self._pods.values() if other.node == pod.node and not other.is_ending]
        lost = _published(pod) - {resource for other in others for resource in _published(other)}
        if lost and pod.node in self.nodes:
            await self.set_resources(pod.node, dict.fromkeys(lost, 0), allocatable_only=True)

    @staticmethod
    def _cancel(pod: _Pod) -> None:
        if pod.work:
            pod.work.cancel()
        pod.work, pod.is_ending = None, False

    async def _patch_node(self, name: str, status: Object) -> None:
        await self._if_there(lambda: self.client.merge(f"/api/v1/nodes/{name}/status", {"status": status}))

    @staticmethod
    async def _if_there(call: Callable[[], Awaitable[Object]]) -> bool:
        """Do it, with patience; False if the object has gone or is another one by now."""
        try:
            await persist(call)
        except ApiError as error:
            if error.code in (httpx2.codes.NOT_FOUND, httpx2.codes.CONFLICT):
                return False
            raise
        return True


class Background:
    """Hollow nodes with an event loop of their own in a thread, for tests that block."""

    def __init__(self, nodes: HollowNodes, loop: asyncio.AbstractEventLoop) -> None:
        self.nodes = nodes
        self.ended = asyncio.Event()
        self._loop = loop

    def call(self, work: Coroutine[Any, Any, T], *, timeout_s: float = 300.0) -> T:
        """Do something with the nodes and wait for it: `hollow.call(hollow.nodes.add(...))`."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def reconsider(self) -> None:
        """`HollowNodes.reconsider`, from the test's thread."""
        self._loop.call_soon_threadsafe(self.nodes.reconsider)

    def end(self) -> None:
        """Let the thread come to its end."""
        with contextlib.suppress(RuntimeError):  # the loop has ended by an error, which the thread's result tells
            self._loop.call_soon_threadsafe(self.ended.set)


@contextlib.contextmanager
def in_background(make_client: Callable[[], Client], *, on_pod: OnPod = run_everything) -> Iterator[Background]:
    """Hollow nodes in a thread: `with in_background(cluster.client) as hollow:`.

    Hooks are called in that thread. An error in one is raised at the end of the block.
    """
    begun: concurrent.futures.Future[Background] = concurrent.futures.Future()

    async def live() -> None:
        async with HollowNodes(make_client(), on_pod=on_pod) as hollow:
            background = Background(hollow, asyncio.get_running_loop())
            begun.set_result(background)
            await background.ended.wait()

    with concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="hollow") as threads:
        life = threads.submit(asyncio.run, live())
        either: tuple[concurrent.futures.Future[Any], ...] = (begun, life)
        concurrent.futures.wait(either, return_when=concurrent.futures.FIRST_COMPLETED)
        try:
            if begun.done():
                yield begun.result()
        finally:
            if begun.done():
                begun.result().end()
            life.result()


async def _each(work: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Do the work for all items, `AT_ONCE` of them at a time; the first error ends it."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(worker())


def _published(pod: _Pod) -> set[str]:
    return set(pod.outcome.node_resources)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
