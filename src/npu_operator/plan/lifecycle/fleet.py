"""What a decision about one node may know of the others. Each part is an objection, or None."""

from collections.abc import Mapping

import msgspec

from npu_operator.plan.lifecycle.effects import No


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What gates may know of the other nodes; `None` is no objection."""

    halted: No | None = None
    """By the mode, or by a spec that could not be read."""
    window: No | None = None
    """The maintenance window is closed."""
    failures: No | None = None
    """More nodes failed than the policy allows."""
    breaker: No | None = None
    """Too many nodes are sick at once."""
    canaries: Mapping[str, No] = {}
    """By pool: what its other nodes wait for."""
    canary_nodes: frozenset[str] = frozenset()
    is_all_staged: bool = True
    """No node is left that still has to pull its driver image."""
