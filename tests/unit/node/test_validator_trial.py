"""The child against folders that look like a container, and tools that behave like the vendor's."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from npu_operator.node.state import PortAddress
from npu_operator.node.validator_trial import Task, carry_out, run
from npu_operator.node.validator_verdict import DeviceTried, Opened, PortTried, Tried, judge, wanted
from tests.unit.node.containers import DRIVER, Container, an_npu_smi_table
from tests.unit.node.states import a_state


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def tried_in(container: Container, *, tool_s: float = 20.0, **about: Any) -> Tried:
    return carry_out(Task(wanted=wanted(a_state(**about)), root=str(container.root), tool_s=tool_s))


def complaints_in(container: Container, *, tool_s: float = 20.0, **about: Any) -> list[str]:
    asked = wanted(a_state(**about))
    return [
        str(one.message) for one in judge(asked, carry_out(Task(wanted=asked, root=str(container.root), tool_s=tool_s)))
    ]


def test_a_container_that_has_everything_passes(container: Container) -> None:
    tried = tried_in(container)
    assert complaints_in(container) == []
    assert {device.how for device in tried.devices} == {Opened.OPENED}
    assert len(tried.devices) == 8 + 3
    assert tried.libraries["libascend_hal.so"] == f"/{DRIVER}/lib64/driver/libascend_hal.so"


def test_a_device_that_is_a_fifo_is_opened_without_waiting(container: Container) -> None:
    (container.root / "dev/davinci3").unlink()
    os.mkfifo(container.root / "dev/davinci3")
    assert complaints_in(container) == []


def test_a_missing_device_is_named(container: Container) -> None:
    (container.root / "dev/davinci3").unlink()
    assert complaints_in(container) == ["cannot open /dev/davinci3: No such file or directory"]


def test_a_directory_in_a_devices_place_is_no_device(container: Container) -> None:
    (container.root / "dev/davinci_manager").unlink()
    (container.root / "dev/davinci_manager").mkdir()
    assert complaints_in(container) == ["cannot open /dev/davinci_manager: Is a directory"]


def test_a_busy_device_is_in_use_and_has_not_failed(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def busy(path: Path, flags: int) -> int:
        if str(path).endswith("davinci3"):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        return real(path, flags)

    monkeypatch.setattr(os, "open", busy)
    tried = tried_in(container)
    assert DeviceTried("/dev/davinci3", Opened.BUSY, "Device or resource busy") in tried.devices
    assert complaints_in(container) == []


@pytest.mark.parametrize("place", [f"{DRIVER}/lib64/driver", f"{DRIVER}/lib64", f"{DRIVER}/lib64/common"])
def test_a_library_may_lie_in_any_place_of_the_vendor(container: Container, place: str) -> None:
    (container.root / DRIVER / "lib64/driver/libascend_hal.so").unlink()
    container.write(f"{place}/libascend_hal.so", "\x7fELF")
    assert complaints_in(container) == []


@pytest.mark.parametrize("instead", ["nothing", "a directory", "an empty file"])
def test_a_library_that_is_not_there_is_named_with_its_places(container: Container, instead: str) -> None:
    library = container.root / "usr/local/dcmi/libdcmi.so"
    library.unlink()
    if instead == "a directory":
        library.mkdir()
    elif instead == "an empty file":
        library.touch()
    (complaint,) = complaints_in(container)
    assert complaint.startswith("libdcmi.so is in none of /usr/local/dcmi, ")


def test_a_missing_version_file_is_named(container: Container) -> None:
    (container.root / DRIVER / "version.info").unlink()
    assert complaints_in(container) == ["/usr/local/Ascend/driver/version.info is missing or names no version"]


def test_a_tree_of_another_version_is_told(container: Container) -> None:
    container.write(f"{DRIVER}/version.info", "Version=24.1.0\n")
    (complaint,) = complaints_in(container)
    assert complaint == ("/usr/local/Ascend/driver/version.info names driver 24.1.0, the one that is loaded is 25.5.0")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'dcmi module initialize failed. ret is -8005'; exit 187", "ret is -8005 (exit status 187)"),
        ("echo 'npu-smi: error while loading shared libraries: libc_sec.so: cannot open' >&2; exit 127", "libc_sec.so"),
        ("exit 0", "exit status 0"),
    ],
    ids=["driver not ready", "library missing", "silence"],
)
def test_what_npu_smi_complains_about_is_passed_on(container: Container, script: str, words: str) -> None:
    container.npu_smi(script)
    (complaint,) = complaints_in(container)
    assert complaint.startswith("npu-smi says: ")
    assert words in complaint


def test_a_directory_in_place_of_npu_smi_is_told(container: Container) -> None:
    tool = container.root / "usr/local/bin/npu-smi"
    tool.unlink()
    tool.mkdir()
    assert complaints_in(container) == ["/usr/local/bin/npu-smi cannot be run: Permission denied"]


def test_a_missing_npu_smi_is_told(container: Container) -> None:
    (container.root / "usr/local/bin/npu-smi").unlink()
    assert complaints_in(container) == ["/usr/local/bin/npu-smi cannot be run: No such file or directory"]


def test_an_npu_smi_that_hangs_is_given_up(container: Container) -> None:
    container.npu_smi("exec sleep 600")
    assert complaints_in(container, tool_s=0.2) == ["npu-smi did not answer in time"]


def test_an_npu_smi_that_never_ends_to_print_is_given_up(container: Container) -> None:
    container.npu_smi("exec yes")
    assert complaints_in(container) == ["npu-smi did not answer in time"]


def test_a_chip_that_npu_smi_shows_as_lost_is_counted(container: Container) -> None:
    container.npu_smi_prints(an_npu_smi_table(8, lost=(5,)))
    assert complaints_in(container) == ["npu-smi tells of 7 chips that answer, the node agent of 8"]


def test_addresses_and_links_are_read_per_chip(container: Container) -> None:
    container.hccn_tool({0: "10.0.0.1", 1: "10.0.0.2"}, links_down=(1,))
    before = (PortAddress(physical=0, address="10.0.0.1"), PortAddress(physical=1, address="10.0.0.2"))
    assert tried_in(container, addresses=before).ports == (
        PortTried(0, "10.0.0.1", True),
        PortTried(1, "10.0.0.2", False),
    )
    assert complaints_in(container, addresses=before) == ["the network port of chip 1 has no link"]


def test_addresses_without_the_tool_to_read_them_are_lost(container: Container) -> None:
    before = (PortAddress(physical=0, address="10.0.0.1"),)
    assert complaints_in(container, addresses=before) == [
        "chip 0 had network address 10.0.0.1 and has none (No such file or directory)"
    ]


def test_tools_run_in_the_language_that_we_read(tmp_path: Path) -> None:
    assert run(["/bin/sh", "-c", "echo $LC_ALL"], timeout_s=10).out == "C\n"


def test_the_child_speaks_json_and_loads_little(container: Container) -> None:
    task = msgspec.json.encode(Task(wanted=wanted(a_state()), root=str(container.root)))
    code = (
        "import sys; from npu_operator.node import validator_trial\n"
        "validator_trial.main()\n"
        "heavy = {'grpc', 'google.protobuf', 'lightkube', 'httpx2', 'prometheus_client', 'structlog', 'asyncio'}\n"
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], input=task, capture_output=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert judge(wanted(a_state()), msgspec.json.decode(ran.stdout, type=Tried)) == ()
