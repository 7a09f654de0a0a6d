"""`npu-operator`: the operator, its agents and its tools, as one program. Each command imports only what it needs."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

import npu_operator

app = App(name="npu-operator", version=npu_operator.__version__, help=npu_operator.__doc__ or "")
parse = App(name="parse", help="Read saved outputs of vendor tools.")
app.command(parse)

Out = Annotated[Path | None, Parameter(help="Folder to write to; without it everything goes to standard output.")]


@app.command
def run(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
    image: str | None = None,
    listen: str = "0.0.0.0:8080",  # kubelet and Prometheus come from other addresses
    log: Literal["auto", "json", "text"] = "auto",
) -> int:
    """Run the operator: in a cluster, or from outside with a kubeconfig.

    Parameters
    ----------
    kubeconfig:
        File with the way to the cluster. Default: the cluster the process runs in, else KUBECONFIG or the usual file.
    context:
        Context in that file. Default: its current one.
    namespace:
        Namespace of the operator and of NPUOperatorCtl. Default: the pod's own, else npu-operator.
    image:
        Image of the agents. Default: NPU_OPERATOR_IMAGE.
    listen:
        Address for /healthz, /readyz and /metrics. Port 0 takes any free one.
    log:
        json for machines, text for people; auto decides by whether standard error is a terminal.
    """
    from npu_operator.cli import running

    return asyncio.run(
        running.run(
            kubeconfig=kubeconfig, context=context, namespace=namespace, image=image, listen=listen, log_format=log
        )
    )


@app.command
def crds(*, out: Out = None) -> int:
    """Print the CustomResourceDefinitions, or write them to a folder."""
    from npu_operator.cli import crds as command

    return command.render(out)


@app.command
def manifests(*, out: Out = None) -> int:
    """Print the plain manifests that install the operator, or write them to a folder."""
    from npu_operator.cli import manifests as command

    return command.render(out)


@app.command
def demo(*, cluster: Literal["sim", "real"] = "sim") -> int:
    """Show the main job: from bare nodes to allocatable chips.

    Parameters
    ----------
    cluster:
        sim: a cluster inside this process, in virtual time. real: a real control plane with hollow nodes.
    """
    from npu_operator.cli.demo.show import show

    return show(cluster=cluster)


@parse.command(name="npu-smi")
def parse_npu_smi(files: Annotated[list[Path], Parameter(help="Files with saved output; - is standard input.")]) -> int:
    """Print what npu-smi said, as JSON: one object for one file, a list for several."""
    from npu_operator.cli import parse as command

    return command.parse_npu_smi(files)


@app.command
def agent(name: str) -> int:
    """Run one agent on a node; the operator's pods do. Settings come from the environment.

    Parameters
    ----------
    name:
        device-plugin, exporter, validator or discovery.
    """
    from npu_operator.cli import agents

    return agents.main("agent", [name])


def main() -> None:
    """Run a command; `cli.entry` is the door. The exit status is the command's; 2 for a wrong command line."""
    sys.exit(app(sys.argv[1:], exit_on_error=True, result_action="return_value"))
