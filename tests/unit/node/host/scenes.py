"""One scene for both hosts: files and programs are put in place the same way, whatever the host is made of."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from npu_operator.node.host import Host, Ran
from npu_operator.node.real_host import RealHost
from npu_operator.sim.host.fake_host import Call, FakeHost, Hang

BOOT = "8d1f6e2a-7c3b-4f0e-9a54-1c2d3e4f5a6b"

SCRIPTS = {
    "greets": 'echo "hello $1"; echo careful >&2; exit 3',
    "tells-language": 'echo "$LC_ALL ${SECRET-none} ${CHIP-none}"',
    "repeats": "cat",
    "hangs": "sleep 60",
}


def _greets(call: Call) -> Ran:
    return Ran(3, f"hello {call.args[0]}\n", "careful\n")


def _tells_language(call: Call) -> Ran:
    env = call.env
    return Ran(0, f"{env['LC_ALL']} {env.get('SECRET', 'none')} {env.get('CHIP', 'none')}\n", "")


def _repeats(call: Call) -> Ran:
    return Ran(0, call.stdin.decode(), "")


def _hangs(call: Call) -> Ran:
    raise Hang


PROGRAMS: dict[str, Callable[[Call], Ran]] = {
    "greets": _greets,
    "tells-language": _tells_language,
    "repeats": _repeats,
    "hangs": _hangs,
}


class RealScene:
    """A host in a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        boot_id = root.with_name("boot_id")
        boot_id.write_text(f"{BOOT}\n")
        self.host: Host = RealHost(root, enter=(), boot_id_file=boot_id)

    def put(self, path: str, data: str = "", *, mode: int = 0o644) -> None:
        """A file."""
        self._at(path).write_text(data)
        self._at(path).chmod(mode)

    def put_dir(self, path: str) -> None:
        """A directory."""
        self._at(path).mkdir(exist_ok=True)

    def put_link(self, path: str, target: str) -> None:
        """A link."""
        self._at(path).symlink_to(target)

    def put_fifo(self, path: str) -> None:
        """A pipe that nobody writes to."""
        os.mkfifo(self._at(path))

    def program(self, name: str) -> str:
        """A program, by the path under which it runs."""
        self.put(f"/bin/{name}", f"#!/bin/sh\n{SCRIPTS.get(name, '')}\n", mode=0o755)
        return str(self._at(f"/bin/{name}"))

    def as_command(self, path: str) -> str:
        """How a path on the host is run."""
        return str(self._at(path))

    def _at(self, path: str) -> Path:
        found = self._root / path.lstrip("/")
        found.parent.mkdir(parents=True, exist_ok=True)
        return found


class FakeScene:
    """A host in memory."""

    def __init__(self) -> None:
        fake = FakeHost(boot_id=BOOT, now=lambda: asyncio.get_running_loop().time())
        self._files = fake.files
        self._fake = fake
        self.host: Host = fake

    def put(self, path: str, data: str = "", *, mode: int = 0o644) -> None:
        """A file."""
        self._files.put(path, data, mode=mode)

    def put_dir(self, path: str) -> None:
        """A directory."""
        self._files.put_dir(path)

    def put_link(self, path: str, target: str) -> None:
        """A link."""
        self._files.put_link(path, target)

    def put_fifo(self, path: str) -> None:
        """A pipe that nobody writes to."""
        self._files.put(path)
        self._files.get(path).kind = "fifo"

    def program(self, name: str) -> str:
        """A program, by the path under which it runs."""
        self._fake.install(f"/bin/{name}", PROGRAMS[name])
        return f"/bin/{name}"

    def as_command(self, path: str) -> str:
        """How a path on the host is run."""
        return path


Scene = RealScene | FakeScene
