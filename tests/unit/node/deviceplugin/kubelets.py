"""A kubelet as a device plugin meets it: real sockets, real gRPC, the real one's order and its rules.

It wipes its directory when it starts, refuses a wrong version or a name that is no extended resource, calls the plugin
back before it answers, keeps one endpoint per resource and hangs up on the one before, takes devices for unhealthy when
the list ends, and gives out only healthy ones. Source: the device manager of Kubernetes 1.34.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from npu_operator.node.deviceplugin import services
from npu_operator.node.deviceplugin import v1beta1_pb2 as api

RESOURCE = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
SOON_S = 10.0  # far above what anything here takes; a test that waits so long has failed


async def until(condition: Any, what: str) -> None:
    """Wait until `condition()` holds; fail with `what` when it does not soon."""
    try:
        async with asyncio.timeout(SOON_S):
            while not condition():  # noqa: ASYNC110  # what is waited for lies in files and other tasks
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited in vain until {what}") from None


class Endpoint:
    """A plugin that has registered."""

    def __init__(self, request: api.RegisterRequest, socket: Path) -> None:
        self.request = request
        self.devices: dict[str, api.Device] = {}
        self.lists: list[dict[str, str]] = []
        """Each list it sent: id → health."""
        self.hung_up = False
        self._channel = services.connect(socket)
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            call = self._channel.unary_stream(
                "/v1beta1.DevicePlugin/ListAndWatch",
                api.Empty.SerializeToString,
                api.ListAndWatchResponse.FromString,
            )
            async for answer in call(api.Empty()):
                self.devices = {device.ID: device for device in answer.devices}
                self.lists.append({device.ID: device.health for device in answer.devices})
        for device in self.devices.values():
            device.health = "Unhealthy"
        self.hung_up = True

    async def call(self, method: str, request: Any, answer: Any) -> Any:
        call = self._channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}", request.SerializeToString, answer.FromString
        )
        return await call(request, timeout=SOON_S)

    async def close(self) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._channel.close()


class Kubelet:
    """One kubelet process after the other on the same directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.socket = directory / "kubelet.sock"
        self.endpoints: dict[str, Endpoint] = {}
        self.registrations: list[str] = []
        self.refuse = ""
        """With which words to refuse registrations."""
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        for path in self.directory.iterdir():
            path.unlink()
        server = grpc.aio.server()
        register = grpc.unary_unary_rpc_method_handler(
            self._register, api.RegisterRequest.FromString, api.Empty.SerializeToString
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": register}),)
        )
        server.add_insecure_port(f"unix:{self.socket}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        endpoints, self.endpoints = self.endpoints, {}
        for endpoint in endpoints.values():
            await endpoint.close()
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def restart(self) -> None:
        await self.stop()
        self.registrations.clear()
        await self.start()

    async def _register(self, request: api.RegisterRequest, context: Any) -> api.Empty:
        self.registrations.append(request.resource_name)
        if self.refuse:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        if request.version != "v1beta1":
            await context.abort(grpc.StatusCode.UNKNOWN, f"unsupported version {request.version}")
        if not RESOURCE.fullmatch(request.resource_name):
            await context.abort(grpc.StatusCode.UNKNOWN, f"invalid resource name {request.resource_name}")
        endpoint = Endpoint(request, self.directory / request.endpoint)
        try:  # the real one dials and asks before it answers
            options = await endpoint.call("GetDevicePluginOptions", api.Empty(), api.DevicePluginOptions)
        except grpc.aio.AioRpcError as error:
            await endpoint.close()
            await context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial device plugin: {error.details()}")
        assert options == request.options
        before = self.endpoints.get(request.resource_name)
        self.endpoints[request.resource_name] = endpoint
        if before is not None:
            await before.close()
        return api.Empty()

    # --- what tests ask

    def health(self, resource: str) -> dict[str, str]:
        """Id → health, as the kubelet has it now; empty for a resource that nobody registered."""
        endpoint = self.endpoints.get(resource)
        return {} if endpoint is None else {name: device.health for name, device in endpoint.devices.items()}

    def allocatable(self, resource: str) -> int:
        """As the Node would show it."""
        return list(self.health(resource).values()).count("Healthy")

    async def allocate(self, resource: str, *containers: list[str]) -> api.AllocateResponse:
        request = api.AllocateRequest(
            container_requests=[api.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        )
        answer: api.AllocateResponse = await self.endpoints[resource].call("Allocate", request, api.AllocateResponse)
        return answer

    async def prefer(self, resource: str, available: list[str], must: list[str], size: int) -> list[str]:
        one = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        answer = await self.endpoints[resource].call(
            "GetPreferredAllocation",
            api.PreferredAllocationRequest(container_requests=[one]),
            api.PreferredAllocationResponse,
        )
        return list(answer.container_responses[0].deviceIDs)


@contextlib.asynccontextmanager
async def a_kubelet(directory: Path) -> AsyncIterator[Kubelet]:
    """A kubelet that runs, and is stopped whatever happens."""
    kubelet = Kubelet(directory)
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()
