"""Outlives the process that started it just long enough to clean up behind it.

Run as a program of its own: `python keeper.py FOLDER`. It leads a process group that all programs of a control plane
join at birth, and reads from a pipe that only its starter holds. When the pipe ends, because the starter is done or
because it was killed, everything left in the group is killed and the folder removed. Nothing in there is worth a
graceful end by then.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path


def members(group: int) -> Iterator[int]:
    """The processes in the group that still run; zombies have nothing left to end."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:  # it ended between the listing and the reading
            continue
        state, _parent, its_group = stat.rpartition(")")[2].split()[:3]  # the name before may contain anything
        if int(its_group) == group and state != "Z":
            yield int(folder.name)


def end(group: int) -> None:
    """Kill everybody in the group but this process, until nobody is left."""
    while others := [pid for pid in members(group) if pid != os.getpid()]:
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def main() -> None:
    """Wait for the pipe to end, then clean up."""
    # A group with a stopped member whose starter died gets SIGHUP from the kernel: no reason to leave.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end(os.getpgrp())
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
