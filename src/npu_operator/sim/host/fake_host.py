"""`FakeHost`: a host in memory that passes the tests of the real one.

Programs are functions that stand for executable files: a program runs only where its file is, and is found by `PATH` as
on a host. What hangs, hangs for the whole time-out; what is stuck in the kernel stays in `stuck` until it is let go.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from npu_operator.node.host import DirEntry, Ran, Stuck
from npu_operator.node.real_host import SEARCH_PATH
from npu_operator.sim.host.files import Files, described


class Call(msgspec.Struct, frozen=True):
    """One run of a program."""

    command: tuple[str, ...]
    """With the name it was called by."""
    env: Mapping[str, str]
    stdin: bytes
    in_host: bool

    @property
    def args(self) -> tuple[str, ...]:
        """What follows the name."""
        return self.command[1:]


class Hang(Exception):
    """Raised by a program that does not end. With `in_kernel`, not even when it is killed."""

    def __init__(self, *, in_kernel: bool = False) -> None:
        super().__init__("does not end")
        self.in_kernel = in_kernel


Program = Callable[[Call], Awaitable[Ran] | Ran]


class FakeHost:
    """A `Host`. `files` and `programs` are for whoever sets the scene; `now` is CLOCK_BOOTTIME."""

    def __init__(self, *, boot_id: str, now: Callable[[], float]) -> None:
        self.files = Files()
        self.programs: dict[str, Program] = {}
        """By the real path of the executable file."""
        self.calls: list[Call] = []
        """All runs so far, for tests that ask how often something was run."""
        self.log: list[str] = []
        """Lines of the kernel log of this boot."""
        self._boot_id = boot_id
        self._now = now
        self._booted_s = 0.0
        self._stuck: dict[int, Stuck] = {}
        self._pids = itertools.count(40_000)

    def install(self, path: str, program: Program, *, content: bytes = b"\x7fELF") -> None:
        """Put an executable file there."""
        self.files.put(path, content, mode=0o755)
        self.programs[self.files.resolve(path)] = program

    def reboot(self, boot_id: str, *, volatile: Sequence[str] = ("/run", "/dev", "/proc", "/sys")) -> None:
        """A new boot: what is in memory is gone, processes too."""
        self._boot_id = boot_id
        self._booted_s = self._now()
        self._stuck.clear()
        self.log.clear()
        for path in volatile:
            self.files.take_away(path)
            self.files.put_dir(path)

    def let_go(self) -> None:
        """The kernel lets go of everything that is stuck in it."""
        self._stuck.clear()

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes:
        """A file's content."""
        entry = self.files.get(path)
        if entry.kind == "dir":
            raise IsADirectoryError(21, "Is a directory", path)
        return entry.data[:limit]

    def read_link(self, path: str) -> str:
        """Where a link points."""
        entry = self.files.get(path, follow=False)
        if entry.kind != "link":
            raise OSError(22, "Invalid argument", path)
        return entry.target

    def list(self, path: str) -> Sequence[DirEntry]:
        """The entries of a directory."""
        return self.files.list(path)

    def stat(self, path: str, *, follow: bool = True) -> DirEntry | None:
        """What is at a path."""
        try:
            entry = self.files.get(path, follow=follow)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return described(path.rstrip("/").rpartition("/")[2], entry)

    def write_atomically(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Replace what is there."""
        self.files.write(path, data, mode=mode)

    def link_atomically(self, path: str, target: str) -> None:
        """Make or replace a link."""
        self.files.link(path, target)

    def rename(self, old: str, new: str) -> None:
        """Rename."""
        self.files.rename(old, new)

    def make_dirs(self, path: str, *, mode: int = 0o755) -> None:
        """Make a directory and its parents."""
        self.files.make_dirs(path, mode=mode)

    def remove(self, path: str) -> None:
        """Remove what is there."""
        self.files.remove(path)

    def set_owner(self, path: str, *, uid: int, gid: int, mode: int) -> None:
        """chown and chmod."""
        self.files.set_owner(path, uid=uid, gid=gid, mode=mode)

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] = {},
        stdin: bytes = b"",
        in_host: bool = True,
    ) -> Ran:
        """Run what stands for the program's file."""
        call = Call(tuple(command), {"PATH": SEARCH_PATH, "LC_ALL": "C", **env}, stdin, in_host)
        program = self._program(call)
        self.calls.append(call)
        pid, since_s = next(self._pids), self.boot_seconds()
        try:
            async with asyncio.timeout(timeout_s):
                found = program(call)
                return found if isinstance(found, Ran) else await found
        except TimeoutError:
            return Ran(-9, "", "", timed_out=True)
        except Hang as hang:
            await asyncio.sleep(timeout_s)
            if hang.in_kernel:
                self._stuck[pid] = Stuck(pid, " ".join(command), since_s)
            return Ran(-9, "", "", timed_out=True)

    def stuck(self) -> Sequence[Stuck]:
        """What is stuck in the kernel."""
        return tuple(self._stuck.values())

    async def read_as(
        self, pid: int, paths: Sequence[str], *, timeout_s: float, limit: int = 1 << 16
    ) -> Mapping[str, bytes]:
        """Files below `/proc/<pid>/root`."""
        found = {}
        for path in paths:
            try:
                entry = self.files.get(f"/proc/{pid}/root{path}")
            except OSError:
                continue
            if entry.kind == "file":
                found[path] = entry.data[:limit]
        return found

    def boot_id(self) -> str:
        """Of the present boot."""
        return self._boot_id

    def boot_seconds(self) -> float:
        """Since the last boot."""
        return self._now() - self._booted_s

    def kernel_log(self, *, limit: int = 1 << 20) -> str:
        """The newest lines."""
        text = "\n".join(self.log)
        return text[-limit:]

    def _program(self, call: Call) -> Program:
        name = call.command[0]
        places = [name] if "/" in name else [f"{place}/{name}" for place in call.env["PATH"].split(":")]
        refused: OSError = FileNotFoundError(2, "No such file or directory", name)
        for place in places:
            try:
                entry = self.files.get(place)
            except OSError:
                continue
            if entry.kind != "file" or not entry.mode & 0o111:
                refused = PermissionError(13, "Permission denied", name)
                continue
            program = self.programs.get(self.files.resolve(place))
            assert program is not None, f"{place} is an executable file of the scene without a program behind it"
            return program
        raise refused
