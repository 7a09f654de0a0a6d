"""Which image runs: the release's own, overridden piece by piece, behind the registry of the spec.

The only place with the name of an image of ours in it; the driver's repository stands in the spec.
"""

import msgspec

from npu_operator.model.parts import Image

OPERATOR_REPOSITORY = "npu-operator"
"""Operator and agents are one image. Without a host, so `registry` or the cluster's mirrors say where it lies."""


class Reference(msgspec.Struct, frozen=True):
    """An image reference, taken apart. `str()` puts it together again."""

    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


def parse(text: str) -> Reference:
    """Take `[host[:port]/]path[:tag][@digest]` apart. A colon before a slash belongs to the host's port."""
    rest, _, digest = text.partition("@")
    before, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        return Reference(rest, digest=digest)
    return Reference(before, tag, digest)


def with_registry(repository: str, registry: str) -> str:
    """`repository` behind `registry`, unless it names a host itself (a first part with a dot or colon, `localhost`)."""
    first, slash, _ = repository.partition("/")
    has_host = bool(slash) and (first == "localhost" or "." in first or ":" in first)
    return repository if has_host or not registry else f"{registry.rstrip('/')}/{repository}"


def overridden(default: str, image: Image, registry: str) -> str:
    """The image of a component: each piece that `image` leaves empty is that of `default`.

    Another tag without a digest drops the default's digest, since that would decide against the tag.
    """
    known = parse(default)
    repository = with_registry(image.repository or known.repository, registry)
    if image.digest:
        return str(Reference(repository, image.tag or known.tag, image.digest))
    if image.tag:
        return str(Reference(repository, image.tag))
    return str(Reference(repository, known.tag, known.digest))
