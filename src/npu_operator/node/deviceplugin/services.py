"""The two gRPC services of the device plugin API as tables: their methods, and the bytes of their messages.

Both ends are here, what we serve to the kubelet and what we call on it. Names are on the wire; see `v1beta1.proto`.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio
from google.protobuf.message import Message

from npu_operator.node.deviceplugin import v1beta1_pb2 as api

VERSION: Final = "v1beta1"
REGISTRATION: Final = "v1beta1.Registration"
DEVICE_PLUGIN: Final = "v1beta1.DevicePlugin"
LONGEST_SOCKET_PATH: Final = 107  # bytes in sockaddr_un.sun_path, without the closing zero

Context = grpc.aio.ServicerContext[Any, Any]


class DevicePlugin(Protocol):
    """What the kubelet calls on a plugin."""

    async def options(self, request: api.Empty, context: Context) -> api.DevicePluginOptions:
        """What this plugin can do."""
        ...

    def list_and_watch(self, request: api.Empty, context: Context) -> AsyncIterator[api.ListAndWatchResponse]:
        """All devices at once, and again after each change."""
        ...

    async def prefer(
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        """Which of the free devices a container should get."""
        ...

    async def allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:
        """What a container with these devices gets."""
        ...

    async def before_start(
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        """Only called on plugins whose options ask for it."""
        ...


def handler(plugin: DevicePlugin) -> grpc.GenericRpcHandler:
    """A plugin as a gRPC server takes it."""
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    # fmt: off
    rows: tuple[tuple[str, Any, Any, Any], ...] = (
        # method                   kind    call                   takes
        ("GetDevicePluginOptions", unary,  plugin.options,        api.Empty),
        ("ListAndWatch",           stream, plugin.list_and_watch, api.Empty),
        ("GetPreferredAllocation", unary,  plugin.prefer,         api.PreferredAllocationRequest),
        ("Allocate",               unary,  plugin.allocate,       api.AllocateRequest),
        ("PreStartContainer",      unary,  plugin.before_start,   api.PreStartContainerRequest),
    )
    # fmt: on
    return grpc.method_handlers_generic_handler(
        DEVICE_PLUGIN,
        {method: kind(call, takes.FromString, _to_bytes) for method, kind, call, takes in rows},
    )


def _to_bytes(message: Message) -> bytes:
    return message.SerializeToString()


def connect(socket: Path) -> grpc.aio.Channel:
    """A channel to a unix socket. By default gRPC would name the path as authority, which other libraries refuse."""
    return grpc.aio.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")])


async def register(kubelet: Path, request: api.RegisterRequest, *, timeout_s: float) -> None:
    """Tell the kubelet of a plugin that is being served already: it calls back before it answers.

    Raises `grpc.aio.AioRpcError`, with the kubelet's own words in its details.
    """
    async with connect(kubelet) as channel:
        call = channel.unary_unary(
            f"/{REGISTRATION}/Register", api.RegisterRequest.SerializeToString, api.Empty.FromString
        )
        await call(request, timeout=timeout_s)


async def ask_options(socket: Path, *, timeout_s: float) -> api.DevicePluginOptions:
    """The first thing a kubelet asks of a plugin. Raises `grpc.aio.AioRpcError`."""
    async with connect(socket) as channel:
        call = channel.unary_unary(
            f"/{DEVICE_PLUGIN}/GetDevicePluginOptions", api.Empty.SerializeToString, api.DevicePluginOptions.FromString
        )
        return await call(api.Empty(), timeout=timeout_s)
