"""From an answer of the API server to the exception that says it in one sentence.

Each sentence begins with what was asked (`patch nodes a7`), so that a person who reads it in a log or a condition knows
verb, resource and name without looking at code; a refusal for lack of rights ends with the right that is missing.
"""

import os
import re
import socket
import ssl
from collections.abc import Iterator

import httpx2
import msgspec

from npu_operator.kube.api import ApiError, Forbidden, NotFound, Resource, Unauthorized, Unreachable

BUDGET_CAUSE = "DisruptionBudget"  # of an eviction that is refused (policy/v1)
LONGEST_TEXT = 300  # of an answer that is no Status: a proxy's error page does not belong into a condition
LONGEST_MESSAGE = 1000  # of a Status: a refused patch is quoted with the whole object

# "... cannot patch resource "nodes/status" in API group "" at the cluster scope" (RBAC); admission speaks otherwise
_MISSING_RIGHT = re.compile(r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"')


class Ask(msgspec.Struct, frozen=True):
    """What was asked of the server, for messages and counters."""

    verb: str
    resource: Resource
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None

    @property
    def what(self) -> str:
        """The resource as RBAC messages spell it: `nodes/status`, `daemonsets.apps`."""
        return f"{self.resource.name}/{self.subresource}" if self.subresource else self.resource.name

    def __str__(self) -> str:
        if self.name is None:
            return f"{self.verb} {self.what}" + (f" in namespace {self.namespace}" if self.namespace else "")
        return (
            f"{self.verb} {self.what} {self.namespace}/{self.name}"
            if self.namespace
            else (f"{self.verb} {self.what} {self.name}")
        )


class Cause(msgspec.Struct, frozen=True):
    """One of the causes in a `Status`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """`details` of a `Status`."""

    retry_after_seconds: int = 0
    causes: tuple[Cause, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """What the server sends instead of an object when it refuses."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


def status_of(body: bytes | msgspec.Raw) -> Status | None:
    """The `Status` in an answer; None when it is something else."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        return None
    return status if status.kind == "Status" else None


def causes_of(error: ApiError) -> tuple[Cause, ...]:
    """The causes that the server gave with its refusal."""
    status = status_of(error.body)
    return status.details.causes if status is not None and status.details is not None else ()


def is_about_a_budget(error: ApiError) -> bool:
    """Is this 429 a disruption budget's "not now", rather than the server asking everybody to slow down?"""
    return any(cause.reason == BUDGET_CAUSE for cause in causes_of(error))


def refusal(ask: Ask, code: int, body: bytes, *, retry_after: str | None = None, credentials: str = "") -> ApiError:
    """The exception for an answer that is no success.

    `retry_after` is the header; `credentials` says in words what we showed to the server.
    """
    status = status_of(body)
    wait_s = _seconds(retry_after)
    if status is not None and status.details is not None and wait_s is None:
        wait_s = float(status.details.retry_after_seconds) or None
    reason = status.reason if status is not None else ""
    said = _shortened(status.message, LONGEST_MESSAGE) if status is not None else ""
    said = said or _shortened(body[: 4 * LONGEST_TEXT].decode("utf-8", "replace"), LONGEST_TEXT)
    class_ = ApiError.by_status.get(code, ApiError)
    if class_ is NotFound and ask.verb in ("list", "watch"):
        said = "the server has no such resource; is its CustomResourceDefinition installed?"
    message = f"{ask}: {_sentence(class_, code, said, credentials)}"
    return class_(message, status=code, reason=reason, retry_after_s=wait_s, body=bytes(body))


def no_answer(ask: Ask, error: BaseException, *, within_s: float | None = None) -> Unreachable:
    """The exception for a request that got no answer; `error` should be its cause."""
    if isinstance(error, httpx2.ConnectTimeout):
        return Unreachable(f"{ask}: no answer: the server's address does not react")
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return Unreachable(f"{ask}: no answer" + (f" within {within_s:g} s" if within_s else " in time"))
    tls = tls_failure(error)
    if tls is not None:
        return Unreachable(f"{ask}: no secure connection: {tls}")
    return Unreachable(f"{ask}: no answer: {_system_words(error) or str(error) or type(error).__name__}")


def tls_failure(error: BaseException) -> str | None:
    """What went wrong with TLS, if that is what lies below `error`: an expired or unknown certificate, mostly."""
    for below in _causes(error):
        if isinstance(below, ssl.SSLCertVerificationError):
            return f"the server's certificate is not accepted: {below.verify_message}"
        if isinstance(below, ssl.SSLError):
            return (below.reason or str(below)).lower().replace("_", " ")
    return None


def _system_words(error: BaseException) -> str | None:
    """What the operating system said, such as "connection refused": libraries on the way up replace it."""
    for below in _causes(error):
        if isinstance(below, socket.gaierror):
            return str(below.strerror).lower()
        if isinstance(below, OSError) and below.errno:
            return os.strerror(below.errno).lower()
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    below: BaseException | None = error
    while below is not None:
        yield below
        below = below.__cause__ or below.__context__


def _sentence(class_: type[ApiError], code: int, said: str, credentials: str) -> str:
    if class_ is Forbidden:
        missing = _MISSING_RIGHT.search(said)
        if missing is None:
            return f"forbidden: {said}"
        group = f".{missing['group']}" if missing["group"] else ""
        resource, slash, sub = missing["resource"].partition("/")
        return f"forbidden: {said}; needs verb {missing['verb']} on {resource}{group}{slash}{sub}"
    if class_ is Unauthorized:
        shown = credentials or "what we showed"
        return f"unauthorized: the server does not accept {shown}: expired or unknown ({said or 'no reason given'})"
    return said or f"the server answered {code} without a reason"


def _shortened(text: str, at_most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= at_most else text[:at_most] + "…"


def _seconds(header: str | None) -> float | None:
    """A `Retry-After` in seconds; its other form, a date, is not used by Kubernetes."""
    return float(header) if header is not None and header.strip().isdecimal() else None
