"""Tokens from credential plugins, as kubeconfig's `exec` describes them.

lightkube speaks the two beta versions of that protocol and does not tell the plugin what is asked; current plugins want
version `v1` and read `KUBERNETES_EXEC_INFO`. Everything else (token, token file, user and password) is lightkube's.
"""

import asyncio
import os
from collections.abc import AsyncGenerator

import httpx2
import msgspec
from lightkube.config.client_adapter import user_auth
from lightkube.config.models import User, UserExec

from npu_operator.kube.api import Clock
from npu_operator.kube.clock import seconds_of

VERSIONS = frozenset(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
TIMEOUT_S = 60.0  # a plugin may ask a slow identity provider; it must not hang a command for ever
EARLY_S = 30.0  # renew that much before the token expires: our clock and the server's are not the same


class PluginError(Exception):
    """A credential plugin gave no token. The client makes `Unauthorized` of it; the message says what to do."""


class _Granted(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str | None = None
    client_certificate_data: str | None = None


class _Credential(msgspec.Struct):
    status: _Granted | None = None


class PluginAuth(httpx2.Auth):
    """Asks the plugin for a token when there is none, when it expires and when the server refuses it."""

    def __init__(self, plugin: UserExec, *, clock: Clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._bearer = ""
        self._renew_at = 0.0
        self._asking = asyncio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Put the token into `request`; once more with a fresh one after a 401."""
        shown = await self._token(refused="")
        request.headers["Authorization"] = shown
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            request.headers["Authorization"] = await self._token(refused=shown)
            yield request

    async def _token(self, *, refused: str) -> str:
        async with self._asking:  # many requests, one run of the plugin
            if not self._bearer or self._bearer == refused or self._clock.now() >= self._renew_at:
                granted = await self._ask()
                self._bearer = f"Bearer {granted.token}"
                expires = granted.expiration_timestamp
                self._renew_at = seconds_of(expires) - EARLY_S if expires else float("inf")
            return self._bearer

    async def _ask(self) -> _Granted:
        plugin = self._plugin
        info = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {
            **os.environ,
            **{variable.name: variable.value for variable in plugin.env or ()},
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *(plugin.args or ()),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"\n{plugin.installHint}" if plugin.installHint else ""
            raise PluginError(
                f"credential plugin {plugin.command} cannot be started: {error.strerror}{hint}"
            ) from error
        try:
            async with asyncio.timeout(TIMEOUT_S):
                out, complaint = await process.communicate()
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise PluginError(f"credential plugin {plugin.command} gave no answer within {TIMEOUT_S:g} s") from error
        if process.returncode != 0:
            said = complaint.decode("utf-8", "replace").strip()
            raise PluginError(f"credential plugin {plugin.command} ended with {process.returncode}: {said}")
        return self._read(out)

    def _read(self, out: bytes) -> _Granted:
        try:
            granted = msgspec.json.decode(out, type=_Credential).status or _Granted()
        except msgspec.DecodeError as error:
            raise PluginError(f"credential plugin {self._plugin.command} printed no ExecCredential: {error}") from error
        if not granted.token:
            kind = "a client certificate, which is not supported" if granted.client_certificate_data else "nothing"
            raise PluginError(f"credential plugin {self._plugin.command} gave {kind}; a token is needed")
        return granted


def auth_of(user: User | None, *, clock: Clock) -> httpx2.Auth | None:
    """How to introduce ourselves in HTTP; None when the TLS client certificate does it, or nothing.

    Raises PluginError for a plugin of another kind, lightkube's ConfigError for what is gone (`auth-provider`).
    """
    if user is not None and user.exec is not None and user.token is None and user.token_file is None:
        if user.exec.apiVersion not in VERSIONS:
            known = ", ".join(sorted(VERSIONS))
            raise PluginError(f"credential plugin {user.exec.command} speaks {user.exec.apiVersion}; known are {known}")
        return PluginAuth(user.exec, clock=clock)
    return user_auth(user)
