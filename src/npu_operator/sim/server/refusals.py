"""How the server says no: the `Status` objects of a kube-apiserver 1.34, in its words.

The words matter: people read them in conditions, and our own code reads causes and fields. Compared with the real
server by the contract tests.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from npu_operator.kube.api import Resource


class Cause(NamedTuple):
    """One reason why an object is invalid."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Refused(Exception):
    """The server's answer to a request that it does not fulfil."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s
        """What the `Retry-After` header says."""
        self.details = details

    def body(self) -> bytes:
        """The `Status` as sent; a resource that nobody serves is answered with plain text."""
        if self.code == 404 and not self.reason:
            return b"404 page not found\n"
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            **({"reason": self.reason} if self.reason else {}),
            **({"details": self.details} if self.details else {}),
            "code": self.code,
        }
        return msgspec.json.encode(status)


def _about(resource: Resource, name: str | None = None, **more: Any) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    return {**({"name": name} if name else {}), **group, "kind": resource.plural, **more}


def no_such_resource() -> Refused:
    """Nobody serves this path: the CustomResourceDefinition is not there (yet)."""
    return Refused(404, "", "404 page not found")


def not_found(resource: Resource, name: str) -> Refused:
    """No object of that name."""
    return Refused(404, "NotFound", f'{resource.name} "{name}" not found', _about(resource, name))


def already_exists(resource: Resource, name: str, *, is_leaving: bool = False) -> Refused:
    """The name is taken, maybe by an object that is being deleted."""
    leaving = "object is being deleted: " if is_leaving else ""
    return Refused(409, "AlreadyExists", f'{leaving}{resource.name} "{name}" already exists', _about(resource, name))


def modified(resource: Resource, name: str) -> Refused:
    """The guard (resourceVersion) does not hold."""
    message = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, message)


def conflict(resource: Resource, name: str, message: str) -> Refused:
    """The request does not go with the present state of the object."""
    text = f'Operation cannot be fulfilled on {resource.name} "{name}": {message}'
    return Refused(409, "Conflict", text, _about(resource, name))


def precondition(resource: Resource, name: str, field: str, wanted: str, found: str) -> Refused:
    """A delete with preconditions that do not hold; the server names the kind here, not the resource."""
    word = {"UID": "deleted and then recreated", "ResourceVersion": "modified"}[field]
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = (
        f'Operation cannot be fulfilled on {kind} "{name}": the {field} in the precondition ({wanted}) does not match '
        f"the {field} in record ({found}). The object might have been {word}"
    )
    return Refused(409, "Conflict", message, {**_about(resource, name), "kind": resource.kind})


def apply_conflict(message: str, found: Iterable[tuple[str, Sequence[str]]]) -> Refused:
    """An apply without force names fields of others; `found` has their owners and paths."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
        for who, paths in found
        for path in paths
    ]
    return Refused(409, "Conflict", message, {"causes": causes})


def bad_request(message: str) -> Refused:
    """The request cannot be understood."""
    return Refused(400, "BadRequest", message)


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> Refused:
    """The object does not fit."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return _invalid(kind, name, causes, {**_about(resource, name), "kind": resource.kind})


def invalid_options(options: str, cause: Cause) -> Refused:
    """The options of a request do not fit."""
    return _invalid(f"{options}.meta.k8s.io", "", [cause], {"group": "meta.k8s.io", "kind": options})


def invalid_patch(cause: Cause) -> Refused:
    """The patched object cannot be read as its type; the server forgets to say which object it was."""
    return _invalid("", "", [cause], {})


def _invalid(kind: str, name: str, causes: Sequence[Cause], details: dict[str, Any]) -> Refused:
    text = str(causes[0]) if len(causes) == 1 else f"[{', '.join(map(str, causes))}]"
    listed = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    return Refused(422, "Invalid", f'{kind} "{name}" is invalid: {text}', {**details, "causes": listed})


def forbidden(resource: Resource, name: str | None, message: str, causes: Sequence[Cause] = ()) -> Refused:
    """RBAC or admission says no; the message has their words."""
    named = f' "{name}"' if name else ""
    listed = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    details = _about(resource, name, **({"causes": listed} if listed else {}))
    return Refused(403, "Forbidden", f"{resource.name}{named} is forbidden: {message}", details)


def expired(message: str) -> Refused:
    """What was asked for lies before the history that is kept."""
    return Refused(410, "Expired", message)


def too_many_requests(message: str, causes: Sequence[Cause] = (), *, retry_after_s: int = 0) -> Refused:
    """Not now."""
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = [{"reason": cause.reason, "message": cause.message} for cause in causes]
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return Refused(429, "TooManyRequests", message, details, retry_after_s=retry_after_s or None)


def internal(message: str) -> Refused:
    """The server's own 500; among others its answer to an apply that does not fit the schema."""
    return Refused(500, "", message)


def shown(value: Any) -> str:
    """A value in a message."""
    return msgspec.json.encode(value).decode()


def wrong(field: str, value: Any, why: str) -> Cause:
    """A value that breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {why}", field)


def wrong_type(field: str, found: str, wanted: str) -> Cause:
    """A value of another type; `found` is the type's name (or the text, for a format)."""
    message = f"Invalid value: {shown(found)}: {field} in body must be of type {wanted}: {shown(found)}"
    return Cause("FieldValueTypeInvalid", message, field)


def required(field: str, why: str = "") -> Cause:
    """A field that is missing or empty."""
    return Cause("FieldValueRequired", "Required value" + (f": {why}" if why else ""), field)


def unsupported(field: str, value: Any, supported: Iterable[Any]) -> Cause:
    """A value outside an enumeration."""
    listed = ", ".join(shown(each) for each in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", field)


def not_allowed(field: str, why: str) -> Cause:
    """A field that may not be set or changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: Any) -> Cause:
    """A key that must be unique."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def unknown_name(field: str, value: Any) -> Cause:
    """A name that refers to nothing."""
    return Cause("FieldValueNotFound", f"Not found: {shown(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    """Text over its limit."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def too_many(field: str, found: int, limit: int) -> Cause:
    """A list or map over its limit."""
    return Cause("FieldValueTooMany", f"Too many: {found}: must have at most {limit} items", field)


def immutable(field: str, value: Any) -> Cause:
    """A field that never changes."""
    return wrong(field, value, "field is immutable")
