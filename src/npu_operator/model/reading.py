"""From an `NPUOperatorCtl` as it was written to the spec the operator acts on, with everything that is wrong named.

Nothing is dropped in silence: the resource definition keeps unknown fields, and here each becomes a problem.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from . import checks, lenient
from .ctl import Spec
from .lenient import Problem
from .metadata import Metadata
from .status import CtlStatus


class ParsedCtl(msgspec.Struct, frozen=True, kw_only=True):
    """An `NPUOperatorCtl`, read. Where a field could not be read, `spec` has its default."""

    metadata: Metadata
    spec: Spec
    problems: tuple[Problem, ...] = ()
    """Errors first, then what is only questionable."""
    status: CtlStatus = CtlStatus()
    """What was written last; empty when it cannot be read (another version of the operator wrote it)."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Unknown fields and wrong values."""
        return tuple(problem for problem in self.problems if problem.is_error)

    @property
    def may_disrupt(self) -> bool:
        """May nodes be taken out of service by this spec?

        Not while something in the driver section, or the mode, was misread: a misspelt `maxUnavailable` must not
        become the default one. Mistakes elsewhere (say, in the exporter) do not stop an upgrade.
        """
        return not any(_is_disruptive(problem.path) for problem in self.errors)


def parse_ctl(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> ParsedCtl:
    """Read an object as the API server sent it. Raises `msgspec.DecodeError` only when it is no JSON object at all."""
    written = raw if isinstance(raw, Mapping) else msgspec.json.decode(raw, type=dict[str, Any])
    spec, misread = lenient.read(Spec, written.get("spec") or {}, "spec")
    return ParsedCtl(
        metadata=msgspec.convert(written.get("metadata") or {}, Metadata),
        spec=spec,
        problems=tuple(sorted((*misread, *checks.check(spec)), key=lambda problem: not problem.is_error)),
        status=_status(written.get("status") or {}),
    )


def describe(problems: Iterable[Problem], *, at_most: int = 5) -> str:
    """The problems in one text for a condition's message, one per line; what is beyond `at_most` is counted."""
    lines = [str(problem) for problem in problems]
    more = [f"and {len(lines) - at_most} more"] if len(lines) > at_most else []
    return "\n".join(lines[:at_most] + more)


def _is_disruptive(path: str) -> bool:
    return path == "spec" or path.startswith(("spec.driver", "spec.mode"))


def _status(written: Any) -> CtlStatus:
    try:
        return msgspec.convert(written, CtlStatus)
    except msgspec.ValidationError:
        return CtlStatus()
