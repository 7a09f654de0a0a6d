"""From what the operator observes to the view of one node: what is wanted there, what counts, what is not known.

What is not known must never look like a decision of somebody: a node whose chip, kernel or spec cannot be read for a
moment wants what it is on its way to, or what it runs.
"""

from collections.abc import Iterable

import msgspec

from npu_operator.components.driver import wanted_driver
from npu_operator.model.ctl import Spec
from npu_operator.model.fields import Stamp
from npu_operator.model.node import Node
from npu_operator.model.npunode import Found
from npu_operator.plan.lifecycle import record as records
from npu_operator.plan.lifecycle import stamps
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.record import Target
from npu_operator.plan.lifecycle.slots import Holder
from npu_operator.plan.lifecycle.view import DriverPod, NodeView, PodView, target_of
from npu_operator.plan.verdict import Verdict


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs to a node and does not stand in its own objects."""

    pods: tuple[PodView, ...] | None = None
    """None: nobody watches them yet."""
    driver_pod: DriverPod | None = None
    seconds_without_pod: float = 0.0
    held: tuple[Holder, ...] = ()
    """This node's entries in the slots object, by UID."""
    seconds_in_state: float | None = None
    """By the observer's monotonic clock; None: it has only just begun, so the record's stamps tell."""
    up_since: Stamp = ""
    image: No | None = None
    """What preflight has against the pool."""
    firmware: No | None = None
    hosts_registry: bool = False


def view_of(
    node: Node,
    found: Found | None,
    verdict: Verdict,
    around: Surroundings,
    *,
    spec: Spec,
    is_spec_sound: bool,
    now: Stamp,
) -> NodeView:
    """The view of one node. `found` is of this boot; `is_spec_sound` is `ParsedCtl.may_disrupt`."""
    reading = records.read(node)
    since = reading.record.since.get(reading.record.state or "", "")
    stood_s = stamps.between(since, now) if around.seconds_in_state is None else around.seconds_in_state
    chips = found.chips if found is not None and spec.device_plugin.enabled else ()
    view = NodeView(
        node=node,
        found=found,
        reading=reading,
        now=now,
        seconds_in_state=stood_s,
        up_since=around.up_since,
        wanted=None,
        policy=spec.driver.upgrade_policy,
        recovery=spec.driver.recovery_policy,
        pods=around.pods,
        driver_pod=around.driver_pod,
        seconds_without_pod=around.seconds_without_pod,
        held=around.held,
        image=around.image,
        firmware=around.firmware,
        offered=sum(chip.is_offered for chip in chips),
        allocatable=verdict.allocatable,
        pool=verdict.pool.hash if verdict.pool is not None else "",
        hosts_registry=around.hosts_registry,
    )
    return msgspec.structs.replace(view, wanted=_wanted(view, verdict, spec, is_spec_sound=is_spec_sound))


def held_by(uid: str, holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """A node's entries among all holders."""
    return tuple(holder for holder in holders if holder.uid == uid)


def _wanted(view: NodeView, verdict: Verdict, spec: Spec, *, is_spec_sound: bool) -> Target | None:
    if is_spec_sound and (not spec.driver.enabled or verdict.has_host_driver or not verdict.has_npu):
        return None
    if is_spec_sound and verdict.pool is not None:
        return target_of(wanted_driver(spec, verdict.pool))
    return view.record.target or view.loaded
