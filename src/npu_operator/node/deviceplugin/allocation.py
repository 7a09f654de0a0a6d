"""From device ids to what a container gets: the answer to Allocate.

One way of injection at a time, by setting: two at once would give a device twice. `ASCEND_VISIBLE_DEVICES` comes with
each, for the runtime handler of hosts without CDI and for tools that read it. An error here fails the pod for good, so
each says which id and why.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Final

from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from npu_operator.model.ctl import Injection
from npu_operator.node.deviceplugin import offers
from npu_operator.node.deviceplugin import v1beta1_pb2 as api
from npu_operator.node.state import NodeChip, NodeState, SharedPath

VISIBLE: Final = "ASCEND_VISIBLE_DEVICES"
ANNOTATION_PREFIX: Final = "cdi.k8s.io/npu-device-plugin_"
"""With the first id behind it, so that no two requests of a container share a key; 63 characters behind the slash."""
READ_WRITE: Final = "rw"


class Refused(Exception):
    """The devices cannot be given; the text says which and why. The kubelet shows it in the pod's status."""


def answer(requests: Sequence[Sequence[str]], state: NodeState, injection: Injection) -> api.AllocateResponse:
    """What each container of a request for chips gets. Raises `Refused`."""
    _each_once(requests)
    by_id = {one.chip.id: one for one in state.chips}
    wanted = [[_chip(name, by_id, state) for name in ids] for ids in requests]
    return api.AllocateResponse(
        container_responses=[
            _given(chips, [offers.cdi_name(one) for one in chips], chips[0].chip.id, state, injection)
            for chips in wanted
        ]
    )


def answer_validation(
    requests: Sequence[Sequence[str]], state: NodeState, injection: Injection
) -> api.AllocateResponse:
    """What the validator gets: every chip whose device is there, in the way in which a workload gets one."""
    _each_once(requests)
    unknown = sorted({*itertools.chain.from_iterable(requests)} - {offers.VALIDATION_DEVICE})
    if unknown:
        raise Refused(f"{names.VALIDATION_RESOURCE} has one device, {offers.VALIDATION_DEVICE}, and no {unknown[0]}")
    chips = [one for one in state.chips if one.chip.state not in offers.ABSENT]
    if not chips:
        raise Refused("the node has no chip whose device could be given to the validator")
    described = [name for one in chips if (name := offers.cdi_name(one)) in state.cdi_devices]
    cdi_names = [offers.ALL] if offers.ALL in state.cdi_devices or not described else described
    given = _given(chips, cdi_names, offers.VALIDATION_DEVICE, state, injection)
    return api.AllocateResponse(container_responses=[given for _ in requests])


def _each_once(requests: Sequence[Sequence[str]]) -> None:
    counts = Counter(itertools.chain.from_iterable(requests))
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise Refused(f"device {twice[0]} was asked for {counts[twice[0]]} times; a chip can be given only once")
    if not all(requests):
        raise Refused("a container asked for no device at all")


def _chip(name: str, by_id: dict[str, NodeChip], state: NodeState) -> NodeChip:
    one = by_id.get(name)
    if one is None:
        raise Refused(f"there is no device {name} on node {state.node}; there are {', '.join(by_id) or 'none'}")
    if objection := offers.why_not(one, state):
        raise Refused(f"device {name} on node {state.node} cannot be given: {objection}")
    return one


def _given(
    chips: Sequence[NodeChip], cdi_names: Sequence[str], key: str, state: NodeState, injection: Injection
) -> api.ContainerAllocateResponse:
    given = api.ContainerAllocateResponse(envs={VISIBLE: ",".join(str(_number(one, state)) for one in chips)})
    qualified = [f"{names.CDI_KIND}={name}" for name in cdi_names]
    match injection:
        case Injection.CDI:
            given.cdi_devices.extend(api.CDIDevice(name=name) for name in qualified)
        case Injection.ANNOTATION:
            given.annotations[f"{ANNOTATION_PREFIX}{key}"] = ",".join(qualified)
        case Injection.DEVICES:
            own = [one.device or f"/dev/davinci{offers.cdi_name(one)}" for one in chips]
            given.devices.extend(
                api.DeviceSpec(host_path=path.host, container_path=path.container, permissions=READ_WRITE)
                for path in (*(SharedPath(host=node, container=node) for node in own), *state.shared_devices)
            )
            given.mounts.extend(
                api.Mount(host_path=path.host, container_path=path.container, read_only=True) for path in state.mounts
            )
    return given


def _number(one: NodeChip, state: NodeState) -> int | str:
    """The number by which the runtime handler knows a chip: the physical id, on 950 the logic id."""
    is_950 = state.chip_family == ChipFamily.ASCEND_950
    return one.chip.logic if is_950 and one.chip.logic is not None else offers.cdi_name(one)
