"""Conditions of a status, kept so that an unchanged statement is an unchanged status."""

from collections.abc import Sequence

import msgspec

from npu_operator.kube.clock import stamp


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One statement about an object, in the form all of Kubernetes uses."""

    type: str
    status: str
    """True, False or Unknown."""
    reason: str = ""
    """One CamelCase word."""
    message: str = ""
    """One sentence for people."""
    last_transition_time: str = ""
    """When `status` last changed; RFC 3339."""
    observed_generation: int = 0
    """The generation of the object that this was said about."""


def set_condition(existing: Sequence[Condition], wanted: Condition, now: float) -> tuple[Condition, ...]:
    """`existing` with `wanted` in the place of the one of its type, or at the end.

    `lastTransitionTime` is `now` (seconds since 1970) only when the status flips; a new reason, message or generation
    keeps it. So the result equals `existing` when nothing has changed.
    """
    old = find(existing, wanted.type)
    flipped = old is None or old.status != wanted.status or not old.last_transition_time
    since = stamp(now) if flipped or old is None else old.last_transition_time
    new = msgspec.structs.replace(wanted, last_transition_time=since)
    if old is None:
        return (*existing, new)
    return tuple(new if condition.type == wanted.type else condition for condition in existing)


def find(existing: Sequence[Condition], type_: str) -> Condition | None:
    """The condition of that type."""
    return next((condition for condition in existing if condition.type == type_), None)
