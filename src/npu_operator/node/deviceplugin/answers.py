"""What is said about each of the two resources, by the last good state of the node."""

from collections.abc import Sequence
from typing import Protocol

from npu_operator.model.ctl import Injection
from npu_operator.node.deviceplugin import allocation, offers, preference
from npu_operator.node.deviceplugin import v1beta1_pb2 as api
from npu_operator.node.deviceplugin.offers import Offer
from npu_operator.node.state import NodeState


class Answers(Protocol):
    """One resource."""

    def know(self, state: NodeState) -> None:
        """Answer by this state from now on."""
        ...

    def devices(self) -> tuple[Offer, ...]:
        """The whole list."""
        ...

    def prefer(self, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """The ids that a container should get."""
        ...

    def allocate(self, requests: Sequence[Sequence[str]]) -> api.AllocateResponse:
        """What containers with these ids get. Raises `allocation.Refused`."""
        ...


class Chips:
    """The node's chips."""

    def __init__(self, state: NodeState, injection: Injection) -> None:
        self._state = state
        self._injection = injection

    def know(self, state: NodeState) -> None:
        """Answer by this state from now on."""
        self._state = state

    def devices(self) -> tuple[Offer, ...]:
        """All chips, also those that are not given to pods."""
        return offers.chips(self._state)

    def prefer(self, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """The chips that lie best to each other."""
        return preference.choose(available, must_include, size, preference.distances(self._state))

    def allocate(self, requests: Sequence[Sequence[str]]) -> api.AllocateResponse:
        """The chips asked for and what belongs to them."""
        return allocation.answer(requests, self._state, self._injection)


class Validation:
    """The validator's device, which stands for all chips."""

    def __init__(self, state: NodeState, injection: Injection) -> None:
        self._state = state
        self._injection = injection

    def know(self, state: NodeState) -> None:
        """Answer by this state from now on."""
        self._state = state

    def devices(self) -> tuple[Offer, ...]:
        """One, as long as there are chips."""
        return offers.validation(self._state)

    def prefer(self, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """There is no choice."""
        return available[:size]

    def allocate(self, requests: Sequence[Sequence[str]]) -> api.AllocateResponse:
        """All chips."""
        return allocation.answer_validation(requests, self._state, self._injection)
