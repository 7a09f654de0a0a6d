"""What one operator process is told at its start. What the cluster should look like is told by `NPUOperatorCtl`."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

import npu_operator
from npu_operator.components import images
from npu_operator.kube.lease import CLIENT_GO, Timings, identity_of
from npu_operator.model import names

DEFAULT_IMAGE = f"{images.OPERATOR_REPOSITORY}:{npu_operator.__version__}"
SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of `npu-operator run`. Seconds unless the name says otherwise."""

    identity: str
    """This replica, as the lease shows it; unique in the cluster."""
    namespace: str = names.NAMESPACE
    """Where the operator, its objects and the `NPUOperatorCtl` live."""
    image: str = DEFAULT_IMAGE
    """Image of the agents that the operator deploys: its own."""
    version: str = npu_operator.__version__
    kubeconfig: Path | None = None
    """None: the cluster the process runs in, else `KUBECONFIG` or the usual file."""
    context: str | None = None
    listen_host: str = "0.0.0.0"  # noqa: S104  # kubelet and Prometheus come from other addresses
    listen_port: int = 8080
    lease: Timings = CLIENT_GO
    writers: int = 16
    """Writes under way at once; API priority and fairness gives one client about that many seats."""


def from_environment(env: Mapping[str, str] = os.environ) -> Settings:
    """Settings as the pod's environment gives them; flags are laid over them by the command line."""
    namespace = env.get("NPU_OPERATOR_NAMESPACE") or env.get("POD_NAMESPACE")
    if not namespace and SERVICE_ACCOUNT_NAMESPACE.is_file():
        namespace = SERVICE_ACCOUNT_NAMESPACE.read_text().strip()
    return Settings(
        namespace=namespace or names.NAMESPACE,
        identity=identity_of(env.get("POD_NAME") or socket.gethostname()),
        image=env.get("NPU_OPERATOR_IMAGE") or DEFAULT_IMAGE,
    )
