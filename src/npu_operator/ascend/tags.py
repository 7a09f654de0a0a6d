"""The tag of a driver image: which image fits a node, from facts the node's labels carry.

`<HDK>-<chip>-<kernel>-<os-stem>`, e.g. `25.5.0-910b-6.6.0-145.0.4.135-oe2403sp3`. The tag only finds the image; whether
its modules fit is decided by the full `uname -r` in the payload's manifest.
"""

import hashlib
import re
from typing import get_args

import msgspec

from npu_operator.ascend import pci

LONGEST_TAG = 128  # OCI distribution: [A-Za-z0-9_][A-Za-z0-9_.-]{0,127}
_DIGEST_LENGTH = 10  # hex digits that keep two shortened tags apart

ARCHITECTURES = (".aarch64", ".x86_64")  # the manifest list's business, not the tag's

# The last dotted part of a distribution's release when it names the distribution: oe2403sp3, ky10, hce2, el8_6.
# A digit must follow, so that words like `elrepo` are no mark.
_MARK = re.compile(r"(?:oe|ky|hce|el)[0-9][^.]*")
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")

# os-release(5): ID defaults to "linux".
DEFAULT_OS_ID = "linux"


class Kernel(msgspec.Struct, frozen=True):
    """A kernel release cut for a tag: `kernel` and the `stem` that names the distribution."""

    kernel: str
    stem: str


def split_kernel(uname_r: str, os_id: str = "", os_version_id: str = "") -> Kernel:
    """Cut a `uname -r`. The stem is the release's own mark, else os-release's ID and VERSION_ID without dots.

    KubeOS has no VERSION_ID; its stem is then the ID alone.
    """
    release = uname_r.strip()
    for architecture in ARCHITECTURES:
        release = release.removesuffix(architecture)
    kernel, _, last = release.rpartition(".")
    if kernel and _MARK.fullmatch(last):
        return Kernel(kernel, last)
    return Kernel(release, (os_id.strip() or DEFAULT_OS_ID) + os_version_id.strip().replace(".", ""))


def image_tag(version: str, chip: str, uname_r: str, os_id: str = "", os_version_id: str = "") -> str:
    """The tag of the driver image for a node.

    Raises ValueError when the chip is no family of ours, or version or kernel is empty: such a tag could only be wrong.
    A tag over 128 characters is cut and ends with a digest of the whole, so that two of them never meet.
    """
    if chip not in get_args(pci.ChipFamily):
        raise ValueError(f"no driver images are made for chip {chip!r}; known are {', '.join(pci.CHIP_FAMILIES)}")
    if not version.strip():
        raise ValueError("the driver version is empty")
    if not uname_r.strip():
        raise ValueError("the kernel release is empty")
    cut = split_kernel(uname_r, os_id, os_version_id)
    tag = _FOREIGN.sub("_", f"{version.strip()}-{chip}-{cut.kernel}-{cut.stem}")
    if tag[0] in ".-":
        tag = "_" + tag[1:]
    if len(tag) <= LONGEST_TAG:
        return tag
    digest = hashlib.sha256(tag.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{tag[: LONGEST_TAG - _DIGEST_LENGTH - 1]}-{digest}"
