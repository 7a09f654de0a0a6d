"""What the kubelet calls on us for one resource: from messages to ids and back. What to say is decided in `answers`."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

import grpc

from npu_operator.node.deviceplugin import v1beta1_pb2 as api
from npu_operator.node.deviceplugin.allocation import Refused
from npu_operator.node.deviceplugin.answers import Answers
from npu_operator.node.deviceplugin.offers import Offer
from npu_operator.node.deviceplugin.services import Context
from npu_operator.node.state import NodeState

LOG = logging.getLogger(__name__)

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
OPTIONS: Final = api.DevicePluginOptions(get_preferred_allocation_available=True)
"""We say what we prefer, and have nothing to do before a container starts."""


class Calls:
    """A `services.DevicePlugin`."""

    def __init__(self, resource: str, answers: Answers) -> None:
        self.listeners = 0
        """Kubelets that listen: one, or none after it hung up, or two for the moment in which it comes back."""
        self._resource = resource
        self._answers = answers
        self._offers: tuple[Offer, ...] = ()
        self._changed = asyncio.Event()

    def know(self, state: NodeState) -> None:
        """Answer by this state from now on. The kubelet is told at once when it makes another list of devices."""
        self._answers.know(state)
        devices = self._answers.devices()
        if devices == self._offers:
            return
        for one in devices:
            if one not in self._offers and (self._offers or not one.is_healthy):
                LOG.info("device id=%s healthy=%s why_not=%r", one.id, one.is_healthy, one.why_not)
        self._offers = devices
        self._changed.set()
        self._changed = asyncio.Event()

    async def options(self, request: api.Empty, context: Context) -> api.DevicePluginOptions:
        """As registered."""
        return OPTIONS

    async def list_and_watch(self, request: api.Empty, context: Context) -> AsyncIterator[api.ListAndWatchResponse]:
        """The list, and again after each change, until the kubelet hangs up."""
        self.listeners += 1
        try:
            told: tuple[Offer, ...] | None = None
            while True:
                changed, devices = self._changed, self._offers
                if devices != told:
                    yield api.ListAndWatchResponse(devices=[_device(one) for one in devices])
                    told = devices
                else:
                    await changed.wait()
        finally:
            self.listeners -= 1

    async def prefer(
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        """One choice per container."""
        choices = (
            self._answers.prefer(one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size)
            for one in request.container_requests
        )
        return api.PreferredAllocationResponse(
            container_responses=[api.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in choices]
        )

    async def allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:
        """All containers of the request, or an error that the kubelet shows in the pod's status."""
        wanted = [list(one.devices_ids) for one in request.container_requests]
        try:
            answer = self._answers.allocate(wanted)
        except Refused as refused:
            LOG.warning("allocation refused resource=%s devices=%s why=%r", self._resource, wanted, str(refused))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused))
        LOG.info("allocated resource=%s devices=%s", self._resource, wanted)
        return answer

    async def before_start(
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        """Nothing is to be done."""
        return api.PreStartContainerResponse()


def _device(one: Offer) -> api.Device:
    topology = None if one.numa is None else api.TopologyInfo(nodes=[api.NUMANode(ID=one.numa)])
    return api.Device(ID=one.id, health=HEALTHY if one.is_healthy else UNHEALTHY, topology=topology)
