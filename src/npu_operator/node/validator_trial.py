"""The validator's child: opens the chips, looks for the libraries, runs the tools, tells what it found, and ends.

A process of its own, because a chip belongs to the mount namespace that has it open, and because opening one may hang
for ever in the kernel: then the child is given up, and the validator lives on. Reads a `Wanted` from standard input,
prints a `Tried`.
"""

import errno
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from npu_operator.ascend import hccn
from npu_operator.ascend.install import read_version_info
from npu_operator.model import names
from npu_operator.node.state import PortAddress
from npu_operator.node.validator_verdict import (
    LIBRARIES,
    DeviceTried,
    Opened,
    PortTried,
    ToolTried,
    Tried,
    Wanted,
)

TOOL_S: Final = 60.0
"""A whole report of eight chips has been seen to take 5.4 s; the vendor names no limit."""
PORT_TOOL_S: Final = 10.0
MOST_OUTPUT: Final = 1 << 18  # sixteen dies with all their processes are below 32 KiB
HCCN_TOOL: Final = f"{names.CONTAINER_DRIVER}/tools/hccn_tool"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is told."""

    wanted: Wanted
    root: str = "/"
    """Where the container's files are."""
    tool_s: float = TOOL_S


def carry_out(task: Task) -> Tried:
    """Try everything; what goes wrong is told in the result."""
    root = Path(task.root)
    return Tried(
        devices=tuple(_open(path, root) for path in task.wanted.devices),
        libraries={name: found for name, places in LIBRARIES.items() if (found := _find(name, places, root))},
        tree_version=_tree_version(root),
        npu_smi=run([str(_below(root, names.CONTAINER_NPU_SMI)), "info"], timeout_s=task.tool_s),
        ports=tuple(_port(before, root, min(task.tool_s, PORT_TOOL_S)) for before in task.wanted.addresses),
    )


def run(command: Sequence[str], *, timeout_s: float) -> ToolTried:
    """Run a tool, at most so long and for so much output. One that cannot be killed is left behind."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        return ToolTried(error=error.strerror or str(error))
    assert process.stdout is not None, "its output is a pipe"
    with process.stdout as pipe:
        out, is_complete = _read(pipe.fileno(), timeout_s)
    if not is_complete:
        process.kill()
    try:
        code = process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        code = -1
    if not is_complete:
        return ToolTried(code=code, timed_out=True)  # half of an answer is none
    return ToolTried(out=out.decode("utf-8", "replace"), code=code)


def _read(descriptor: int, timeout_s: float) -> tuple[bytes, bool]:
    """What comes until the end, and whether that came in time."""
    out = b""
    deadline_s = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while len(out) < MOST_OUTPUT:
            if not selector.select(max(0.0, deadline_s - time.monotonic())):
                return out, False
            part = os.read(descriptor, 1 << 16)
            if not part:
                return out, True
            out += part
    return out, False


def _open(path: str, root: Path) -> DeviceTried:
    try:
        os.close(os.open(_below(root, path), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return DeviceTried(path, Opened.BUSY, error.strerror or "")
        return DeviceTried(path, Opened.FAILED, error.strerror or str(error))
    return DeviceTried(path, Opened.OPENED)


def _find(name: str, places: Sequence[str], root: Path) -> str:
    """Where a library lies; empty when nowhere. An empty file or a directory, as a failed mount leaves it, is none."""
    found = (f"{place}/{name}" for place in places)
    return next((path for path in found if _has_content(_below(root, path))), "")


def _has_content(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def _tree_version(root: Path) -> str:
    try:
        text = _below(root, f"{names.CONTAINER_DRIVER}/version.info").read_text(errors="replace")
    except OSError:
        return ""
    return read_version_info(text).version or ""


def _port(before: PortAddress, root: Path, timeout_s: float) -> PortTried:
    tool = str(_below(root, HCCN_TOOL))
    number = str(before.physical)
    address = run([tool, "-i", number, "-ip", "-g"], timeout_s=timeout_s)
    if address.error or address.timed_out:
        return PortTried(before.physical, error=address.error or "hccn_tool did not answer in time")
    link = run([tool, "-i", number, "-link", "-g"], timeout_s=timeout_s)
    return PortTried(before.physical, hccn.read(address.out).address, hccn.read(link.out).is_link_up)


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def main() -> int:
    """Carry out the task on standard input."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    sys.stdout.buffer.write(msgspec.json.encode(carry_out(task)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
