"""The door to the kubelet's sockets: the socket of one resource and its registration.

The order is the kubelet's: serve, then register, and be able to answer while the call to register is under way. A
kubelet that starts wipes the directory and knows nobody, so a plugin registers again when `kubelet.sock` is another one
or its own socket is gone (gRPC goes on serving a socket without a name, to nobody). When the kubelet hangs up while
both are still there, it is down, or somebody else has registered the resource; then it tries again, ever more rarely,
so that two plugins do not push each other out all the time. Source: "Device plugins" in the documentation of
Kubernetes.
"""

import asyncio
import logging
import stat
from pathlib import Path
from typing import Final

import grpc.aio
import msgspec

from npu_operator.node.deviceplugin import services
from npu_operator.node.deviceplugin import v1beta1_pb2 as api
from npu_operator.node.deviceplugin.calls import OPTIONS, Calls

LOG = logging.getLogger(__name__)

KUBELET_SOCKET: Final = "kubelet.sock"
PREFIX: Final = "npu-operator-"
"""Of our socket's name; MindCluster's plugin has `Ascend910.sock` in the same directory."""

Signature = tuple[int, int, int]
FAILURES = (OSError, grpc.aio.AioRpcError)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long things may take and how soon they are tried again, in seconds. Waits double up to the last one."""

    call_s: float = 5.0  # over a unix socket of the node; the kubelet itself gives a plugin 10 s
    first_retry_s: float = 1.0
    last_retry_s: float = 30.0
    alone_s: float = 10.0
    """So long after a registration, or after the kubelet hung up, nobody has to listen; it comes within a second."""
    first_comeback_s: float = 10.0
    last_comeback_s: float = 300.0

    def retry_s(self, tries: int) -> float:
        """How long to wait after so many registrations in a row that failed."""
        return _doubled(self.first_retry_s, self.last_retry_s, tries)

    def comeback_s(self, tries: int) -> float:
        """How long to wait after the kubelet hung up so many times."""
        return _doubled(self.first_comeback_s, self.last_comeback_s, tries)


def _doubled(first_s: float, last_s: float, times: int) -> float:
    return min(last_s, first_s * 2.0 ** min(times - 1, 16))  # 16 doublings are beyond any wait here, and no overflow


def signature(socket: Path) -> Signature | None:
    """What tells a socket from one that was made anew at its place; None when there is no socket."""
    try:
        about = socket.stat()
    except OSError:
        return None
    return (about.st_dev, about.st_ino, about.st_ctime_ns) if stat.S_ISSOCK(about.st_mode) else None


class ResourceServer:
    """One resource, for as long as the plugin wants to offer it."""

    def __init__(self, resource: str, directory: Path, calls: Calls, pace: Pace) -> None:
        self.resource = resource
        self.problem = "not registered yet"
        """Why the kubelet does not hand out the resource; empty when it can."""
        self._calls = calls
        self._pace = pace
        self._kubelet = directory / KUBELET_SOCKET
        self._socket = directory / f"{PREFIX}{resource.rpartition('/')[2]}.sock"
        self._server: grpc.aio.Server | None = None
        self._ours: Signature | None = None
        self._seen: Signature | None = None
        self._registered_with: Signature | None = None
        self._registered_at_s = 0.0
        self._heard_at_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._next_try_s = 0.0
        self._failures = 0
        self._hang_ups = 0

    def keep(self, *, waits_for: str) -> None:
        """Look after the registration. Called at each round of the plugin's loop; never waits.

        `waits_for` says why the plugin may not register now; a registration that stands is left standing.
        """
        if self._task is not None:
            if not self._task.done():
                return
            self._task.result()  # what goes wrong with sockets is told in `problem`; anything else is a bug of ours
            self._task = None
        now_s = asyncio.get_running_loop().time()
        kubelet = signature(self._kubelet)
        if kubelet != self._seen:
            self._seen, self._next_try_s, self._failures, self._hang_ups = kubelet, now_s, 0, 0
        if kubelet is None:
            self.problem = f"the kubelet is not there: no socket {self._kubelet}"
        elif self._registered_with == kubelet and signature(self._socket) == self._ours:
            self._listen(now_s)
        elif waits_for:
            self.problem = waits_for
        elif now_s >= self._next_try_s:
            self._task = asyncio.create_task(self._register(kubelet))

    async def probe(self) -> str:
        """Why a request would not be answered, found by making one; empty when it is."""
        if self.problem:
            return self.problem
        try:
            await services.ask_options(self._socket, timeout_s=self._pace.call_s)
        except FAILURES as error:
            return f"our own socket {self._socket} does not answer: {_words(error)}"
        return ""

    async def close(self) -> None:
        """Stop serving. The kubelet then takes all devices of the resource for unhealthy."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._stop()

    def _listen(self, now_s: float) -> None:
        """The registration stands as far as files tell; does the kubelet listen?"""
        if self._calls.listeners:
            self._heard_at_s = now_s
            if now_s - self._registered_at_s > self._pace.last_comeback_s:
                self._hang_ups = 0
        if now_s - self._heard_at_s <= self._pace.alone_s:
            self.problem = ""
            return
        self._hang_ups += 1
        self._registered_with = None
        self._next_try_s = now_s + self._pace.comeback_s(self._hang_ups)
        directory = self._socket.parent
        others = sorted({path.name for path in directory.glob("*.sock")} - {KUBELET_SOCKET, self._socket.name})
        self.problem = (
            f"the kubelet hung up on us for {self.resource}: it is down, or another device plugin is registered for "
            f"it; other sockets in {directory}: {', '.join(others) or 'none'}"
        )
        LOG.warning("kubelet hung up resource=%s other_sockets=%s times=%s", self.resource, others, self._hang_ups)

    async def _register(self, kubelet: Signature) -> None:
        loop = asyncio.get_running_loop()
        request = api.RegisterRequest(
            version=services.VERSION, endpoint=self._socket.name, resource_name=self.resource, options=OPTIONS
        )
        try:
            await self._stop()
            await self._start()
            await services.register(self._kubelet, request, timeout_s=self._pace.call_s)
        except FAILURES as error:
            self._failures += 1
            self._next_try_s = loop.time() + self._pace.retry_s(self._failures)
            self.problem = f"the kubelet did not register {self.resource}: {_words(error)}"
            LOG.warning("not registered resource=%s error=%r times=%s", self.resource, _words(error), self._failures)
            return
        self.problem = ""
        self._failures = 0
        self._registered_with = kubelet
        self._registered_at_s = self._heard_at_s = loop.time()
        LOG.info("registered resource=%s socket=%s", self.resource, self._socket)

    async def _start(self) -> None:
        if len(str(self._socket).encode()) > services.LONGEST_SOCKET_PATH:
            raise OSError(f"{self._socket} is longer than the {services.LONGEST_SOCKET_PATH} bytes of a socket's path")
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((services.handler(self._calls),))
        try:
            server.add_insecure_port(f"unix:{self._socket}")
        except RuntimeError as error:  # all that gRPC says when it cannot bind
            raise OSError(f"cannot listen on {self._socket}; is {self._socket.parent} there and writable?") from error
        await server.start()
        self._server, self._ours = server, signature(self._socket)

    async def _stop(self) -> None:
        self._registered_with = None
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)


def _words(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error)
