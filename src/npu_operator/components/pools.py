"""Pools: nodes with the same chip, kernel and OS, which one driver image serves.

The key is made so that two nodes are in one pool exactly when the tag rule gives them the same image.
Source: product.md §1 (tag rule), §4.2 (digests); facts/peers.md §3.4.
"""

import hashlib

import msgspec

from npu_operator.ascend import tags
from npu_operator.components import images
from npu_operator.model.chips import ChipFamily
from npu_operator.model.ctl import Spec, driver_version_for

HASH_DIGITS = 10
"""40 bits: two of a thousand pools meet with a chance of 1 to 2 million."""


def pool_hash(chip: str, kernel: str, os: str) -> str:
    """The name of a pool in labels and in the name of its DaemonSet: 10 hex digits, the same on every day."""
    return hashlib.sha256("\n".join((chip, kernel, os)).encode()).hexdigest()[:HASH_DIGITS]


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """One pool. Make it with `pool_of`, which brings the OS into the form of the tag rule."""

    chip: ChipFamily
    kernel: str
    """The whole `uname -r`, architecture included."""
    os: str
    """The last part of the image tag, e.g. `oe2403sp3`."""
    digest: str = ""
    """The image digest (`sha256:…`) pinned when the rollout started; empty when none is known."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two nodes the same to a driver."""
        return (self.chip, self.kernel, self.os)

    @property
    def hash(self) -> str:
        """Value of the node label that puts a node into this pool."""
        return pool_hash(*self.key)


def pool_of(chip: ChipFamily, uname_r: str, os_id: str = "", os_version_id: str = "", *, digest: str = "") -> Pool:
    """The pool of a node, from what its labels or its agent say (`os_…` as in os-release)."""
    stem = tags.split_kernel(uname_r, os_id, os_version_id).stem
    return Pool(chip=chip, kernel=uname_r.strip(), os=stem, digest=digest)


def driver_tag(spec: Spec, pool: Pool) -> str:
    """The tag of the pool's driver image: the override of the spec for this kernel and chip, else by the rule.

    Raises ValueError when the rule cannot make one (`ascend.tags.image_tag`).
    """
    override = spec.driver.image.tags.get(pool.kernel, {}).get(pool.chip, "")
    return override or tags.image_tag(driver_version_for(spec, pool.chip), pool.chip, pool.kernel, pool.os)


def driver_image(spec: Spec, pool: Pool) -> str:
    """Registry, repository and tag of the pool's driver image, without its digest: what a person would build."""
    repository = images.with_registry(spec.driver.image.repository, spec.registry)
    return str(images.Reference(repository, driver_tag(spec, pool)))


def pinned_driver_image(spec: Spec, pool: Pool) -> str:
    """The image to pull: `driver_image`, and once a digest is pinned exactly that content."""
    return f"{driver_image(spec, pool)}@{pool.digest}" if pool.digest else driver_image(spec, pool)
