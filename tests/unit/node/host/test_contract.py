"""What agents may rely on, whatever host they have."""

import asyncio
import errno
from pathlib import Path

import pytest

from tests.unit.node.host.scenes import BOOT, FakeScene, RealScene, Scene


@pytest.fixture(params=["real", "fake"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    if request.param == "fake":
        return FakeScene()
    root = tmp_path / "root"
    root.mkdir()
    return RealScene(root)


def test_a_file_is_read_up_to_the_limit(scene: Scene) -> None:
    scene.put("/etc/os-release", "ID=openEuler\n")
    assert scene.host.read("/etc/os-release") == b"ID=openEuler\n"
    assert scene.host.read("/etc/os-release", limit=2) == b"ID"


def test_what_is_not_there_is_named_in_the_error(scene: Scene) -> None:
    with pytest.raises(FileNotFoundError) as failed:
        scene.host.read("/etc/nothing")
    assert "/etc/nothing" in str(failed.value)
    assert scene.host.stat("/etc/nothing") is None


def test_a_relative_path_is_a_mistake_of_ours(scene: Scene) -> None:
    with pytest.raises(ValueError, match="not an absolute path"):
        scene.host.read("etc/os-release")


def test_absolute_links_stay_on_the_host(scene: Scene) -> None:
    scene.put("/run/ascend/x", "of the host")
    scene.put_dir("/var")
    scene.put_link("/var/run", "/run")
    assert scene.host.read("/var/run/ascend/x") == b"of the host"
    scene.host.write_atomically("/var/run/ascend/y", b"new")
    assert scene.host.read("/run/ascend/y") == b"new"


def test_no_link_leads_out_of_the_host(scene: Scene) -> None:
    scene.put("/passwd", "of the host")
    scene.put_dir("/etc")
    scene.put_link("/etc/passwd", "../../../../../passwd")
    assert scene.host.read("/etc/passwd") == b"of the host"


def test_a_circle_of_links_is_an_error(scene: Scene) -> None:
    scene.put_link("/one", "/two")
    scene.put_link("/two", "/one")
    with pytest.raises(OSError) as failed:  # the number says which
        scene.host.read("/one")
    assert failed.value.errno == errno.ELOOP


def test_a_link_is_told_from_what_it_leads_to(scene: Scene) -> None:
    scene.put("/a", "content")
    scene.put_link("/b", "a")
    link, behind = scene.host.stat("/b", follow=False), scene.host.stat("/b")
    assert link is not None
    assert behind is not None
    assert (link.kind, behind.kind, behind.size) == ("link", "file", 7)
    assert scene.host.read_link("/b") == "a"


def test_a_directory_tells_of_its_own_entries_by_name(scene: Scene) -> None:
    scene.put("/d/b", "12", mode=0o600)
    scene.put("/d/a/deep")
    assert [(entry.name, entry.kind) for entry in scene.host.list("/d")] == [("a", "dir"), ("b", "file")]
    assert (scene.host.list("/d")[1].size, scene.host.list("/d")[1].mode) == (2, 0o600)


def test_a_file_is_replaced_with_its_new_mode(scene: Scene) -> None:
    scene.put("/run/state", "old")
    before = scene.host.stat("/run/state")
    scene.host.write_atomically("/run/state", b"new", mode=0o640)
    after = scene.host.stat("/run/state")
    assert before is not None
    assert after is not None
    assert scene.host.read("/run/state") == b"new"
    assert after.mode == 0o640
    assert (before.inode, before.mtime_ns) != (after.inode, after.mtime_ns)
    assert [entry.name for entry in scene.host.list("/run")] == ["state"]


def test_a_directory_is_never_replaced_by_a_file(scene: Scene) -> None:
    scene.put("/run/npu-smi/inside")
    with pytest.raises(IsADirectoryError):
        scene.host.write_atomically("/run/npu-smi", b"x")
    assert [entry.name for entry in scene.host.list("/run")] == ["npu-smi"]


def test_a_link_is_replaced_in_one_step_and_a_directory_never(scene: Scene) -> None:
    scene.put_dir("/v")
    scene.put_dir("/real")
    scene.host.link_atomically("/driver", "v/1")
    scene.host.link_atomically("/driver", "v/2")
    assert scene.host.read_link("/driver") == "v/2"
    with pytest.raises(IsADirectoryError):
        scene.host.link_atomically("/real", "v/2")


def test_a_rename_takes_a_whole_directory_along(scene: Scene) -> None:
    scene.put("/v/staging/lib/a.so", "x")
    scene.host.rename("/v/staging", "/v/25.5.0")
    assert scene.host.read("/v/25.5.0/lib/a.so") == b"x"
    assert scene.host.stat("/v/staging") is None


def test_a_directory_that_is_not_empty_is_in_the_way_of_a_rename(scene: Scene) -> None:
    scene.put("/old/a")
    scene.put("/new/b")
    with pytest.raises(OSError) as failed:  # the number says which
        scene.host.rename("/old", "/new")
    assert failed.value.errno in (errno.ENOTEMPTY, errno.EEXIST)


def test_directories_are_made_with_their_parents_and_keep_their_modes(scene: Scene) -> None:
    scene.host.make_dirs("/var/lib/ascend", mode=0o750)
    scene.host.make_dirs("/var/lib/ascend/evidence", mode=0o700)
    made, below = scene.host.stat("/var/lib/ascend"), scene.host.stat("/var/lib/ascend/evidence")
    assert made is not None
    assert below is not None
    assert (made.mode, below.mode) == (0o750, 0o700)


def test_a_file_in_the_way_of_a_directory_is_an_error(scene: Scene) -> None:
    scene.put("/var/lib/ascend")
    with pytest.raises(OSError):  # NotADirectoryError or FileExistsError, by where the file is
        scene.host.make_dirs("/var/lib/ascend/evidence")


def test_removing_takes_what_is_inside_but_not_what_links_lead_to(scene: Scene) -> None:
    scene.put("/keep/me", "kept")
    scene.put("/v/1/a")
    scene.put_link("/v/1/link", "/keep")
    scene.host.remove("/v/1")
    scene.host.remove("/v/1")
    assert scene.host.stat("/v/1") is None
    assert scene.host.read("/keep/me") == b"kept"


async def _ran(scene: Scene, *command: str, timeout_s: float = 20.0, stdin: bytes = b"") -> tuple[int, str, str, bool]:
    ran = await scene.host.run(command, timeout_s=timeout_s, stdin=stdin, env={"CHIP": "3"})
    return ran.code, ran.out, ran.err, ran.timed_out


def test_a_program_tells_its_status_and_both_its_outputs(scene: Scene) -> None:
    program = scene.program("greets")
    assert asyncio.run(_ran(scene, program, "node")) == (3, "hello node\n", "careful\n", False)


def test_a_program_runs_in_plain_english_and_knows_nothing_of_our_environment(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "token")
    program = scene.program("tells-language")
    assert asyncio.run(_ran(scene, program))[1] == "C none 3\n"


def test_a_program_gets_its_input(scene: Scene) -> None:
    program = scene.program("repeats")
    assert asyncio.run(_ran(scene, program, stdin=b"Y\n"))[1] == "Y\n"


def test_a_program_that_hangs_is_ended_at_its_limit(scene: Scene) -> None:
    program = scene.program("hangs")
    code, _, _, timed_out = asyncio.run(_ran(scene, program, timeout_s=0.1))
    assert timed_out
    assert code != 0
    assert scene.host.stuck() == ()


def test_a_program_that_is_missing_is_told_from_one_that_cannot_be_run(scene: Scene) -> None:
    scene.put("/bin/plain", "not executable")
    scene.put_dir("/bin/folder")
    with pytest.raises(FileNotFoundError):
        asyncio.run(_ran(scene, scene.as_command("/bin/missing")))
    for name in ("plain", "folder"):
        with pytest.raises(PermissionError):
            asyncio.run(_ran(scene, scene.as_command(f"/bin/{name}")))


def test_files_are_read_as_a_process_sees_them(scene: Scene) -> None:
    scene.put("/etc/shadow", "of the host")
    scene.put("/proc/77/root/opt/cann/version.cfg", "8.0.0")
    scene.put("/proc/77/root/etc/hostname", "of the container")
    scene.put_link("/proc/77/root/opt/latest", "/opt/cann")
    scene.put_link("/proc/77/root/opt/evil", "../../../../../etc/shadow")
    scene.put_dir("/proc/77/root/opt/folder")
    scene.put_fifo("/proc/77/root/opt/fifo")
    paths = ("/opt/latest/version.cfg", "/opt/evil", "/opt/folder", "/opt/fifo", "/etc/hostname", "/missing")
    found = asyncio.run(scene.host.read_as(77, paths, timeout_s=20.0))
    assert found == {"/opt/latest/version.cfg": b"8.0.0", "/etc/hostname": b"of the container"}


def test_files_of_a_process_that_is_gone_are_nothing(scene: Scene) -> None:
    assert asyncio.run(scene.host.read_as(78, ["/etc/hostname"], timeout_s=20.0)) == {}


def test_a_boot_has_its_id(scene: Scene) -> None:
    assert scene.host.boot_id() == BOOT
