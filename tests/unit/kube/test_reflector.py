"""The reflector against an API server with bad days, over the real client and in virtual time."""

import asyncio
import random
from collections.abc import Callable

import httpx2
import pytest

from npu_operator.kube import objects
from npu_operator.kube.api import NODES, ApiError
from npu_operator.kube.objects import Slim
from npu_operator.kube.reflector import Reflector, State
from npu_operator.kube.store import Store
from npu_operator.sim.clock import VirtualClock
from tests.unit.kube.scripted import (
    Server,
    a_long_watch,
    a_page,
    a_status,
    a_watch,
    an_object,
    answer,
    bookmark,
    cluster_of,
    hangs,
    line,
    refusal,
    run,
)


class Labelled(Slim, frozen=True):
    """What these tests read of a node."""


class Mirror:
    """A reflector of nodes beside a scripted server, and all that it told."""

    def __init__(self, clock: VirtualClock, *, optional: bool = False, decode: Callable | None = None) -> None:
        self.server = Server()
        self.store: Store[Labelled] = Store()
        self.changes: list[str] = []
        self.troubles: list[str | None] = []
        self.unreadable: list[str] = []
        self.store.on_change(self._note)
        self.reflector = Reflector(
            cluster_of(self.server, clock),
            NODES,
            self.store,
            decode or objects.decoder(Labelled),
            clock=clock,
            rng=random.Random(3),
            page_size=2,
            optional=optional,
            on_trouble=lambda error: self.troubles.append(error and str(error)),
            on_unreadable=lambda key, error: self.unreadable.append(key),
        )
        self._task: asyncio.Task[None] | None = None

    def _note(self, old: Labelled | None, new: Labelled | None) -> None:
        sign = "+" if old is None else "-" if new is None else "~"
        self.changes.append(sign + (new or old).metadata.name)

    def asked_from(self) -> list[str]:
        """From which versions was watched."""
        return [request.url.params["resourceVersion"] for request in self.server.asked("watch")]

    async def __aenter__(self) -> "Mirror":
        self._task = asyncio.create_task(self.reflector.run())
        return self

    async def __aexit__(self, *error) -> None:
        assert not self._task.done(), self._task.exception()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def labelled(name: str, version: int, label: str) -> dict:
    return an_object(name, version, labels={"l": label})


def test_the_list_fills_the_store_and_the_watch_keeps_it():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on(
            "list",
            a_page(an_object("a", 1), an_object("b", 2), version=9, more="t"),
            a_page(an_object("c", 3), version=9),
        )
        mirror.server.on(
            "watch",
            a_long_watch(
                line("ADDED", an_object("d", 10)),
                line("MODIFIED", labelled("a", 11, "x")),
                line("DELETED", an_object("b", 12)),
            ),
        )
        async with mirror:
            await mirror.reflector.synced.wait()
            await asyncio.sleep(1)
            assert mirror.changes == ["+a", "+b", "+c", "+d", "~a", "-b"]
            assert sorted(mirror.store.view) == ["a", "c", "d"]
            assert mirror.reflector.state is State.WATCHING
            assert mirror.troubles == []

    run(main)


def test_an_ordinary_end_of_a_watch_goes_on_where_it_ended_without_a_list():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(an_object("a", 1), version=9))
        mirror.server.on(
            "watch",
            a_long_watch(line("ADDED", an_object("b", 15))),
            a_long_watch(bookmarks=40),
            *(a_long_watch() for _ in range(5)),
        )
        async with mirror:
            await asyncio.sleep(1800)
            assert mirror.asked_from()[:4] == ["9", "15", "40", "40"]
            assert mirror.reflector.lists == 1
            assert mirror.troubles == []

    run(main)


def test_a_broken_connection_is_resumed_at_the_last_version():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(version=9))
        mirror.server.on(
            "watch", a_watch(line("ADDED", an_object("a", 10)), then="reset", after_s=30), a_long_watch(bookmark(11))
        )
        async with mirror:
            await asyncio.sleep(60)
            assert mirror.asked_from() == ["9", "10"]
            assert mirror.reflector.lists == 1
            assert mirror.troubles == ["watch nodes: no answer: connection reset by peer", None]

    run(main)


@pytest.mark.parametrize(
    "too_old",
    [refusal(410, "too old", reason="Expired"), a_watch(line("ERROR", a_status(410, "too old", reason="Expired")))],
    ids=["http status", "error event"],
)
def test_after_a_410_the_deletions_that_were_missed_are_found(too_old):
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on(
            "list",
            a_page(an_object("a", 1), an_object("b", 2), version=9),
            a_page(an_object("a", 1), an_object("c", 30), version=40),
        )
        mirror.server.on("watch", too_old, a_long_watch())
        async with mirror:
            await asyncio.sleep(10)
            assert mirror.changes == ["+a", "+b", "+c", "-b"]
            assert mirror.asked_from() == ["9", "40"]
            assert mirror.troubles == []  # once in a while this is normal

    run(main)


def test_a_server_that_always_says_410_is_asked_less_and_less_and_told():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", *(refusal(410, "expired") for _ in range(100)))
        async with mirror:
            await asyncio.sleep(600)
            assert 15 < len(mirror.server.requests) < 40
            assert mirror.troubles == ["list nodes: expired"]

    run(main)


def test_lists_that_are_no_sooner_made_than_too_old_are_made_less_and_less():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", *(a_page(version=9) for _ in range(100)))
        mirror.server.on("watch", *(refusal(410, "too old") for _ in range(100)))
        async with mirror:
            await asyncio.sleep(600)
            assert 15 < mirror.reflector.lists < 40
            assert "watch nodes: too old" in mirror.troubles

    run(main)


def test_a_version_that_grew_too_old_while_the_server_was_away_delays_nothing():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(version=9), a_page(an_object("a", 90), version=100))
        refused = (httpx2.ConnectError("connection refused") for _ in range(8))
        mirror.server.on("watch", *refused, refusal(410, "too old"), a_long_watch())
        async with mirror:
            await asyncio.sleep(120)
            came_back, listed = mirror.server.times[-3:-1]
            assert listed - came_back < 0.5
            assert mirror.troubles == ["watch nodes: no answer: connection refused", None]

    run(main)


def test_half_a_list_removes_nothing():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on(
            "list",
            a_page(an_object("a", 1), an_object("b", 2), version=9),
            a_page(an_object("a", 1), version=20, more="t"),
            refusal(410, "page expired"),
            a_page(an_object("a", 1), version=30, more="t"),
            a_page(an_object("b", 2), version=30),
        )
        mirror.server.on("watch", refusal(410, "too old"), a_long_watch())
        async with mirror:
            await asyncio.sleep(30)
            assert mirror.changes == ["+a", "+b"]
            assert mirror.asked_from() == ["9", "30"]

    run(main)


def test_a_server_that_is_away_at_the_start_is_waited_for():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", *(httpx2.ConnectError("connection refused") for _ in range(8)), a_page(version=9))
        mirror.server.on("watch", a_long_watch())
        async with mirror:
            await asyncio.sleep(20)
            assert not mirror.reflector.synced.is_set()
            assert "refused" in str(mirror.reflector.trouble)
            await asyncio.sleep(180)
            assert mirror.reflector.synced.is_set()
            assert mirror.troubles == ["list nodes: no answer: connection refused", None]

    run(main)


def test_after_ten_minutes_without_a_server_the_watch_goes_on_by_itself():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(an_object("a", 1), version=9))

        async def comes_back_after_ten_minutes(request: httpx2.Request) -> httpx2.Response:
            if clock.monotonic() < 700:
                raise httpx2.ConnectError("connection refused")
            return await a_long_watch(line("DELETED", an_object("a", 20)))(request)

        mirror.server.on(
            "watch", a_watch(then="reset", after_s=100), *(comes_back_after_ten_minutes for _ in range(90))
        )
        async with mirror:
            await asyncio.sleep(695)
            assert sorted(mirror.store.view) == ["a"]
            tries = len(mirror.server.asked("watch"))
            assert tries < 80
            await asyncio.sleep(50)
            assert mirror.changes == ["+a", "-a"]
            assert mirror.reflector.lists == 1
            assert mirror.troubles[-1] is None

    run(main)


def test_a_silent_watch_is_left_when_bookmarks_stop_coming():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(version=9))
        mirror.server.on("watch", a_watch(bookmark(10), bookmark(11), every_s=60, then="silence"), a_long_watch())
        async with mirror:
            await asyncio.sleep(300)
            assert mirror.asked_from() == ["9", "11"]
            assert mirror.server.times[-1] == pytest.approx(120 + 150, abs=2)
            assert mirror.troubles[0] == "watch nodes: the server has been silent for 150 s"

    run(main)


def test_a_quiet_resource_without_bookmarks_is_not_taken_for_dead():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(version=9))
        mirror.server.on("watch", a_long_watch(), a_long_watch())
        async with mirror:
            await asyncio.sleep(285)
            assert len(mirror.server.asked("watch")) == 1
            assert mirror.troubles == []

    run(main)


def test_a_watch_whose_end_is_overdue_is_left():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(version=9))
        mirror.server.on("watch", a_watch(then="silence"), a_long_watch())
        async with mirror:
            timeout_s = 580
            await asyncio.sleep(timeout_s + 20)
            assert len(mirror.server.asked("watch")) == 2
            assert mirror.reflector.lists == 1

    run(main)


def test_a_list_that_hangs_is_given_up():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", hangs(), a_page(version=9))
        mirror.server.on("watch", a_long_watch())
        async with mirror:
            await asyncio.sleep(33)
            assert mirror.reflector.synced.is_set()
            assert mirror.troubles == ["list nodes: no answer within 30 s", None]

    run(main)


def test_a_missing_right_is_told_once_until_it_is_granted():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        said = 'nodes is forbidden: User "x" cannot list resource "nodes" in API group "" at the cluster scope'
        mirror.server.on("list", *(refusal(403, said) for _ in range(6)), a_page(version=9))
        mirror.server.on("watch", a_long_watch())
        async with mirror:
            await asyncio.sleep(120)
            assert mirror.troubles == [f"list nodes: forbidden: {said}; needs verb list on nodes", None]
            assert mirror.reflector.synced.is_set()

    run(main)


def test_a_resource_that_is_not_installed_yet_is_waited_for_and_told():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", *(answer(b"404 page not found", 404) for _ in range(4)), a_page(version=9))
        mirror.server.on("watch", a_long_watch())
        async with mirror:
            await asyncio.sleep(5)
            assert mirror.reflector.state is State.ABSENT
            assert not mirror.reflector.synced.is_set()
            assert "is its CustomResourceDefinition installed?" in mirror.troubles[0]
            await asyncio.sleep(60)
            assert mirror.reflector.synced.is_set()
            assert mirror.troubles[-1] is None

    run(main)


def test_an_optional_resource_may_be_missing_and_is_looked_for_when_woken():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock, optional=True)
        mirror.server.on("list", *(answer(b"404 page not found", 404) for _ in range(9)))
        async with mirror:
            await asyncio.sleep(1)
            assert mirror.reflector.synced.is_set()
            assert mirror.troubles == []
            await asyncio.sleep(600)
            assert len(mirror.server.requests) < 10  # an idle cluster is left in peace
            mirror.server._steps["list"].clear()
            mirror.server.on("list", a_page(an_object("a", 1), version=9))
            mirror.server.on("watch", a_long_watch())
            mirror.reflector.wake()
            await asyncio.sleep(1)
            assert mirror.changes == ["+a"]

    run(main)


def test_an_optional_resource_that_is_uninstalled_leaves_an_empty_store():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock, optional=True)
        mirror.server.on("list", a_page(an_object("a", 1), version=9), *(refusal(404) for _ in range(3)))
        mirror.server.on("watch", refusal(404, "gone"))
        async with mirror:
            await asyncio.sleep(5)
            assert mirror.changes == ["+a", "-a"]
            assert mirror.reflector.state is State.ABSENT

    run(main)


def test_a_server_that_asks_for_patience_gets_it():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(version=9))
        mirror.server.on("watch", refusal(429, "slow down", **{"Retry-After": "20"}), a_long_watch())
        async with mirror:
            await asyncio.sleep(60)
            first, second = mirror.server.times[-2:]
            assert second - first >= 20

    run(main)


def test_a_server_that_ends_each_watch_at_once_is_not_hammered():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(version=9))
        mirror.server.on("watch", *(a_watch() for _ in range(100)))
        async with mirror:
            await asyncio.sleep(300)
            assert len(mirror.server.asked("watch")) < 45
            assert mirror.troubles == ["watch nodes: the server ended it at once and said nothing"]

    run(main)


def test_one_unreadable_object_does_not_hide_the_others():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(labelled("a", 1, "good"), an_object("b", 2, labels=["bad"]), version=9))
        mirror.server.on(
            "watch",
            a_long_watch(
                line("MODIFIED", an_object("a", 10, labels=["bad"])),
                line("ADDED", labelled("c", 11, "good")),
                line("DELETED", an_object("b", 12, labels=["bad"])),
            ),
        )
        async with mirror:
            await asyncio.sleep(1)
            assert mirror.changes == ["+a", "+c"]
            assert mirror.store.get("a").metadata.labels == {"l": "good"}
            assert mirror.unreadable == ["b", "a"]

    run(main)


def test_a_server_that_sends_no_objects_is_told_and_asked_again():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", answer({"metadata": {"resourceVersion": "9"}, "items": [7]}), a_page(version=9))
        mirror.server.on("watch", a_watch(line("ADDED", {"kind": "Node"})), a_long_watch())
        async with mirror:
            await asyncio.sleep(20)
            assert len(mirror.troubles) == 4
            assert all("the server sent no object" in said for said in mirror.troubles[::2])
            assert mirror.troubles[1::2] == [None, None]

    run(main)


def test_our_own_write_is_not_undone_by_the_events_before_it():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(labelled("a", 1, "old"), version=9))
        mirror.server.on(
            "watch",
            a_watch(
                line("MODIFIED", labelled("a", 11, "middle")),
                line("MODIFIED", labelled("a", 12, "ours")),
                every_s=1,
                after_s=99,
            ),
        )
        async with mirror:
            await mirror.reflector.synced.wait()
            mirror.store.put(
                objects.decoder(Labelled)(
                    b'{"metadata":{"name":"a","uid":"uid-a","resourceVersion":"12","labels":{"l":"ours"}}}'
                )
            )
            await asyncio.sleep(5)
            assert mirror.changes == ["+a", "~a"]
            assert mirror.store.get("a").metadata.labels == {"l": "ours"}

    run(main)


def test_a_restored_cluster_is_believed_though_its_versions_are_lower():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on(
            "list",
            a_page(labelled("a", 1000, "new"), an_object("b", 1001), version=2000),
            a_page(labelled("a", 500, "old"), version=900),
        )
        mirror.server.on("watch", refusal(410, "too old"), a_long_watch())
        async with mirror:
            await asyncio.sleep(10)
            assert mirror.changes == ["+a", "+b", "~a", "-b"]
            assert mirror.store.get("a").metadata.labels == {"l": "old"}

    run(main)


def test_a_decoder_that_keeps_more_is_used_for_everything_at_once():
    async def main(clock: VirtualClock) -> None:
        nothing = objects.decoder(Labelled, objects.Keep(labels=()))
        mirror = Mirror(clock, decode=nothing)
        page = [labelled("a", 1, "x")]
        mirror.server.on("list", a_page(*page, version=9), a_page(*page, version=9))
        mirror.server.on("watch", a_long_watch(), a_long_watch())
        async with mirror:
            await asyncio.sleep(100)
            assert mirror.store.get("a").metadata.labels == {}
            mirror.reflector.list_again(objects.decoder(Labelled))
            await asyncio.sleep(0.1)
            assert mirror.store.get("a").metadata.labels == {"l": "x"}
            assert mirror.changes == ["+a", "~a"]
            assert mirror.troubles == []

    run(main)


def test_the_age_of_the_picture_is_known():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", a_page(version=9))
        mirror.server.on("watch", a_watch(bookmark(10), every_s=60, then="silence"), *(hangs() for _ in range(9)))
        async with mirror:
            await asyncio.sleep(200)
            assert clock.monotonic() - mirror.reflector.heard_at == pytest.approx(140)

    run(main)


def test_a_reflector_that_is_cancelled_gives_its_connection_back():
    async def main(clock: VirtualClock) -> None:
        closed = []

        class Body(httpx2.AsyncByteStream):
            async def __aiter__(self):
                await asyncio.sleep(1000)
                yield b""

            async def aclose(self) -> None:
                closed.append(True)

        mirror = Mirror(clock)
        mirror.server.on("list", a_page(version=9))
        mirror.server.on("watch", httpx2.Response(200, stream=Body()))
        async with mirror:
            await asyncio.sleep(5)
        assert closed == [True]

    run(main)


def test_errors_are_api_errors_with_a_sentence():
    async def main(clock: VirtualClock) -> None:
        mirror = Mirror(clock)
        mirror.server.on("list", answer(b"<html>", 200), a_page(version=9))
        mirror.server.on("watch", a_long_watch())
        async with mirror:
            await asyncio.sleep(0.1)
            assert isinstance(mirror.reflector.trouble, ApiError)
            await asyncio.sleep(5)
            assert mirror.reflector.trouble is None

    run(main)
