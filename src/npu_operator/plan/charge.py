"""Which `NPUOperatorCtl` is in charge.

One object decides about a cluster. The oldest one in the operator's namespace is in charge; each other one is told why
it is not. When the first goes, the next takes over, without a restart of anything.
"""

from collections.abc import Iterable

import msgspec

from npu_operator.model.reading import ParsedCtl
from npu_operator.model.reasons import Reason


class Refusal(msgspec.Struct, frozen=True):
    """Why an object is not in charge."""

    reason: Reason
    message: str


class Charge(msgspec.Struct, frozen=True):
    """Who decides, and why the others do not (by `namespace/name`)."""

    ctl: ParsedCtl | None
    refused: dict[str, Refusal]


def in_charge(ctls: Iterable[ParsedCtl], namespace: str) -> Charge:
    """Choose. Objects that are being deleted decide nothing any more; age is creation time, then name."""
    refused: dict[str, Refusal] = {}
    chosen: ParsedCtl | None = None
    for ctl in sorted(ctls, key=_age):
        key = f"{ctl.metadata.namespace}/{ctl.metadata.name}"
        if ctl.metadata.namespace != namespace:
            refused[key] = Refusal(
                Reason.WrongNamespace,
                f"the operator works in namespace {namespace} and ignores this object; create it there instead",
            )
        elif ctl.metadata.deletion_timestamp is not None:
            refused[key] = Refusal(Reason.Deleting, "the object is being deleted")
        elif chosen is None:
            chosen = ctl
        else:
            refused[key] = Refusal(
                Reason.Conflict,
                f"{chosen.metadata.name} is older and in charge; delete one of the two",
            )
    return Charge(chosen, refused)


def _age(ctl: ParsedCtl) -> tuple[str, str, str]:
    return (ctl.metadata.creation_timestamp or "", ctl.metadata.namespace, ctl.metadata.name)
