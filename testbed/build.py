"""Builds and fetches what the testbed runs. `python -m testbed.build` does it ahead of the tests, which else would.

| part | what | from |
|---|---|---|
| control-plane, kubelet | one program with a sub-command for each (`main.go`) | Go modules; 4 minutes when cold |
| containerd | a folder with containerd, its shim and ctr (`containerd/`) | Go modules; 1 minute when cold |
| kubectl, helm | static programs | the machine, or a Python package |

Everything is kept in the cache folder (`testbed.cache`), keyed by the sources, the settings and the Go version.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from testbed import Unavailable, cache, kubectl, pypi, toolchain

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 3600  # a cold build takes 4 minutes on two idle cores
CONTAINERD = "v2.2.9"  # as in containerd/go.mod
KUBERNETES = "v1.34.4"  # as in go.mod; the programs say it as their own version, on which kubectl and kubelets rely

# What `go list` says when our own go.mod or go.sum is wrong; all other complaints are about fetching.
_OUR_FAULT = re.compile(r"missing go\.sum entry|updates to go\.mod needed|checksum mismatch|errors parsing|main module")


class BuildFailed(Exception):
    """The sources are there but do not build: a mistake in this folder, not a shortage of the machine."""


def kubernetes() -> Path:
    """The program whose sub-commands are etcd, the control plane's parts and the kubelet.

    Builds it if the cache has none for these sources. Raises `Unavailable` if Go or the modules cannot be had, and
    `BuildFailed` if the sources do not build.
    """
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    version = "k8s.io/component-base/version"
    return build_module(
        "kubernetes",
        HERE,
        {".": "testbed"},
        {f"{version}.gitVersion": KUBERNETES, f"{version}.gitMajor": major, f"{version}.gitMinor": minor},
    ) / "testbed"  # fmt: skip


def containerd() -> Path:
    """The folder with containerd, containerd-shim-runc-v2 and ctr; raises like `kubernetes`. runc is not among them."""
    commands = "github.com/containerd/containerd/v2/cmd"
    programs = {f"{commands}/{name}": name for name in ("containerd", "containerd-shim-runc-v2", "ctr")}
    version = "github.com/containerd/containerd/v2/version.Version"
    return build_module("containerd", HERE / "containerd", programs, {version: CONTAINERD})


def build_module(name: str, folder: Path, programs: dict[str, str], stamps: dict[str, str]) -> Path:
    """Build Go packages of the module in `folder` into a cache entry and return the entry's folder.

    `programs` maps a package's path to the file name of its program, `stamps` the variables set by the linker.
    """
    sources = sorted(path for path in folder.iterdir() if path.name in ("go.mod", "go.sum") or path.suffix == ".go")
    needed = re.search(r"^go (\S+)$", (folder / "go.mod").read_text(), re.MULTILINE)
    assert needed, f"{folder / 'go.mod'} names no Go version"
    go = toolchain.go(needed[1])
    link = " ".join(["-s", "-w", *(f"-X {variable}={value}" for variable, value in stamps.items())])

    def make(into: Path) -> None:
        listed = _run(go, ["list", "-deps", *programs], folder)
        if listed.returncode != 0:
            fault = BuildFailed if _OUR_FAULT.search(listed.stderr) else Unavailable
            raise fault(f"the Go modules of {name} cannot be had: {pypi.last_line(listed.stderr)}")
        for package, program in programs.items():
            built = _run(go, ["build", "-ldflags", link, "-o", str(into / program), package], folder)
            if built.returncode != 0:
                raise BuildFailed(f"{name} does not build with {go.version}:\n{built.stderr[-3000:]}")

    contents = [part for path in sources for part in (path.name.encode(), path.read_bytes())]
    key = cache.key_of([go.version.encode(), link.encode(), repr(programs).encode(), *contents])
    return cache.entry(name, key, make)


def _run(go: toolchain.Go, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Go at low priority: a build takes minutes and is rarely what the machine's user waits for most."""
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    return subprocess.run(
        [*nice, go.program, *arguments],
        cwd=folder, env=toolchain.environment(), capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False,
    )  # fmt: skip


PARTS: dict[str, Callable[[], Path]] = {
    "control-plane": kubernetes,
    "kubelet": kubernetes,
    "containerd": containerd,
    "kubectl": kubectl.kubectl,
    "helm": kubectl.helm,
}
USUAL_PARTS = ("control-plane", "kubectl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the parts named on the command line and print where each is; 1 if one cannot be had, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="python -m testbed.build", description="Build what the cluster tests run.")
    parser.add_argument(
        "--parts",
        default=",".join(USUAL_PARTS),
        help=f"comma-separated, of: {', '.join(PARTS)} (default: %(default)s)",
    )
    parts = parser.parse_args(arguments).parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part named {', '.join(unknown)}; there are {', '.join(PARTS)}")
    status = 0
    for part in parts:
        started = time.monotonic()
        try:
            path = PARTS[part]()
            sys.stdout.write(f"{part}: {path} ({time.monotonic() - started:.1f} s)\n")
        except (Unavailable, BuildFailed) as why:
            sys.stderr.write(f"error: {part}: {why}\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
