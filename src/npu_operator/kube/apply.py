"""Server-side apply, only when it is needed.

An object is applied when it is not there, when what we want of it has changed since we applied it (a digest in an
annotation tells; so a field that we want no more is noticed too), or when somebody has changed a value of ours. Else it
is left alone: an unchanged spec makes no writes, also after a restart.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from npu_operator.kube.api import Cluster, Object, Resource
from npu_operator.kube.containment import Difference, differences

MISSING = "it is not there"
CHANGED = "what we want has changed since it was applied"


def digest(wanted: Mapping[str, Any]) -> str:
    """Sixteen hex digits that change when `wanted` does; the order of keys does not count."""
    return hashlib.sha256(msgspec.json.encode(wanted, order="deterministic")).hexdigest()[:16]


def marked(wanted: Mapping[str, Any], annotation: str) -> Object:
    """`wanted` with its digest in `annotation`: what is sent."""
    metadata = dict(wanted["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), annotation: digest(wanted)}
    return {**wanted, "metadata": metadata}


def needs_apply(
    wanted: Mapping[str, Any],
    live: Mapping[str, Any] | None,
    *,
    annotation: str,
    accepted: frozenset[Difference] = frozenset(),
) -> str | None:
    """Why `wanted` has to be applied, in words; None when `live` contains it already.

    `accepted` are differences that stay however often we apply (see `Applier`).
    """
    if live is None:
        return MISSING
    if (live.get("metadata", {}).get("annotations") or {}).get(annotation) != digest(wanted):
        return CHANGED
    first = next((found for found in differences(wanted, live) if found not in accepted), None)
    return str(first) if first is not None else None


class Applier:
    """Applies objects as one field manager and remembers what the server makes of them.

    A server can refuse to keep a value without saying so (an older one does not know the field, an admission plugin
    rewrites it). What still differs in the answer to our own apply is therefore accepted, or we would apply for ever.
    """

    def __init__(self, cluster: Cluster, *, manager: str, annotation: str) -> None:
        self._cluster = cluster
        self._manager = manager
        self._annotation = annotation
        self._accepted: dict[tuple[str, str, str], tuple[str, frozenset[Difference]]] = {}

    def why(self, wanted: Mapping[str, Any], live: Mapping[str, Any] | None) -> str | None:
        """Why `wanted` has to be applied; None when there is no need."""
        of, accepted = self._accepted.get(_name(wanted), ("", frozenset()))
        if of != digest(wanted):
            accepted = frozenset()
        return needs_apply(wanted, live, annotation=self._annotation, accepted=accepted)

    async def apply(self, resource: Resource, wanted: Mapping[str, Any]) -> bytes:
        """Apply, whether needed or not. Returns the object as it is now. Raises ApiError."""
        answer = await self._cluster.apply(resource, marked(wanted, self._annotation), manager=self._manager)
        live = msgspec.json.decode(answer, type=dict[str, Any])
        self._accepted[_name(wanted)] = (digest(wanted), frozenset(differences(wanted, live)))
        return answer

    def forget(self, wanted: Mapping[str, Any]) -> None:
        """The object is no longer wanted."""
        self._accepted.pop(_name(wanted), None)


def _name(wanted: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = wanted["metadata"]
    return (wanted["kind"], metadata.get("namespace", ""), metadata["name"])
