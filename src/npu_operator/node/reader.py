"""Reading the state file: what device plugin, exporter and validator know of their node.

A file that is missing, half-written, too new or of another boot never replaces a good one: the last good state is kept
beside the sentence that says what is wrong now. So a roll-out of the node agent makes no chip sick, and whoever may not
show old things looks at the age. Looking costs one `stat` as long as the file is the same.
"""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from npu_operator.model import names
from npu_operator.node import state
from npu_operator.node.state import NodeState

BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
"""The same inside and outside of containers."""
BOOT_ID_FILE_VARIABLE: Final = "NPU_BOOT_ID_FILE"
"""Names another file with the boot id, for nodes whose boots are only played."""
STALE_S: Final = 180.0
"""Two probes of a minute and the time of one: older than this, the node agent is silent."""
MAX_BYTES: Final = 16 << 20  # 128 chips with all their readings and users are below 1 MiB

Signature = tuple[int, ...]


class Unusable(Exception):
    """The state file cannot be used; the text says why. Whoever reads keeps what it knew before."""


class Seen(msgspec.Struct, frozen=True):
    """One look at the state file."""

    state: NodeState | None = None
    """The last good state of this boot; None when there was none yet."""
    problem: str = ""
    """Why the file as it is now cannot be used; empty when it can."""
    age_s: float | None = None
    """Seconds since the last probe that `state` tells of; None without a state."""

    @property
    def is_stale(self) -> bool:
        """Whether the node agent has been silent for long."""
        return self.age_s is not None and self.age_s > STALE_S


def boot_seconds() -> float:
    """CLOCK_BOOTTIME, as the stamps in the file."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def interpret(data: bytes, boot_id: str) -> NodeState:
    """The state in a file's content. Raises `Unusable` for garbage, for a newer schema and for another boot."""
    try:
        found = state.decode(data)
    except msgspec.DecodeError as error:
        raise Unusable(f"it is damaged or half-written ({error})") from error
    if found.schema > state.SCHEMA:
        raise Unusable(
            f"its schema {found.schema} is newer than {state.SCHEMA}, the newest that this version reads; "
            "the node agent is newer than this agent"
        )
    if found.boot_id != boot_id:
        raise Unusable(f"it is of boot {found.boot_id or '(none)'}, the node runs boot {boot_id}")
    return found


class StateReader:
    """Looks at the state file as often as it is asked."""

    def __init__(
        self,
        path: Path = Path(names.STATE_FILE),
        *,
        boot_id_file: Path = BOOT_ID_FILE,
        now: Callable[[], float] = boot_seconds,
    ) -> None:
        self._path = path
        self._boot_id_file = boot_id_file
        self._now = now
        self._signature: Signature | None = None
        self._state: NodeState | None = None
        self._problem = ""

    def look(self) -> Seen:
        """The state as of now. Never raises: what goes wrong is told in `problem`."""
        try:
            self._refresh()
        except (OSError, Unusable) as error:
            self._problem = f"{self._path} cannot be used: {_words(error)}"
        age_s = None if self._state is None else max(0.0, self._now() - self._state.written_at_s)
        return Seen(self._state, self._problem, age_s)

    def _refresh(self) -> None:
        with open(self._path, "rb", opener=_without_waiting) as file:
            about = os.fstat(file.fileno())
            signature = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
            if signature == self._signature:
                self._problem = ""  # it may have been out of reach for a while
                return
            if not stat.S_ISREG(about.st_mode):
                raise Unusable("it is not a regular file")
            if about.st_size > MAX_BYTES:
                raise Unusable(f"it has {about.st_size} bytes, more than {MAX_BYTES}")
            data = file.read(MAX_BYTES)
        self._state = interpret(data, self._boot_id_file.read_text().strip())
        self._signature, self._problem = signature, ""


def _without_waiting(path: str, flags: int) -> int:
    """Opens also what somebody may have put there by mistake, a fifo say, without hanging on it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"there is no {error.filename}; is the node agent running?"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
