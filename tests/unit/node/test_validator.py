"""The validator as a whole: a state file, a container's folder, a real child, a verdict file."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from npu_operator.model.npunode import DriverFound, Validation
from npu_operator.model.reasons import Reason
from npu_operator.node import validator
from npu_operator.node.reader import boot_seconds
from npu_operator.node.state import ChipUse, NodeState
from npu_operator.node.validator import Report, Settings, waits_for
from tests.unit.node.containers import Container, an_npu_smi_table
from tests.unit.node.states import BOOT, DIGEST, OTHER_BOOT, VERSION, a_chip, a_state, write

SOON_S = 30.0  # the child is a Python of its own; far above what it takes


class Node:
    """A node whose agent has paused its probe, and a validator with its container."""

    def __init__(self, folder: Path) -> None:
        self.container = Container(folder / "root")
        self.state_file = folder / "npu-state.json"
        self.boot_id_file = folder / "boot_id"
        self.boot_id_file.write_text(BOOT)
        self.report_dir = folder / "validator"
        self.report_dir.mkdir()
        self.runs_file = folder / "runs"

    @property
    def verdict_file(self) -> Path:
        return self.report_dir / validator.VERDICT_FILE

    def tell(self, **about: object) -> None:
        write(self.state_file, paused(**about))

    def settings(self, **about: object) -> Settings:
        usual = Settings(
            report_dir=self.report_dir,
            state_file=self.state_file,
            boot_id_file=self.boot_id_file,
            root=self.container.root,
            poll_s=0.02,
            retry_s=0.0,
            trial_s=SOON_S,
        )
        return msgspec.structs.replace(usual, **about)

    def counts_runs(self) -> None:
        """npu-smi notes each run."""
        table = an_npu_smi_table()
        self.container.npu_smi(f"echo run >> {self.runs_file}\ncat <<'END'\n{table}END")

    @property
    def runs(self) -> int:
        return len(self.runs_file.read_text().splitlines()) if self.runs_file.exists() else 0

    def verdict(self) -> Validation | None:
        try:
            return validator.decode(self.verdict_file.read_bytes()).validation
        except FileNotFoundError:
            return None

    async def is_judged(self, passed: bool) -> Validation:
        """Wait for such a verdict."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SOON_S):
                while (verdict := self.verdict()) is None or verdict.passed is not passed:  # noqa: ASYNC110  # a file
                    await asyncio.sleep(0.02)
        verdict = self.verdict()
        assert verdict is not None, "no verdict"
        assert verdict.passed is passed, verdict
        return verdict


def paused(**about: object) -> NodeState:
    return a_state(**{"probe_paused": True, "in_service": False, **about})  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def runs(settings: Settings) -> AsyncIterator[None]:
    task = asyncio.create_task(validator.main(settings))
    try:
        yield
        assert not task.done(), f"the validator ended: {task.exception()}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def play(folder: Path, story: Callable[[Node], Awaitable[None]], **about: object) -> None:
    async def whole() -> None:
        node = Node(folder)
        await story(node)

    asyncio.run(whole())


# --- when it is due


def a_report(passed: bool, **about: object) -> Report:
    usual = {"passed": passed, "boot_id": BOOT, "version": VERSION, "digest": DIGEST}
    return Report(validation=Validation(**{**usual, **about}), tried_at_s=0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "last", "words"),
    [
        (paused(), None, ""),
        (paused(driver=DriverFound()), None, "no driver is loaded"),
        (paused(count=0), None, "no chip answers"),
        (paused(probe_paused=False), None, "the node agent has not paused its probe"),
        (paused(), a_report(True), "the driver has passed in this boot"),
        (paused(), a_report(True, boot_id=OTHER_BOOT), ""),
        (paused(), a_report(True, version="24.1.0"), ""),
        (paused(), a_report(True, digest="ba9876543210"), ""),
        (paused(), a_report(False), ""),
        (
            a_state(a_chip(0), a_chip(1, users=(ChipUse(namespace="ml", pod="train-0"),)), probe_paused=True),
            None,
            "pod ml/train-0 has Ascend910-1",
        ),
    ],
    ids=[
        "paused",
        "no driver",
        "no chips",
        "not paused",
        "passed",
        "passed in another boot",
        "another version passed",
        "another digest passed",
        "failed",
        "in use",
    ],
)
def test_it_tries_only_when_it_is_due(state: NodeState, last: Report | None, words: str) -> None:
    assert waits_for(state, last, rests=False) == words


def test_it_rests_between_two_tries() -> None:
    assert waits_for(paused(), a_report(False), rests=True) == "the last try was a moment ago"


# --- the whole


def test_a_node_that_works_gets_a_passing_verdict_once(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.counts_runs()
        node.tell()
        async with runs(node.settings()):
            verdict = await node.is_judged(True)
            assert (verdict.boot_id, verdict.version, verdict.digest) == (BOOT, VERSION, DIGEST)
            assert verdict.chips == 8
            first = node.verdict_file.stat().st_ino
            node.tell(driver=DriverFound(version="25.6.0", loaded=True))  # and only another driver is tried again
            await node.is_judged(False)
            assert node.verdict_file.stat().st_ino != first
        assert node.runs >= 2

    play(tmp_path, story)


def test_a_validator_that_starts_anew_does_not_try_again(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.counts_runs()
        node.tell()
        async with runs(node.settings()):
            await node.is_judged(True)
        again = validator.Validator(node.settings())
        await again._look()
        assert node.runs == 1
        assert await again.readiness() == ""

    play(tmp_path, story)


def test_nothing_is_opened_while_the_probe_is_not_paused(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.counts_runs()
        node.tell(probe_paused=False)
        one = validator.Validator(node.settings())
        await one._look()
        assert node.runs == 0
        assert await one.readiness() == ""
        node.tell()
        await one._look()
        assert node.runs == 1

    play(tmp_path, story)


def test_a_failed_verdict_heals_when_the_cause_is_gone(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.container.npu_smi("echo 'dcmi module initialize failed. ret is -8005'; exit 187")
        node.tell()
        async with runs(node.settings()):
            verdict = await node.is_judged(False)
            assert verdict.reason == Reason.ValidationFailed
            assert "-8005" in verdict.message
            node.container.npu_smi_prints(an_npu_smi_table())
            await node.is_judged(True)

    play(tmp_path, story)


def test_after_a_failed_try_it_rests_and_says_why_it_is_not_ready(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.container.npu_smi(f"echo run >> {node.runs_file}; echo nonsense")
        node.tell()
        one = validator.Validator(node.settings(retry_s=3600.0))
        for _ in range(3):
            await one._look()
        assert node.runs == 1
        assert "npu-smi says" in await one.readiness()
        another_life = validator.Validator(node.settings(retry_s=3600.0))
        await another_life._look()
        assert node.runs == 1

    play(tmp_path, story)


def test_chips_in_use_are_left_for_later_without_a_verdict(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.container.npu_smi(
            "echo 'dcmi model initialized failed, because the device is used. ret is -8020'; exit 172"
        )
        node.tell()
        one = validator.Validator(node.settings())
        await one._look()
        assert node.verdict() is None
        node.container.npu_smi_prints(an_npu_smi_table())
        await one._look()
        verdict = node.verdict()
        assert verdict is not None
        assert verdict.passed

    play(tmp_path, story)


def test_a_trial_that_hangs_is_ended_with_its_tools(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.container.npu_smi(f"echo $$ > {node.runs_file}; exec sleep 600")
        node.tell()
        one = validator.Validator(node.settings(trial_s=0.5))
        await one._look()
        verdict = node.verdict()
        assert verdict is not None
        assert verdict.reason == Reason.ToolWedged
        assert "did not end within 0.5 s" in verdict.message
        if node.runs_file.exists():
            tool = Path("/proc") / node.runs_file.read_text().strip()
            await _until(lambda: not _lives(tool))
        assert one._child is not None
        await asyncio.wait_for(one._child.wait(), SOON_S)

    play(tmp_path, story)


def test_no_second_trial_begins_while_one_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Node) -> None:
        node.container.npu_smi(f"echo run >> {node.runs_file}; exec sleep 600")
        node.tell()
        one = validator.Validator(node.settings(trial_s=0.5))
        kill = one._kill
        monkeypatch.setattr(one, "_kill", lambda: None)  # as a process in the kernel, which no signal reaches
        try:
            for _ in range(3):
                await one._look()
            assert one._child is not None
            assert one._child.returncode is None
            assert node.runs <= 1
            assert "stuck in the kernel" in (one._waits_for or "")
        finally:
            kill()
        assert one._child is not None
        await asyncio.wait_for(one._child.wait(), SOON_S)
        node.container.npu_smi_prints(an_npu_smi_table())
        await one._look()
        verdict = node.verdict()
        assert verdict is not None

    play(tmp_path, story)


def test_a_verdict_that_cannot_be_written_is_told_and_written_later(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.counts_runs()
        node.tell()
        away = node.report_dir.with_suffix(".away")
        node.report_dir.rename(away)
        one = validator.Validator(node.settings())
        await one._look()
        assert "the verdict cannot be written" in await one.readiness()
        away.rename(node.report_dir)
        await one._look()
        verdict = node.verdict()
        assert verdict is not None
        assert verdict.passed
        assert node.runs == 1
        assert await one.readiness() == ""

    play(tmp_path, story)


@pytest.mark.parametrize("content", [b"", b"{", b'{"schema": 99, "validation": {}, "triedAtS": 1}'])
def test_a_broken_verdict_of_an_earlier_life_is_given_anew(tmp_path: Path, content: bytes) -> None:
    async def story(node: Node) -> None:
        node.verdict_file.write_bytes(content)
        node.tell()
        one = validator.Validator(node.settings())
        await one._look()
        verdict = node.verdict()
        assert verdict is not None
        assert verdict.passed

    play(tmp_path, story)


@pytest.mark.parametrize("boot_id", [OTHER_BOOT, ""])
def test_a_state_file_of_another_boot_is_not_acted_on(tmp_path: Path, boot_id: str) -> None:
    async def story(node: Node) -> None:
        node.counts_runs()
        node.tell(boot_id=boot_id)
        one = validator.Validator(node.settings())
        await one._look()
        assert node.runs == 0
        assert BOOT in await one.readiness()

    play(tmp_path, story)


def test_the_verdict_file_says_when_it_was_tried(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.tell()
        before = boot_seconds()
        one = validator.Validator(node.settings())
        await one._look()
        written = validator.decode(node.verdict_file.read_bytes())
        assert written.schema == validator.SCHEMA
        assert before <= written.tried_at_s <= boot_seconds()
        assert node.verdict_file.stat().st_mode & 0o777 == 0o644
        assert [path.name for path in node.report_dir.iterdir()] == [validator.VERDICT_FILE]

    play(tmp_path, story)


def test_the_environment_of_the_pod_is_understood() -> None:
    settings = validator.from_environment({"NPU_REPORT_DIR": "/x", "NPU_HEALTH_SOCKET": "/run/agent/health.sock"})
    assert settings == Settings(report_dir=Path("/x"), health_socket=Path("/run/agent/health.sock"))
    assert validator.from_environment({}) == Settings(report_dir=Path("/run/ascend/validator"))


def test_the_validator_loads_no_library_that_it_does_not_use() -> None:
    code = (
        "import sys, npu_operator.node.validator\n"
        "heavy = {'grpc', 'google.protobuf', 'lightkube', 'httpx2', 'httpx', 'cyclopts', 'tomlkit', 'yaml', 'rich',"
        " 'prometheus_client'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout.strip() == "[]"


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110  # a process of another session
            await asyncio.sleep(0.02)


def _lives(process: Path) -> bool:
    """A zombie that nobody has waited for is dead."""
    try:
        return ") Z " not in (process / "stat").read_text()
    except FileNotFoundError:
        return False
