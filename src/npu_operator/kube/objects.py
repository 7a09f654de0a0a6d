"""What a cached object must have, and the slim form in which we keep those that nobody else models.

A cache holds thousands of objects for the life of the process. So they are frozen structs with only the fields that
somebody reads, labels and annotations are filtered by prefix, and equal strings are kept once (measured: 5 MB per
1,000 Nodes instead of 50).
"""

import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from npu_operator.kube.api import Object


class HasVersion(Protocol):
    """The part of `metadata` that caches need."""

    @property
    def name(self) -> str:
        """Unique in its namespace."""
        ...

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped objects."""
        ...

    @property
    def uid(self) -> str:
        """Different for two objects that had the same name one after the other."""
        ...

    @property
    def resource_version(self) -> str:
        """Grows with each write of any object of the same resource."""
        ...


class Kept(Protocol):
    """An object that a `Store` can hold: any frozen `msgspec.Struct` with such a `metadata`."""

    @property
    def metadata(self) -> HasVersion:
        """Name and version."""
        ...


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whose object this is."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`metadata` of an object. Stamps are text as sent; None means not set."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages the object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Slim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base of structs for objects that we read; subclasses add the fields they want."""

    metadata: Meta


class Whole(Slim, frozen=True):
    """An object kept in full, for few and small ones: what we own, to compare with what we want."""

    body: Object
    """Without `managedFields`, which is large and read by nobody."""


SlimType = TypeVar("SlimType", bound=Slim)


class Keep(msgspec.Struct, frozen=True):
    """Which labels and annotations to keep, by prefix of their key; None keeps all, `()` none."""

    labels: tuple[str, ...] | None = None
    annotations: tuple[str, ...] | None = None


ALL = Keep()


def decoder(type_: type[SlimType], keep: Keep = ALL) -> Callable[[msgspec.Raw | bytes], SlimType]:
    """A function from an object's JSON to `type_`. It raises `msgspec.DecodeError` for what does not fit."""
    decode = msgspec.json.Decoder(type_).decode

    def slim(raw: msgspec.Raw | bytes) -> SlimType:
        found = decode(raw)
        _slim_down(found.metadata, keep)
        return found

    return slim


def decode_whole(raw: msgspec.Raw | bytes) -> Whole:
    """The object in full, but for `managedFields`. Raises `msgspec.DecodeError`."""
    body = msgspec.json.decode(raw, type=dict[str, Any])
    metadata = body.get("metadata", {})
    metadata.pop("managedFields", None)
    return Whole(metadata=msgspec.convert(metadata, Meta), body=body)


def key_of(metadata: HasVersion) -> str:
    """`namespace/name`, or `name` for cluster-scoped objects."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def version_number(resource_version: str) -> int:
    """A version as a number; 0 when it is none, which compares with nothing."""
    return int(resource_version) if resource_version.isdecimal() else 0


def is_same_but_for_version(one: Kept, other: Kept) -> bool:
    """Do two versions of an object agree in everything that we read?"""
    first, second = _without_version(one), _without_version(other)
    return bool(first == second)


def _without_version(kept: Any) -> Any:
    changes: dict[str, Any] = {"metadata": msgspec.structs.replace(kept.metadata, resource_version="")}
    if isinstance(kept, Whole):
        metadata = {key: value for key, value in kept.body["metadata"].items() if key != "resourceVersion"}
        changes["body"] = {**kept.body, "metadata": metadata}
    return msgspec.structs.replace(kept, **changes)


def _slim_down(metadata: Meta, keep: Keep) -> None:
    """Filter and intern in place; nobody else has seen the fresh struct yet."""
    put = msgspec.structs.force_setattr
    put(metadata, "labels", _kept(metadata.labels, keep.labels))
    put(metadata, "annotations", _kept(metadata.annotations, keep.annotations, intern_values=False))
    put(metadata, "namespace", sys.intern(metadata.namespace))


def _kept(values: dict[str, str], prefixes: tuple[str, ...] | None, *, intern_values: bool = True) -> dict[str, str]:
    return {
        sys.intern(key): sys.intern(value) if intern_values else value
        for key, value in values.items()
        if prefixes is None or key.startswith(prefixes)
    }
