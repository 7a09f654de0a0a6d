"""Paths below a root that is not ours: symbolic links are followed as a process with that root would, never out of it.

The host lies at `/host` in an agent's pod, so a link such as `/var/run -> /run` must not lead into our own container,
and one in a workload's container, which anybody may have made, must not lead out of that container. `..` ends at the
root. Below `/proc/<pid>/root` another root begins: that process's.
"""

import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

MOST_LINKS: Final = 40  # as in the kernel
_PROCESS_ROOT: Final = re.compile(r"/proc/[1-9][0-9]*/root")


def resolve(root: Path, path: str, *, follow: bool = True) -> Path:
    """Where `path`, absolute below `root`, really lies. Its last part may be missing, or a link without `follow`.

    Raises OSError: ELOOP for too many links, ENOTDIR and EACCES as the kernel would; ValueError for a relative path.
    """
    if not path.startswith("/"):
        raise ValueError(f"not an absolute path: {path!r}")
    base = root
    at: list[str] = []
    todo = _parts(path)
    links = 0
    while todo:
        part = todo.pop(0)
        if part == "..":
            del at[-1:]
            continue
        here = base.joinpath(*at, part)
        target = _link(here) if todo or follow else None
        if target is None:
            at.append(part)
            continue
        if base == root and _PROCESS_ROOT.fullmatch("/" + "/".join([*at, part])):
            base, at = here, []  # its text says nothing: only the kernel can follow it
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            at = []
        todo = [*_parts(target), *todo]
    return base.joinpath(*at)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _link(path: Path) -> str | None:
    """Where a link points; None when there is no link at the path."""
    try:
        return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else None  # noqa: PTH115  # text, not a path
    except FileNotFoundError:
        return None
