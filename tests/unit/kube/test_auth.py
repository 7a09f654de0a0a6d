"""Credential plugins, run for real: a small program that prints what a plugin prints."""

import asyncio
import sys
import textwrap

import httpx2
import pytest
from lightkube.config.models import NameValue, UserExec

from npu_operator.kube import auth
from npu_operator.kube.auth import PluginAuth, PluginError
from npu_operator.kube.clock import SystemClock

V1 = "client.authentication.k8s.io/v1"
COUNTING = """
import json, os, pathlib
runs = pathlib.Path(os.environ["RUNS"])
runs.write_text(runs.read_text() + "x")
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"token-{len(runs.read_text())}", **json.loads(os.environ.get("MORE", "{}"))}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": info["kind"], "status": status}))
"""


class Plugin:
    """A plugin that counts its runs, and an API server that takes only the tokens of a test."""

    def __init__(self, tmp_path, program: str = COUNTING, **environment: str) -> None:
        self.runs = tmp_path / "runs"
        self.runs.write_text("")
        variables = [NameValue("RUNS", str(self.runs)), *(NameValue(*pair) for pair in environment.items())]
        command = UserExec(V1, sys.executable, variables, ["-c", textwrap.dedent(program)], installHint="install it")
        self.auth = PluginAuth(command, clock=SystemClock())
        self.refused: set[str] = set()
        self.shown: list[str] = []

    async def ask(self) -> int:
        def serve(request: httpx2.Request) -> httpx2.Response:
            self.shown.append(request.headers["Authorization"])
            return httpx2.Response(401 if self.shown[-1] in self.refused else 200)

        async with httpx2.AsyncClient(transport=httpx2.MockTransport(serve), auth=self.auth) as http:
            return (await http.get("https://api/")).status_code


def test_the_token_is_asked_for_once_and_used_until_it_is_refused(tmp_path):
    async def main() -> None:
        plugin = Plugin(tmp_path)
        await asyncio.gather(plugin.ask(), plugin.ask())
        assert plugin.shown == ["Bearer token-1"] * 2
        plugin.refused.add("Bearer token-1")
        assert await plugin.ask() == 200
        assert plugin.shown[-1] == "Bearer token-2"

    asyncio.run(main())


def test_a_token_is_renewed_before_it_expires(tmp_path):
    async def main() -> None:
        plugin = Plugin(tmp_path, MORE='{"expirationTimestamp": "2000-01-01T00:00:00Z"}')
        await plugin.ask()
        await plugin.ask()
        assert plugin.shown == ["Bearer token-1", "Bearer token-2"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('log in first')", "ended with 1: log in first"),
        ("print('hello')", "printed no ExecCredential"),
        ("print('{}')", "gave nothing; a token is needed"),
        ('print(\'{"status": {"clientCertificateData": "x"}}\')', "a client certificate, which is not supported"),
    ],
)
def test_a_plugin_that_gives_no_token_is_quoted(tmp_path, program, said):
    with pytest.raises(PluginError, match=said):
        asyncio.run(Plugin(tmp_path, program).ask())


def test_a_plugin_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(auth, "TIMEOUT_S", 0.01)
    with pytest.raises(PluginError, match="gave no answer within"):
        asyncio.run(Plugin(tmp_path, "import signal; signal.pause()").ask())


def test_a_plugin_that_is_not_there_comes_with_its_hint(tmp_path):
    plugin = Plugin(tmp_path)
    plugin.auth._plugin.command = "/nowhere/login"
    with pytest.raises(PluginError, match="cannot be started: No such file or directory\ninstall it"):
        asyncio.run(plugin.ask())
