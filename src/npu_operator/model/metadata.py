"""The part of every object's metadata that we read.

`gc=False` here and in the status structs: they are frozen trees without cycles, and ten thousands of them lie in the
operator's caches, where the garbage collector would visit each again and again for nothing.
"""

import msgspec


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True, gc=False):
    """Whose object this is."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True, gc=False):
    """`metadata` of an object. Stamps are RFC 3339 text as the server sent them; None: not set."""

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
