"""One request and its answer: everything that is the same for all verbs.

Each request has a time-out, and only `IN_FLIGHT` run at once; watches come on top. After a 429 all requests wait
(`kube.pace`). Leases wait neither for a place nor for that: behind a thousand writes the renewal would come too late.
When the server refuses our credentials, or its certificate does not fit, they are read anew from their files and the
request is sent once more: rotated tokens, certificates and CAs need no restart.
"""

import asyncio
import random
from collections.abc import Callable, Mapping

import httpx2
from lightkube.core.exceptions import ConfigError

from npu_operator.kube import answers
from npu_operator.kube.answers import Ask
from npu_operator.kube.api import LEASES, ApiError, TooManyRequests, Unauthorized, Unreachable
from npu_operator.kube.auth import PluginError
from npu_operator.kube.calls import NO_ANSWER, Calls
from npu_operator.kube.clock import SystemClock
from npu_operator.kube.connection import BadConfig, Connection
from npu_operator.kube.pace import Pace

REQUEST_TIMEOUT_S = 30.0  # the API server itself gives up after 60
CONNECT_TIMEOUT_S = 5.0
IN_FLIGHT = 32  # a core of ours is busy with about ten; more only queue up in the server
REOPEN_EVERY_S = 10.0  # credentials that are wrong stay wrong for a while; reading them costs files and a plugin
JSON = "application/json"


class Exchange:
    """Sends requests over the connection that `reopen` makes; counts them in `calls`."""

    def __init__(
        self, reopen: Callable[[], Connection], *, clock: SystemClock, rng: random.Random, user_agent: str
    ) -> None:
        self.calls = Calls()
        self.connection = reopen()
        self._reopen = reopen
        self._clock = clock
        self._user_agent = user_agent
        self._pace = Pace(clock, rng)
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._http = self._client(self.connection)
        self._retired: httpx2.AsyncClient | None = None
        self._opened_at = clock.monotonic()
        self._age = 0
        self._closed = False

    async def fetch(
        self,
        ask: Ask,
        method: str,
        path: str,
        params: Mapping[str, str],
        *,
        content: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """The whole body of a successful answer. Raises ApiError."""
        headers = {"Content-Type": content_type} if content is not None else {}

        def build(http: httpx2.AsyncClient) -> httpx2.Request:
            return http.build_request(method, path, params=params, content=content, headers=headers)

        if ask.resource == LEASES:
            return (await self._exchange(ask, build, stream=False)).content
        await self._pace.wait()
        async with self._slots:
            return (await self._exchange(ask, build, stream=False)).content

    async def stream(self, ask: Ask, path: str, params: Mapping[str, str], *, read_s: float) -> httpx2.Response:
        """A successful answer whose body is still to come; the caller closes it. Raises ApiError.

        A silence of more than `read_s` ends it with `httpx2.ReadTimeout`: a time-out per read, so that nothing is
        cancelled while the caller works on what it got.
        """
        await self._pace.wait()
        timeout = httpx2.Timeout(REQUEST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=read_s)
        return await self._exchange(
            ask, lambda http: http.build_request("GET", path, params=params, timeout=timeout), stream=True
        )

    async def close(self) -> None:
        """Close all connections; requests that still run, and later ones, fail as Unreachable."""
        self._closed = True
        for http in (self._http, self._retired):
            if http is not None:
                await http.aclose()

    async def _exchange(
        self, ask: Ask, build: Callable[[httpx2.AsyncClient], httpx2.Request], *, stream: bool
    ) -> httpx2.Response:
        """Send; a second time only with new credentials, when the first was not let in and so did nothing."""
        while True:
            age = self._age
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    return await self._answer(ask, build(self._http), stream=stream)
            except (Unauthorized, Unreachable) as error:
                if not await self._has_reopened(age, error):
                    raise
            except TimeoutError as error:
                self.calls.count(ask.verb, ask.what, NO_ANSWER)
                raise answers.no_answer(ask, error, within_s=REQUEST_TIMEOUT_S) from error

    async def _answer(self, ask: Ask, request: httpx2.Request, *, stream: bool) -> httpx2.Response:
        """Send, count, learn the time; a success or the exception for it."""
        if self._closed:
            raise Unreachable(f"{ask}: the connection is closed")
        if self.connection.tls_name:
            request.extensions["sni_hostname"] = self.connection.tls_name
        sent = self._clock.monotonic()
        try:
            response = await self._http.send(request, stream=stream)
            if stream and not response.is_success:
                await response.aread()
                await response.aclose()
        except (PluginError, ConfigError) as error:
            raise Unauthorized(f"{ask}: unauthorized: {error}") from error
        except (httpx2.HTTPError, OSError, RuntimeError) as error:  # RuntimeError: closed by somebody meanwhile
            self.calls.count(ask.verb, ask.what, NO_ANSWER)
            raise answers.no_answer(ask, error) from error
        self.calls.count(ask.verb, ask.what, response.status_code)
        date = response.headers.get("Date")
        if date:
            self._clock.observe_date(date, sent=sent, received=self._clock.monotonic())
        if not response.is_success:
            raise self._refusal(ask, response)
        return response

    def _refusal(self, ask: Ask, response: httpx2.Response) -> ApiError:
        error = answers.refusal(
            ask,
            response.status_code,
            response.content,
            retry_after=response.headers.get("Retry-After"),
            credentials=self.connection.credentials,
        )
        if isinstance(error, TooManyRequests) and not answers.is_about_a_budget(error):
            self._pace.slow_down(error.retry_after_s)
        return error

    async def _has_reopened(self, age: int, error: ApiError) -> bool:
        """Read credentials anew after `error`, unless they are fresh. True: the request is worth another try.

        `age` tells with which credentials the request was sent: of many that fail at once, one reopens for all.
        """
        refused = isinstance(error, Unauthorized) or answers.tls_failure(error) is not None
        if not refused or self._closed:
            return False
        if age != self._age:
            return True
        if self._clock.monotonic() - self._opened_at < REOPEN_EVERY_S:
            return False
        try:
            connection = self._reopen()
        except BadConfig as problem:
            error.add_note(str(problem))
            return False
        self._age += 1
        self._opened_at = self._clock.monotonic()
        self.connection = connection
        before, self._retired, self._http = self._retired, self._http, self._client(connection)
        if before is not None:  # the one before may still carry a watch; the one before that does not
            await before.aclose()
        return True

    def _client(self, connection: Connection) -> httpx2.AsyncClient:
        try:
            return httpx2.AsyncClient(
                base_url=connection.url,
                transport=connection.transport,
                auth=connection.auth,
                trust_env=False,  # no proxies and no passwords from the environment
                follow_redirects=False,
                timeout=httpx2.Timeout(REQUEST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
                headers={
                    "Accept": JSON,
                    "Accept-Encoding": "identity",  # packing costs both sides more than a cluster's network does
                    "User-Agent": self._user_agent,
                },
            )
        except httpx2.InvalidURL as error:
            raise BadConfig(f"{connection.credentials}: server {connection.url}: {error}") from error
