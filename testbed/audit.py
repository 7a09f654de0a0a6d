"""The API server's audit log: who asked for what, and what was answered.

The log is written before an answer is sent, so it is complete for every answer that a test has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        {"level": "Metadata"},
    ],
}


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Object(msgspec.Struct, frozen=True):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = msgspec.field(default="", name="apiGroup")


class _Answer(msgspec.Struct, frozen=True):
    code: int = 0


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    verb: str
    request_uri: str = msgspec.field(name="requestURI")
    stage_timestamp: str
    user: _User = _User()
    user_agent: str = ""
    object_ref: _Object = _Object()
    response_status: _Answer = _Answer()
    annotations: dict[str, str] = {}


class Event(msgspec.Struct, frozen=True):
    """One request. `resource` includes the sub-resource ("nodes/status"); `code` is the HTTP status of the answer.

    `verb` is Kubernetes' own (get, list, watch, create, update, patch, delete, deletecollection), or the HTTP method
    in lower case for paths that are no resource. `at` is when it was answered, in RFC 3339.
    """

    user: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int
    uri: str
    user_agent: str
    at: str
    annotations: dict[str, str]


class AuditLog:
    """Reads an audit log while it is being written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def position(self) -> int:
        """The present end of the log, to be given to `events` as `since`."""
        return self._path.stat().st_size if self._path.exists() else 0

    def events(self, user: str | None = None, *, since: int = 0) -> Iterator[Event]:
        """The requests after the position `since`, oldest first; only those of `user`, if one is named.

        A watch counts once, when it begins (or is refused).
        """
        decoder = msgspec.json.Decoder(_Line)
        watches: set[str] = set()
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(since)
            for text in log:
                if not text.endswith(b"\n"):
                    return  # the server is writing this line
                line = decoder.decode(text)
                if line.stage == "ResponseStarted":
                    watches.add(line.audit_id)
                elif line.audit_id in watches:
                    watches.discard(line.audit_id)  # the end of what was reported when it began
                    continue
                if user is None or line.user.username == user:
                    yield _event(line)

    def requests(self, user: str | None = None, *, since: int = 0) -> Counter[tuple[str, str]]:
        """How many requests there were by (verb, resource)."""
        return Counter((event.verb, event.resource) for event in self.events(user, since=since))


def _event(line: _Line) -> Event:
    target = line.object_ref
    return Event(
        user=line.user.username,
        verb=line.verb,
        group=target.api_group,
        resource=f"{target.resource}/{target.subresource}" if target.subresource else target.resource,
        namespace=target.namespace,
        name=target.name,
        code=line.response_status.code,
        uri=line.request_uri,
        user_agent=line.user_agent,
        at=line.stage_timestamp,
        annotations=line.annotations,
    )
