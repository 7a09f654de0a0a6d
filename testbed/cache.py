"""The folder in which built and fetched programs are kept, so that only the first run pays for them.

It lies outside the tree: `$NPU_TESTBED_CACHE`, or else `npu-operator-testbed` in the user's cache folder. Each entry is
a folder `<name>-<key>`; the key says all that the content depends on, so an entry never changes once it is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

KEY_LENGTH = 16  # hexadecimal digits: 64 bits, plenty for a handful of entries


def folder() -> Path:
    """The cache folder; made if it is missing."""
    named = os.environ.get("NPU_TESTBED_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(named).absolute() if named else base / "npu-operator-testbed"
    path.mkdir(parents=True, exist_ok=True)
    return path


def key_of(parts: Iterable[bytes]) -> str:
    """A short key for everything an entry depends on; the order of the parts matters, their borders too."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:KEY_LENGTH]


def entry(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The entry's folder, filled by `make` in a folder of its own and renamed when it is complete.

    Two processes that want the same entry do not both make it: the second waits for the first. What a killed process
    left half made is removed by the next one.
    """
    done = folder() / f"{name}-{key}"
    if done.is_dir():
        return done
    with (folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.is_dir():
            return done
        for left_over in folder().glob(f".{name}-*.part"):
            shutil.rmtree(left_over)
        part = Path(tempfile.mkdtemp(prefix=f".{name}-", suffix=".part", dir=folder()))
        try:
            make(part)
            part.chmod(0o755)
            part.rename(done)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return done
