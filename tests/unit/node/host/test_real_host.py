"""What only a real host has: namespaces, the kernel, and processes that do not die."""

import asyncio
import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from npu_operator.node import kmsg
from npu_operator.node.host import Ran
from npu_operator.node.real_host import ENTER_HOST, RealHost

FREEZER = Path("/sys/fs/cgroup/freezer")


def _enters_like_nsenter(folder: Path, words: str, code: int) -> tuple[str, ...]:
    """A stand-in for nsenter that fails in one way."""
    program = folder / "nsenter"
    program.write_text(f"#!/bin/sh\necho '{program}: {words}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return (str(program),)


@pytest.mark.parametrize(
    ("words", "code", "expected", "told"),
    [
        ("failed to execute npu-smi: No such file or directory", 127, FileNotFoundError, "npu-smi"),
        ("failed to execute npu-smi: Permission denied", 126, PermissionError, "npu-smi"),
        ("cannot open /proc/1/ns/mnt: Permission denied", 1, PermissionError, "mount namespace"),
    ],
)
def test_what_nsenter_says_becomes_an_error_with_the_tool_in_it(
    tmp_path: Path, words: str, code: int, expected: type[OSError], told: str
) -> None:
    host = RealHost(tmp_path, enter=_enters_like_nsenter(tmp_path, words, code))
    with pytest.raises(expected, match=told):
        asyncio.run(host.run(["npu-smi", "info"], timeout_s=20.0))


def test_a_tool_that_fails_by_itself_is_no_failure_to_enter(tmp_path: Path) -> None:
    host = RealHost(tmp_path, enter=("env",))
    ran = asyncio.run(host.run(["sh", "-c", "echo 'env: of the tool'; echo 'env: too' >&2; exit 127"], timeout_s=20.0))
    assert (ran.code, ran.out) == (127, "env: of the tool\n")


def test_tools_run_in_the_mount_namespace_of_process_1() -> None:
    script = """
        import asyncio, sys
        from pathlib import Path
        from npu_operator.node.real_host import RealHost
        host = RealHost(Path("/"))
        print(asyncio.run(host.run(["cat", "/mnt/of-process-1"], timeout_s=20.0)).out)
        try:
            asyncio.run(host.run(["/etc"], timeout_s=20.0))
        except PermissionError as error:
            print(error.filename)
    """
    # Process 1 of a pid namespace of its own sees a file that the agent, in another mount namespace, does not.
    agent = [sys.executable, "-c", textwrap.dedent(script)]
    hidden = """unshare --mount sh -c 'umount /mnt; exec "$@"' sh "$@" """
    inside = f"mount -t tmpfs none /mnt && echo seen >/mnt/of-process-1 && {hidden}"
    box = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", inside, "sh", *agent]
    ran = subprocess.run(box, capture_output=True, text=True, check=False)
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"no namespaces here: {ran.stderr.strip()}")
    assert ran.stdout.split() == ["seen", "/etc"], ran.stderr


@contextlib.contextmanager
def _freezer() -> Iterator[Path]:
    group = FREEZER / f"npu-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no freezer (cgroup v1), the only way to make a process that SIGKILL does not end: {error}")
    try:
        yield group
    finally:
        (group / "freezer.state").write_text("THAWED")
        with contextlib.suppress(OSError):
            group.rmdir()


async def _stuck_until_thawed(host: RealHost, group: Path) -> tuple[Ran, list[str], list[str]]:
    freezes_itself = f"echo $$ >{group}/cgroup.procs; echo FROZEN >{group}/freezer.state; sleep 60"
    ran = await host.run(["sh", "-c", freezes_itself], timeout_s=0.5)
    while_frozen = [one.command for one in host.stuck()]
    (group / "freezer.state").write_text("THAWED")
    async with asyncio.timeout(20):
        while host.stuck():  # noqa: ASYNC110  # the kernel ends it
            await asyncio.sleep(0.01)
    return ran, while_frozen, [one.command for one in host.stuck()]


def test_a_process_that_does_not_die_is_given_up_and_known_as_long_as_it_lives(tmp_path: Path) -> None:
    with _freezer() as group:
        ran, while_frozen, afterwards = asyncio.run(_stuck_until_thawed(RealHost(tmp_path, enter=()), group))
    assert ran.timed_out
    assert ran.code < 0
    assert [command[:5] for command in while_frozen] == ["sh -c"]
    assert afterwards == []


def test_a_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    host = RealHost(tmp_path, enter=())
    told = tmp_path / "pid"

    async def cancelled() -> int:
        task = asyncio.create_task(
            host.run(["sh", "-c", f"echo $$ >{told}.new; mv {told}.new {told}; sleep 60"], timeout_s=60)
        )
        while not told.exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return int(told.read_text())

    pid = asyncio.run(cancelled())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_host_is_entered_by_the_first_process() -> None:
    assert ENTER_HOST[:3] == ("nsenter", "--target", "1")


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (b"6,339,5140900,-;NET: Registered\n", "[    5.140900] NET: Registered"),
        (b"5,1,1,-,caller=T1;a\\x0ab\n SUBSYSTEM=pci\n", "[    0.000001] a\nb"),
        (b"no record at all", "no record at all"),
    ],
)
def test_a_kernel_record_is_printed_as_dmesg_does(record: bytes, line: str) -> None:
    assert kmsg.line_of(record) == line


def test_a_kernel_log_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert RealHost(tmp_path, enter=()).kernel_log() == ""


def test_the_kernel_log_of_this_machine_is_read_to_its_end() -> None:
    log = RealHost(Path("/"), enter=()).kernel_log(limit=1000)
    if not log:
        pytest.skip("/dev/kmsg cannot be read here")
    assert len(log.encode()) <= 1000
    assert log.startswith("[")
