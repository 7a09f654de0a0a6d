"""Events: in the form that the server takes, repeated as a series, dropped rather than in the way."""

import asyncio
import random

import httpx2
import msgspec

from npu_operator.kube.api import ApiError
from npu_operator.kube.events import UNSENT, Recorder, Reference
from npu_operator.sim.clock import VirtualClock
from tests.unit.kube.scripted import Server, answer, cluster_of, hangs, refusal, run

NODE = Reference("v1", "Node", "a7", uid="u7")


class Writing:
    """A recorder that sends to a scripted server."""

    def __init__(self, clock: VirtualClock) -> None:
        self.server = Server()
        self.troubles: list[ApiError] = []
        self.recorder = Recorder(
            cluster_of(self.server, clock),
            controller="example.com/operator",
            instance="pod-1",
            clock=clock,
            rng=random.Random(4),
            on_trouble=self.troubles.append,
        )

    def note(self, note: str = "node a7 must reboot", *, regarding: Reference = NODE, reason: str = "Reboot") -> None:
        self.recorder.record(regarding, type_="Warning", reason=reason, action="Rebooting", note=note)

    async def __aenter__(self) -> "Writing":
        self._task = asyncio.create_task(self.recorder.run())
        return self

    async def __aexit__(self, *error) -> None:
        assert not self._task.done(), self._task.exception()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def bodies(self) -> list[dict]:
        return [msgspec.json.decode(request.content) for request in self.server.requests]


def test_an_event_has_all_that_the_server_demands():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", answer({}, 201))
        async with writing:
            writing.note()
            await asyncio.sleep(0.1)
        (request,) = writing.server.requests
        assert request.url.path == "/apis/events.k8s.io/v1/namespaces/default/events"
        (body,) = writing.bodies()
        assert body["metadata"].pop("name").startswith("a7.")
        assert body == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "example.com/operator",
            "reportingInstance": "pod-1",
            "type": "Warning",
            "reason": "Reboot",
            "action": "Rebooting",
            "note": "node a7 must reboot",
            "regarding": {"apiVersion": "v1", "kind": "Node", "name": "a7", "uid": "u7"},
        }

    run(main)


def test_an_event_about_a_namespaced_object_lies_in_its_namespace():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", answer({}, 201))
        async with writing:
            writing.note(regarding=Reference("v1", "Pod", "p", "x", "u"))
            await asyncio.sleep(0.1)
        assert writing.server.requests[0].url.path == "/apis/events.k8s.io/v1/namespaces/x/events"

    run(main)


def test_the_same_statement_again_is_a_series_that_is_patched_now_and_then():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", answer({}, 201))
        writing.server.on("PATCH", *(answer({}) for _ in range(9)))
        async with writing:
            for _ in range(60):
                writing.note()
                await asyncio.sleep(5)
            await asyncio.sleep(100)
        assert len(writing.server.asked("POST")) == 1
        assert len(writing.server.asked("PATCH")) == 5
        assert writing.bodies()[-1] == {"series": {"count": 60, "lastObservedTime": "2026-01-01T00:04:55.000000Z"}}

    run(main)


def test_another_reason_note_or_object_is_another_event():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", *(answer({}, 201) for _ in range(4)))
        async with writing:
            writing.note()
            writing.note(reason="Other")
            writing.note("another note")
            writing.note(regarding=Reference("v1", "Node", "a8"))
            await asyncio.sleep(0.1)
        assert len({body["metadata"]["name"] for body in writing.bodies()}) == 4

    run(main)


def test_after_quiet_minutes_the_same_statement_is_a_new_event():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", answer({}, 201), answer({}, 201))
        async with writing:
            writing.note()
            await asyncio.sleep(400)
            writing.note()
            await asyncio.sleep(1)
        assert len(writing.server.asked("POST")) == 2
        assert len(writing.recorder._series) == 1

    run(main)


def test_repeats_before_the_first_was_sent_are_counted_in_it():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", answer({}, 201))
        writing.note()
        writing.note()
        async with writing:
            await asyncio.sleep(1)
        assert writing.bodies()[0]["series"]["count"] == 2

    run(main)


def test_an_event_that_has_expired_is_made_anew():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", answer({}, 201), answer({}, 201))
        writing.server.on("PATCH", refusal(404))
        async with writing:
            writing.note()
            await asyncio.sleep(70)
            writing.note()
            await asyncio.sleep(1)
        assert writing.bodies()[-1]["series"]["count"] == 2
        assert writing.troubles == []

    run(main)


def test_a_server_that_is_away_for_a_moment_costs_no_event():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", httpx2.ConnectError("refused"), refusal(429, **{"Retry-After": "3"}), answer({}, 201))
        async with writing:
            writing.note()
            await asyncio.sleep(30)
        assert len(writing.server.requests) == 3
        assert writing.recorder.dropped == 0
        names = {body["metadata"]["name"] for body in writing.bodies()}
        assert len(names) == 1  # should an earlier try have arrived, it is not written twice

    run(main)


def test_an_event_that_did_arrive_although_the_answer_did_not_is_fine():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", httpx2.ReadError("reset"), refusal(409, reason="AlreadyExists"))
        async with writing:
            writing.note()
            await asyncio.sleep(30)
        assert writing.recorder.dropped == 0
        assert writing.troubles == []

    run(main)


def test_without_the_right_events_are_dropped_counted_and_told():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", refusal(403, "no"), *(httpx2.ConnectError("refused") for _ in range(3)))
        async with writing:
            writing.note()
            await asyncio.sleep(1)
            assert (writing.recorder.dropped, len(writing.troubles)) == (1, 1)
            writing.note("another")
            await asyncio.sleep(60)
            assert (writing.recorder.dropped, len(writing.troubles)) == (2, 2)
            assert len(writing.recorder._series) == 0

    run(main)


def test_a_hanging_server_fills_the_queue_and_no_more():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", hangs())
        async with writing:
            for number in range(UNSENT + 100):
                writing.note(f"note {number}")
            assert clock.monotonic() == 0
            assert writing.recorder.dropped == 100
            assert len(writing.recorder._series) == UNSENT

    run(main)


def test_at_the_end_what_is_queued_is_sent_but_not_waited_for_long():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", answer({}, 201), answer({}, 201), hangs())
        for number in range(5):
            writing.note(f"note {number}")
        await writing.recorder.flush(within_s=2)
        assert clock.monotonic() == 2
        assert len(writing.server.requests) == 3
        assert writing.recorder.dropped == 3

    run(main)


def test_an_event_that_was_under_way_when_we_were_stopped_is_sent_at_the_end():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", hangs(), answer({}, 201))
        async with writing:
            writing.note()
            await asyncio.sleep(1)
        await writing.recorder.flush(within_s=2)
        assert len(writing.server.requests) == 2
        assert writing.recorder.dropped == 0

    run(main)


def test_a_note_is_cut_to_the_bytes_that_the_server_takes():
    async def main(clock: VirtualClock) -> None:
        writing = Writing(clock)
        writing.server.on("POST", answer({}, 201))
        async with writing:
            writing.note("°" * 2000)
            await asyncio.sleep(1)
        note = writing.bodies()[0]["note"]
        assert 1000 < len(note.encode()) <= 1024
        assert note.endswith("…")

    run(main)
