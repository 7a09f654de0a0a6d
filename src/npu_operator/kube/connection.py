"""Where the API server is and how to get in: kubeconfig files or the pod's service account, as a ready connection.

The order is kubectl's: a file that was named, `KUBECONFIG` (a list is merged, the first to say something wins),
`~/.kube/config`, then the service account of the pod. Proxies are used only when the kubeconfig names one: an
`HTTPS_PROXY` in the environment, meant for image pulls, must not catch the way to the API server.
"""

import os
import socket
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from npu_operator.kube.api import Clock
from npu_operator.kube.auth import PluginError, auth_of

DEFAULT_FILE = Path("~/.kube/config")
LIMITS = httpx2.Limits(
    max_connections=128,  # requests are bounded by the client; each watch holds one more
    max_keepalive_connections=32,
    keepalive_expiry=30.0,  # the API server closes idle connections after 90 s, load balancers mostly after 50
)
# A dead peer is noticed after about a minute even when nothing is sent: 30 s of silence, then three probes.
SOCKET_OPTIONS: tuple[tuple[int, int, int], ...] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (
            ("TCP_KEEPIDLE", 30),
            ("TCP_KEEPINTVL", 10),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 60_000),  # milliseconds; data that is not acknowledged
        )
        if hasattr(socket, name)  # absent outside Linux, where only the command line tool runs
    ),
)


class BadConfig(Exception):
    """There is no usable way to a cluster. Raised by `connect`; whoever started us has to mend it."""


class Connection(msgspec.Struct, frozen=True):
    """A way to one API server. Opening it again reads tokens, certificates and files anew."""

    url: str
    transport: httpx2.AsyncBaseTransport
    auth: httpx2.Auth | None
    namespace: str
    """The namespace of the context, or of the pod."""
    credentials: str
    """What we show to the server, in words, for messages."""
    tls_name: str | None = None
    """The name that the server's certificate must have, when it differs from the address."""


def open_connection(kubeconfig: Path | None, context: str | None, *, clock: Clock) -> Connection:
    """Find the configuration and make a connection of it; nothing is sent yet. Raises BadConfig."""
    paths = _files(kubeconfig)
    if not paths:
        return _from_pod(context, clock)
    merged = _merged(paths)
    source = f"kubeconfig {':'.join(map(str, paths))}"
    config = _choose(merged, context, source, paths[0])
    extras = {entry["name"]: entry["cluster"] for entry in merged["clusters"]}[config.context.cluster]
    return _connection(config, source, clock, proxy=extras.get("proxy-url"), tls_name=extras.get("tls-server-name"))


def _files(kubeconfig: Path | None) -> tuple[Path, ...]:
    if kubeconfig is not None:
        return (kubeconfig.expanduser(),)
    listed = [Path(part).expanduser() for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        found = tuple(path for path in listed if path.exists())  # kubectl skips missing ones as well
        if not found:
            raise BadConfig(f"KUBECONFIG names {os.environ['KUBECONFIG']}, but there is no such file")
        return found
    default = DEFAULT_FILE.expanduser()
    return (default,) if default.exists() else ()


def _from_pod(context: str | None, clock: Clock) -> Connection:
    if context is not None:
        raise BadConfig(f"context {context} was asked for, but there is no kubeconfig file")
    try:
        config = KubeConfig.from_service_account().get()
    except (ConfigError, KeyError) as error:
        raise BadConfig(
            "no way to a cluster: no kubeconfig was named, KUBECONFIG is not set, "
            f"{DEFAULT_FILE} does not exist, and this is not a pod with a service account"
        ) from error
    assert config is not None, "a service account is always one context"
    return _connection(config, f"the token in {SERVICE_ACCOUNT}", clock)


def _merged(paths: tuple[Path, ...]) -> dict[str, Any]:
    """One configuration of all files; the first that names something wins. Paths in it become absolute."""
    merged: dict[str, Any] = {"current-context": None, "clusters": [], "users": [], "contexts": []}
    for path in paths:
        content = _read(path)
        merged["current-context"] = merged["current-context"] or content.get("current-context")
        for section in ("clusters", "users", "contexts"):
            known = {entry["name"] for entry in merged[section]}
            merged[section] += [
                _absolute(entry, path.parent) for entry in content.get(section) or () if entry["name"] not in known
            ]
    return merged


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadConfig(f"kubeconfig {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadConfig(f"kubeconfig {path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise BadConfig(f"kubeconfig {path} holds no configuration")
    for section, inner in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        for entry in content.get(section) or ():
            if not isinstance(entry, dict) or "name" not in entry or not isinstance(entry.get(inner), dict):
                raise BadConfig(f"kubeconfig {path}: an entry of {section} has no name or no {inner}")
    return content


def _absolute(entry: dict[str, Any], directory: Path) -> dict[str, Any]:
    """`entry` with its file names made independent of where we run."""

    def fixed(key: str, value: Any) -> Any:
        if key == "exec" and isinstance(value, dict) and os.sep in str(value.get("command", "")):
            return {**value, "command": str(directory / value["command"])}  # a bare name is looked up in PATH
        is_file = key in {"certificate-authority", "client-certificate", "client-key", "tokenFile"}
        return str(directory / value) if is_file and value else value

    return {
        part: {key: fixed(key, value) for key, value in content.items()} if isinstance(content, dict) else content
        for part, content in entry.items()
    }


def _choose(merged: dict[str, Any], context: str | None, source: str, path: Path) -> SingleConfig:
    name = context or merged["current-context"]
    names = sorted(entry["name"] for entry in merged["contexts"])
    if name not in names:
        said = f"has no context {name}" if name else "has no current context"
        raise BadConfig(f"{source} {said}; there are: {', '.join(names) or 'none'}")
    try:
        config = KubeConfig.from_dict(merged, fname=path).get(name)
    except KeyError as error:
        raise BadConfig(f"{source}: context {name} names {error}, which is not there") from error
    except msgspec.ValidationError as error:
        raise BadConfig(f"{source}: {error}") from error
    assert config is not None, "a context with a name gives a configuration"
    return config


def _connection(
    config: SingleConfig, source: str, clock: Clock, *, proxy: str | None = None, tls_name: str | None = None
) -> Connection:
    try:
        transport = httpx2.AsyncHTTPTransport(
            verify=verify_cluster(config.cluster, config.user or User(), config.abs_file, trust_env=False),
            trust_env=False,
            limits=LIMITS,
            proxy=proxy,
            socket_options=SOCKET_OPTIONS,
        )
        auth = auth_of(config.user, clock=clock)
    except (OSError, ValueError, ConfigError, PluginError) as error:  # ssl.SSLError is an OSError
        raise BadConfig(f"{source}: {error}") from error
    return Connection(
        url=config.cluster.server,
        transport=transport,
        auth=auth,
        namespace=config.namespace,
        credentials=source,
        tls_name=tls_name,
    )
