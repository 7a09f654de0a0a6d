"""A file system in memory with the rules that matter to agents: links, directories in the way, full or read-only disks.

It refuses what a real one refuses, with the same errors; times and inode numbers are counters.
"""

import errno
import itertools
import os
import re
import stat
from collections.abc import Iterator
from typing import Final

import msgspec

from npu_operator.node.host import DirEntry
from npu_operator.node.rooted import MOST_LINKS

_PROCESS_ROOT: Final = re.compile(r"/proc/[1-9][0-9]*/root")


class Entry(msgspec.Struct):
    """What is at a path. `data` is a file's content, `target` a link's text, `device` major and minor."""

    kind: str
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    data: bytes = b""
    target: str = ""
    device: tuple[int, int] | None = None
    mtime_ns: int = 0
    inode: int = 0


class Files:
    """All files of a host, by their real paths."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {"/": Entry("dir", 0o755, inode=1)}
        self._numbers = itertools.count(2)
        self.full: set[str] = set()
        """Mount points on which nothing more can be written (ENOSPC)."""
        self.read_only: set[str] = set()
        """Mount points that take no change at all (EROFS)."""
        self.writable: set[str] = set()
        """Mount points below those, such as /var on a system whose root is read-only."""

    def put(self, path: str, data: bytes | str = b"", *, mode: int = 0o644, uid: int = 0, gid: int = 0) -> None:
        """A file, with its parents, as if it had always been there."""
        content = data.encode() if isinstance(data, str) else data
        self._place(path, Entry("file", mode, uid, gid, data=content))

    def put_dir(self, path: str, *, mode: int = 0o755) -> None:
        """A directory with its parents."""
        if self._entries.get(self.resolve(path)) is None:
            self._place(path, Entry("dir", mode))

    def put_link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self._place(path, Entry("link", 0o777, target=target))

    def put_device(self, path: str, major: int, minor: int, *, mode: int = 0o600) -> None:
        """A character device."""
        self._place(path, Entry("char", mode, device=(major, minor)))

    def put_socket(self, path: str) -> None:
        """A socket that somebody serves."""
        self._place(path, Entry("socket", 0o660))

    def take_away(self, path: str) -> None:
        """Remove whatever is there, with all that is in it, as if by another hand; nothing there is no error."""
        real = self.resolve(path, follow=False)
        for known in [*self._below(real), real]:
            self._entries.pop(known, None)

    def get(self, path: str, *, follow: bool = True) -> Entry:
        """What is at a path. Raises OSError as the kernel would."""
        found = self._entries.get(self.resolve(path, follow=follow))
        if found is None:
            raise _error(errno.ENOENT, path)
        return found

    def list(self, path: str) -> tuple[DirEntry, ...]:
        """The entries of a directory, by name."""
        real = self.resolve(path)
        if self.get(path).kind != "dir":
            raise _error(errno.ENOTDIR, path)
        start = "/" if real == "/" else f"{real}/"
        names = sorted(known[len(start) :] for known in self._below(real) if "/" not in known[len(start) :])
        return tuple(described(name, self._entries[start + name]) for name in names)

    def write(self, path: str, data: bytes, *, mode: int) -> None:
        """Replace what is there by a file, a link too; a directory is in the way."""
        real = self._writable(path, needs_space=True)
        self._replace(real, path, Entry("file", mode, data=data))

    def link(self, path: str, target: str) -> None:
        """Replace what is there by a link; a directory is in the way."""
        self._replace(self._writable(path), path, Entry("link", 0o777, target=target))

    def rename(self, old: str, new: str) -> None:
        """Move a file or a whole directory; one that is not empty is in the way."""
        source, target = self._writable(old), self._writable(new)
        entry = self._entries.get(source)
        if entry is None:
            raise _error(errno.ENOENT, old)
        there = self._entries.get(target)
        if there is not None and there.kind == "dir":
            if entry.kind != "dir":
                raise _error(errno.EISDIR, new)
            if next(iter(self._below(target)), None) is not None:
                raise _error(errno.ENOTEMPTY, new)
        if there is not None and there.kind != "dir" and entry.kind == "dir":
            raise _error(errno.ENOTDIR, new)
        for known in [source, *self._below(source)]:
            self._entries[target + known[len(source) :]] = self._entries.pop(known)

    def make_dirs(self, path: str, *, mode: int) -> None:
        """A directory and its parents; those that are there keep their modes."""
        real = self.resolve(path)
        missing = []
        while (found := self._entries.get(real)) is None:
            missing.append(real)
            real = _parent(real)
        if found.kind != "dir":
            raise _error(errno.ENOTDIR if missing else errno.EEXIST, path)
        for one in reversed(missing):
            self._writable(one, needs_space=True)
            self._entries[one] = self._numbered(Entry("dir", mode))

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with its content; nothing there is no error."""
        real = self.resolve(path, follow=False)
        if real in self._entries:
            self._writable(path)
            self.take_away(path)

    def set_owner(self, path: str, *, uid: int, gid: int, mode: int) -> None:
        """chown and chmod of what a path leads to."""
        entry = self.get(path)
        self._refuse_read_only(self.resolve(path), path)
        entry.uid, entry.gid, entry.mode = uid, gid, mode

    def resolve(self, path: str, *, follow: bool = True) -> str:
        """Where a path really lies. As `npu_operator.node.rooted`, with the same limits and the same errors."""
        if not path.startswith("/"):
            raise ValueError(f"not an absolute path: {path!r}")
        base, at, todo, links = "", list[str](), _parts(path), 0
        while todo:
            part = todo.pop(0)
            if part == "..":
                del at[-1:]
                continue
            here = "/".join([base, *at, part])
            entry = self._entries.get(here)
            if entry is not None and entry.kind not in ("dir", "link") and todo:
                raise _error(errno.ENOTDIR, path)
            if entry is None or entry.kind != "link" or not (todo or follow):
                at.append(part)
                if _PROCESS_ROOT.fullmatch(here):
                    base, at = here, []
                continue
            links += 1
            if links > MOST_LINKS:
                raise _error(errno.ELOOP, path)
            if entry.target.startswith("/"):
                at = []
            todo = [*_parts(entry.target), *todo]
        return "/".join([base, *at]) or "/"

    def _below(self, real: str) -> Iterator[str]:
        start = "/" if real == "/" else f"{real}/"
        return iter([known for known in self._entries if known.startswith(start) and known != real])

    def _place(self, path: str, entry: Entry) -> None:
        real = self.resolve(path, follow=False)
        parent = _parent(real)
        while parent not in self._entries:
            self._entries[parent] = self._numbered(Entry("dir", 0o755))
            parent = _parent(parent)
        self._entries[real] = self._numbered(entry)

    def _replace(self, real: str, path: str, entry: Entry) -> None:
        there = self._entries.get(real)
        if there is not None and there.kind == "dir":
            raise _error(errno.EISDIR, path)
        self._entries[real] = self._numbered(entry)

    def _writable(self, path: str, *, needs_space: bool = False) -> str:
        """Where a path lies, when its directory takes changes."""
        real = self.resolve(path, follow=False)
        parent = self._entries.get(_parent(real))
        if parent is None:
            raise _error(errno.ENOENT, path)
        if parent.kind != "dir":
            raise _error(errno.ENOTDIR, path)
        self._refuse_read_only(real, path)
        if needs_space and _mount_of(real, self.full | self.writable) in self.full:
            raise _error(errno.ENOSPC, path)
        return real

    def _refuse_read_only(self, real: str, path: str) -> None:
        """The innermost mount decides: a writable /var may lie below a read-only root."""
        if _mount_of(real, self.read_only | self.writable) in self.read_only:
            raise _error(errno.EROFS, path)

    def _numbered(self, entry: Entry) -> Entry:
        number = next(self._numbers)
        entry.inode, entry.mtime_ns = number, number * 1_000_000
        return entry


def described(name: str, entry: Entry) -> DirEntry:
    """An entry as `lstat` tells of it."""
    size = len(entry.data) if entry.kind == "file" else len(entry.target)
    return DirEntry(
        name=name,
        kind=entry.kind,
        size=size,
        mode=stat.S_IMODE(entry.mode),
        uid=entry.uid,
        gid=entry.gid,
        device=entry.device,
        mtime_ns=entry.mtime_ns,
        inode=entry.inode,
    )


def _mount_of(real: str, mounts: set[str]) -> str | None:
    inside = [mount for mount in mounts if real == mount or real.startswith(mount.rstrip("/") + "/")]
    return max(inside, key=len, default=None)


def _parent(real: str) -> str:
    return real.rpartition("/")[0] or "/"


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
