"""The only door to the host: files below a root, processes, boot id, clocks, the kernel log.

Agents get a `Host` and never touch the host otherwise. `RealHost` enters the host's mount namespace for every vendor
tool and device (a chip is bound to the mount namespace of its first opener); `FakeHost` in the simulator keeps a host
in memory. Both pass one suite of tests.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class Ran(msgspec.Struct, frozen=True):
    """How a process ended. Vendor tools print their errors on standard output."""

    code: int
    """Exit status; negative: ended by that signal."""
    out: str
    err: str
    timed_out: bool = False
    """It did not end within the limit; it may still be there, stuck in the kernel, and is then abandoned."""


class Stuck(msgspec.Struct, frozen=True):
    """A process that was killed at its limit and does not die, because it waits inside the kernel."""

    pid: int
    command: str
    since_s: float
    """CLOCK_BOOTTIME seconds of its start."""


class DirEntry(msgspec.Struct, frozen=True):
    """One name in a directory, as `lstat` sees it."""

    name: str
    kind: str
    """file, dir, link, char, block, fifo or socket."""
    size: int = 0
    mode: int = 0
    uid: int = 0
    gid: int = 0
    device: tuple[int, int] | None = None
    """Major and minor of a device node."""
    mtime_ns: int = 0
    """When the content was changed last, by the calendar; good only for telling that it changed."""
    inode: int = 0


class Host(Protocol):
    """All paths are absolute paths on the host, whatever the root. Failures are OSError with the path in it."""

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes:
        """A file's content, at most `limit` bytes of it."""
        ...

    def read_link(self, path: str) -> str:
        """Where a symbolic link points, as written."""
        ...

    def list(self, path: str) -> Sequence[DirEntry]:
        """The entries of a directory, by name."""
        ...

    def stat(self, path: str, *, follow: bool = True) -> DirEntry | None:
        """What is at a path; None when nothing is."""
        ...

    def write_atomically(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Beside, fsync, rename, fsync of the directory: readers see old or new content, also after a power cut."""
        ...

    def link_atomically(self, path: str, target: str) -> None:
        """Make `path` a link to `target` in one step, replacing a link that is there; never a directory."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename within a file system, and fsync the directories."""
        ...

    def make_dirs(self, path: str, *, mode: int = 0o755) -> None:
        """Make a directory and its parents; one that is there keeps its mode."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with its content; nothing there is no error. Never follows links."""
        ...

    def set_owner(self, path: str, *, uid: int, gid: int, mode: int) -> None:
        """chown and chmod of what a path leads to."""
        ...

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] = {},
        stdin: bytes = b"",
        in_host: bool = True,
    ) -> Ran:
        """Run with `LC_ALL=C`; `in_host` enters the host's namespaces. No such program: FileNotFoundError.

        A program that cannot be run (a directory, say): PermissionError. At the limit it is killed with all that it
        started; what does not die is listed by `stuck`.
        """
        ...

    def stuck(self) -> Sequence[Stuck]:
        """The processes of earlier `run`s that were given up and still live."""
        ...

    async def read_as(
        self, pid: int, paths: Sequence[str], *, timeout_s: float, limit: int = 1 << 16
    ) -> Mapping[str, bytes]:
        """Regular files as the process `pid` sees them, from its own root; what cannot be read is left out.

        A container's file system may hang, and its links may lead anywhere: so it is read by a process of its own that
        is given up at the limit (then nothing comes back), and no link leaves the process's root.
        """
        ...

    def boot_id(self) -> str:
        """`/proc/sys/kernel/random/boot_id`, or what stands for it where a boot is played."""
        ...

    def boot_seconds(self) -> float:
        """CLOCK_BOOTTIME."""
        ...

    def kernel_log(self, *, limit: int = 1 << 20) -> str:
        """The newest part of the kernel's messages of this boot; empty where it cannot be read."""
        ...
