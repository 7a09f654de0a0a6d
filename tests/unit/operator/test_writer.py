import asyncio

from npu_operator.kube.api import Conflict, Forbidden, Unreachable
from npu_operator.operator.writer import Urgency, Writer


class Log:
    """Writes that can be held back, and what became of them."""

    def __init__(self):
        self.began: list[str] = []
        self.done: list[tuple[str, object, bool]] = []
        self.gate = asyncio.Event()
        self.most_at_once = 0
        self._now = 0

    def write(self, name, *, error=None, held=False):
        async def act():
            self.began.append(name)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            if held:
                await self.gate.wait()
            await asyncio.sleep(0)
            self._now -= 1
            if error is not None:
                raise error

        return act

    def on_done(self, key, error, again):
        self.done.append((key, error, again))


async def _until(condition):
    while not condition():  # noqa: ASYNC110  # the conditions are plain values
        await asyncio.sleep(0)


def run(scenario, workers=2):
    async def main():
        log = Log()
        writer = Writer(workers=workers, on_done=log.on_done)
        working = asyncio.create_task(writer.run())
        try:
            async with asyncio.timeout(20):
                await scenario(log, writer)
        finally:
            working.cancel()
        return log

    return asyncio.run(main())


def test_what_is_urgent_goes_first():
    async def scenario(log, writer):
        writer.wish(Urgency.REPORT, "r", log.write("report"), "")
        writer.wish(Urgency.NODE, "n", log.write("node"), "")
        writer.wish(Urgency.OBJECT, "o", log.write("object"), "")
        await _until(lambda: len(log.done) == 3)

    assert run(scenario, workers=1).began == ["object", "node", "report"]


def test_no_more_writes_at_once_than_there_are_workers():
    async def scenario(log, writer):
        for number in range(20):
            writer.wish(Urgency.NODE, str(number), log.write(str(number)), "")
        await _until(lambda: len(log.done) == 20)

    assert run(scenario, workers=3).most_at_once == 3


def test_a_newer_wish_replaces_one_that_has_not_begun():
    async def scenario(log, writer):
        writer.wish(Urgency.NODE, "a", log.write("old"), "")
        writer.wish(Urgency.NODE, "a", log.write("new"), "")
        await _until(lambda: log.done)

    assert run(scenario).began == ["new"]


def test_a_wish_made_from_a_picture_without_the_answer_is_dropped_and_told():
    async def scenario(log, writer):
        writer.wish(Urgency.NODE, "a", log.write("first", held=True), "")
        await _until(lambda: log.began)
        writer.wish(Urgency.NODE, "a", log.write("second"), "")
        log.gate.set()
        await _until(lambda: log.done)

    log = run(scenario)
    assert log.began == ["first"]
    assert log.done == [("a", None, True)]


def test_a_withdrawn_wish_is_not_carried_out():
    async def scenario(log, writer):
        writer.wish(Urgency.NODE, "a", log.write("a"), "")
        writer.withdraw(Urgency.NODE, "a")
        writer.wish(Urgency.NODE, "b", log.write("b"), "")
        await _until(lambda: log.done)

    assert run(scenario).began == ["b"]


def test_a_lost_race_is_told_and_is_no_error_that_stays():
    conflict = Conflict("patch nodes a: the object has been modified", status=409)

    async def scenario(log, writer):
        writer.wish(Urgency.NODE, "a", log.write("a", error=conflict), "")
        await _until(lambda: log.done)
        assert writer.errors == {}

    assert run(scenario).done == [("a", conflict, False)]


def test_a_refusal_stays_until_a_write_for_the_key_succeeds():
    refused = Forbidden("apply daemonsets.apps x: forbidden", status=403)

    async def scenario(log, writer):
        writer.wish(Urgency.OBJECT, "o", log.write("o", error=refused), "")
        await _until(lambda: log.done)
        assert writer.errors == {"o": refused}
        writer.wish(Urgency.OBJECT, "o", log.write("o"), "")
        await _until(lambda: len(log.done) == 2)
        assert writer.errors == {}

    run(scenario)


def test_an_error_goes_when_nothing_is_to_be_written_any_more():
    lost = Unreachable("apply daemonsets.apps x: no answer in time")

    async def scenario(log, writer):
        writer.wish(Urgency.OBJECT, "o", log.write("o", error=lost), "")
        await _until(lambda: log.done)
        assert writer.withdraw(Urgency.OBJECT, "o")
        assert writer.errors == {}
        assert not writer.withdraw(Urgency.OBJECT, "o")

    run(scenario)
