"""The host as an agent's pod sees it: files below a root, tools inside the host's mount namespace.

The root is `/host` in a pod and `/` for a program on the host itself. Tools run by `nsenter` (util-linux, in our image)
in the mount namespace of process 1, because a chip is bound to the namespace of its first opener and the vendor's tools
find their libraries only there; the pid namespace is the host's already (`hostPID`). No fork hooks are used, so a
process with grpc may do this. A process that does not die of SIGKILL waits inside the kernel: it is given up and listed
by `stuck`, since waiting for it would hang the agent as well.
"""

import asyncio
import base64
import contextlib
import errno
import json
import os
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from npu_operator.node import kmsg, rooted
from npu_operator.node.host import DirEntry, Ran, Stuck

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
ENTER_HOST: Final = ("nsenter", "--target", "1", "--mount", "--root", "--wd", "--")
SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOST_OUTPUT: Final = 8 << 20  # bytes of one stream; the widest table of 16 dies is 8 KiB
DYING_S: Final = 2.0  # from SIGKILL to the end of a process that is not stuck; exits of big ones take tenths
DRAIN_S: Final = 1.0  # for what is left in the pipes, which a grandchild may hold open
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what nsenter exits with, as shells do
READ_CHILD: Final = (sys.executable, "-m", "npu_operator.node.reading")

_KINDS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "dir"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
)


class RealHost:
    """A `Host`. `enter` is the command before a tool that is to run on the host; empty: we are on it already.

    `boot_id_file` stands for the kernel's where boots are only played.
    """

    def __init__(
        self, root: Path = Path("/"), *, enter: Sequence[str] = ENTER_HOST, boot_id_file: Path | None = None
    ) -> None:
        self._root = root
        self._enter = tuple(enter)
        self._boot_id_file = boot_id_file or root / BOOT_ID.lstrip("/")
        self._given_up: dict[asyncio.subprocess.Process, Stuck] = {}

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes:
        """A file's content."""
        descriptor = os.open(rooted.resolve(self._root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as file, _naming(path):  # noqa: PTH123  # by its descriptor
            parts = []
            while limit > 0 and (part := file.read(limit)):
                parts.append(part)
                limit -= len(part)
            return b"".join(parts)

    def read_link(self, path: str) -> str:
        """Where a link points."""
        return os.readlink(rooted.resolve(self._root, path, follow=False))  # noqa: PTH115  # text, not a path

    def list(self, path: str) -> Sequence[DirEntry]:
        """The entries of a directory; one that vanishes meanwhile is left out."""
        found = []
        with os.scandir(rooted.resolve(self._root, path)) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    found.append(_entry(entry.name, entry.stat(follow_symlinks=False)))
        return sorted(found, key=lambda entry: entry.name)

    def stat(self, path: str, *, follow: bool = True) -> DirEntry | None:
        """What is at a path."""
        try:
            about = os.lstat(rooted.resolve(self._root, path, follow=follow))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _entry(path.rstrip("/").rpartition("/")[2], about)

    def write_atomically(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Replace what is at the path, a link too; nothing is left behind when that fails."""
        final = rooted.resolve(self._root, path, follow=False)
        descriptor, beside = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".tmp", dir=final.parent)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123  # by its descriptor
                file.write(data)
                file.flush()
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            Path(beside).rename(final)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(beside).unlink()
            raise
        _sync(final.parent)

    def link_atomically(self, path: str, target: str) -> None:
        """Make or replace a link."""
        final = rooted.resolve(self._root, path, follow=False)
        if final.is_dir() and not final.is_symlink():
            raise IsADirectoryError(errno.EISDIR, "a directory is in the way of a link", path)
        with tempfile.TemporaryDirectory(prefix=f".{final.name}.", dir=final.parent) as beside:
            made = Path(beside, "link")
            made.symlink_to(target)
            made.rename(final)
        _sync(final.parent)

    def rename(self, old: str, new: str) -> None:
        """Rename; links are not followed."""
        source = rooted.resolve(self._root, old, follow=False)
        target = rooted.resolve(self._root, new, follow=False)
        source.rename(target)
        _sync(source.parent)
        if target.parent != source.parent:
            _sync(target.parent)

    def make_dirs(self, path: str, *, mode: int = 0o755) -> None:
        """Make a directory and its parents. The mode is exact, whatever our umask is."""
        final = rooted.resolve(self._root, path)
        missing = []
        while not final.is_dir():
            missing.append(final)
            final = final.parent
        for one in reversed(missing):
            try:
                one.mkdir()
            except FileExistsError:
                if not one.is_dir():
                    raise
                continue
            one.chmod(mode)
            _sync(one.parent)

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with its content."""
        final = rooted.resolve(self._root, path, follow=False)
        with contextlib.suppress(FileNotFoundError):
            _remove(final)
            _sync(final.parent)

    def set_owner(self, path: str, *, uid: int, gid: int, mode: int) -> None:
        """chown, then chmod, since a change of owner may clear bits of the mode."""
        final = rooted.resolve(self._root, path)
        os.chown(final, uid, gid)
        final.chmod(mode)

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] = {},
        stdin: bytes = b"",
        in_host: bool = True,
    ) -> Ran:
        """Run in a session of its own, with a small environment: nothing of the pod's goes to the host's tools."""
        enter = self._enter if in_host else ()
        ran = await self._run(enter, command, timeout_s, {"PATH": SEARCH_PATH, "LC_ALL": "C", **env}, stdin)
        if enter and ran.code != 0 and not ran.out and ran.err.startswith(f"{enter[0]}: "):
            raise _not_entered(ran, command[0])
        return ran

    def stuck(self) -> Sequence[Stuck]:
        """Those that still live. One that dies is reaped by the event loop, which then knows its exit status."""
        self._given_up = {process: told for process, told in self._given_up.items() if process.returncode is None}
        return tuple(self._given_up.values())

    async def read_as(
        self, pid: int, paths: Sequence[str], *, timeout_s: float, limit: int = 1 << 16
    ) -> Mapping[str, bytes]:
        """By a child that knows only Python's own library, about 20 ms of a core."""
        request = {"root": str(self._root / f"proc/{pid}/root"), "paths": list(paths), "limit": limit}
        ran = await self._run((), READ_CHILD, timeout_s, dict(os.environ), json.dumps(request).encode())
        if ran.timed_out or ran.code != 0:
            return {}
        return {path: base64.b64decode(data) for path, data in json.loads(ran.out).items()}

    def boot_id(self) -> str:
        """The kernel's, or that of the file that stands for it."""
        return self._boot_id_file.read_text().strip()

    def boot_seconds(self) -> float:
        """CLOCK_BOOTTIME."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def kernel_log(self, *, limit: int = 1 << 20) -> str:
        """From /dev/kmsg, with the stamps that dmesg prints."""
        return kmsg.read(self._root / "dev/kmsg", limit)

    async def _run(
        self, enter: Sequence[str], command: Sequence[str], timeout_s: float, env: Mapping[str, str], stdin: bytes
    ) -> Ran:
        since_s = self.boot_seconds()
        process = await asyncio.create_subprocess_exec(
            *enter,
            *command,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            start_new_session=True,  # so that it can be ended with all that it started
        )
        assert process.stdout is not None, "its output is a pipe"
        assert process.stderr is not None, "its errors are a pipe"
        out, err = bytearray(), bytearray()
        work = [
            asyncio.ensure_future(step)
            for step in (_collect(process.stdout, out), _collect(process.stderr, err), _feed(process, stdin))
        ]
        ended = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait([ended], timeout=timeout_s)
            timed_out = process.returncode is None
            if timed_out:
                _kill(process)
                await asyncio.wait([ended], timeout=DYING_S)
                if process.returncode is None:
                    self._given_up[process] = Stuck(process.pid, " ".join(command), since_s)
            await asyncio.wait(work, timeout=DRAIN_S)
        finally:
            if process.returncode is None and process not in self._given_up:  # we are cancelled
                _kill(process)
                await asyncio.wait([ended, *work], timeout=DYING_S)
            for one in (*work, ended):
                one.cancel()
        code = process.returncode if process.returncode is not None else -signal.SIGKILL
        return Ran(code, out.decode(errors="replace"), err.decode(errors="replace"), timed_out)


def _entry(name: str, about: os.stat_result) -> DirEntry:
    kind = next((kind for is_kind, kind in _KINDS if is_kind(about.st_mode)), "file")
    is_device = kind in ("char", "block")
    return DirEntry(
        name=name,
        kind=kind,
        size=about.st_size,
        mode=stat.S_IMODE(about.st_mode),
        uid=about.st_uid,
        gid=about.st_gid,
        device=(os.major(about.st_rdev), os.minor(about.st_rdev)) if is_device else None,
        mtime_ns=about.st_mtime_ns,
        inode=about.st_ino,
    )


def _remove(path: Path) -> None:
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        path.unlink()
        return
    with os.scandir(path) as entries:
        for entry in entries:
            _remove(Path(entry.path))
    path.rmdir()


def _sync(directory: Path) -> None:
    """After a rename: the directory's own entry. File systems that cannot do that (some network ones) are let be."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Reading from a descriptor fails without a name; whoever reads the message needs it."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from error


async def _collect(stream: asyncio.StreamReader, into: bytearray) -> None:
    """All that comes; beyond the limit it is thrown away, so that the process does not block on a full pipe."""
    while part := await stream.read(1 << 16):
        into += part[: MOST_OUTPUT - len(into)]


async def _feed(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it did not want to read all
            process.stdin.write(stdin)
            await process.stdin.drain()
        process.stdin.close()


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _not_entered(ran: Ran, program: str) -> OSError:
    """What nsenter's own words mean: the program cannot be started, or the namespace cannot be entered."""
    words = ran.err.strip().partition(": ")[2]
    if "failed to execute" in words and ran.code == NOT_FOUND:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if "failed to execute" in words and ran.code == NOT_EXECUTABLE:
        return PermissionError(errno.EACCES, os.strerror(errno.EACCES), program)
    return PermissionError(errno.EPERM, f"cannot enter the host's mount namespace: {words}", program)
