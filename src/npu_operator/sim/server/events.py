"""Events: complete when they are made, then only their series grows.

An event about something without a namespace (a node) lives in `default` or `kube-system`; elsewhere it is refused.
Source: kubernetes `pkg/apis/core/validation/events.go` (1.34), which names fields as the core group does.
"""

from collections.abc import Iterator
from typing import Final

from npu_operator.sim.server import names, refusals
from npu_operator.sim.server.objects import Tree, at
from npu_operator.sim.server.refusals import Cause

FIELDS: Final = (
    "reason", "type", "reportingController", "regarding.kind", "regarding.name", "regarding.namespace", "regarding.uid"
)  # fmt: skip
"""What events can be selected by."""

TYPES: Final = ("Normal", "Warning")
TEXT_LIMIT: Final = 128
NOTE_LIMIT: Final = 1024
HOMELESS: Final = ("default", "kube-system")
NEVER_CHANGES: Final = (
    "eventTime", "reportingController", "reportingInstance", "action", "reason", "type", "note", "regarding", "related"
)  # fmt: skip
CORE_WORDS: Final = {"note": "message", "regarding": "involvedObject"}


def check(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """A new event, or a change of one."""
    yield from _check_place(new)
    if new.get("eventTime"):
        yield from _check_text(new)
    if "series" in new and (old is None or new["series"] != old.get("series")):
        yield from _check_series(new["series"])
    if old is not None:
        for key in NEVER_CHANGES:
            if new.get(key) != old.get(key):
                yield refusals.immutable(CORE_WORDS.get(key, key), new.get(key))
        return
    if not new.get("eventTime"):
        yield refusals.required("eventTime")
    if new.get("type") not in TYPES:
        yield refusals.wrong("type", "", f"has invalid value: {new.get('type', '')}")


def _check_place(event: Tree) -> Iterator[Cause]:
    home = event["metadata"].get("namespace", "")
    regarding = at(event, "regarding", "namespace") or ""
    if regarding:
        fits = bool(event.get("eventTime")) or regarding == home
    else:
        fits = home in (HOMELESS if event.get("eventTime") else HOMELESS[:1])
    if not fits:
        yield refusals.wrong("involvedObject.namespace", regarding, "does not match event.namespace")


def _check_text(event: Tree) -> Iterator[Cause]:
    controller = event.get("reportingController", "")
    if not controller:
        yield refusals.required("reportingController")
    yield from (refusals.wrong("reportingController", controller, why) for why in names.qualified(controller))
    for key in ("reportingInstance", "action", "reason"):
        if not event.get(key):
            yield refusals.required(key)
        elif len(event[key]) > TEXT_LIMIT:
            yield refusals.wrong(key, "", f"can have at most {TEXT_LIMIT} characters")
    if len(event.get("note", "")) > NOTE_LIMIT:
        yield refusals.wrong("message", "", f"can have at most {NOTE_LIMIT} characters")


def _check_series(series: Tree) -> Iterator[Cause]:
    if series.get("count", 0) < 2:
        yield refusals.wrong("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield refusals.required("series.lastObservedTime")
