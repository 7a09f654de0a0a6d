"""Which lines of the kernel log tell something about chips."""

import pytest

from npu_operator.ascend.kernel_log import Kind, Line, read, read_line, worth_telling

PREFIX = "[ 3340.117344] [ascend] [ERROR] [drv_pcie] [devdrv_load_device 1402] <kworker/u256:9:402311> "


def line(text: str) -> Line:
    found = read_line(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "kind", "device"),
    [
        (
            "Heartbeat lost! (device=1; old_count=1104; new_count=1104; lost_count=4; total_lost_count=4).",
            Kind.HEARTBEAT_LOST,
            1,
        ),
        ("No device found. (dev_num=0)", Kind.NO_DEVICE_FOUND, None),
        ("Load timeout. (dev_id=5; flag_r=0x0)", Kind.LOAD_TIMEOUT, 5),
        ("Device os load failed. (dev_id=0)", Kind.LOAD_FAILED, 0),
        ("Load file check tee failed. (dev_id=2)", Kind.LOAD_FAILED, 2),
        ('Get file size error. (dev_id=3; file_name="/home/bios/driver/device/x.bin"; size=-2)', Kind.FIRMWARE_FILE, 3),
        ("File read error. (dev_id=4)", Kind.FIRMWARE_FILE, 4),
        ("File copy error. (dev_id=4)", Kind.FIRMWARE_FILE, 4),
        ("Conflict open udevid. (udevid=3; access_ns=4026533990; ns=4026533871)", Kind.CONFLICT_OPEN, 3),
        ("subsystem_vendor is invalid. (dev_id=0)", Kind.SUBVENDOR_REFUSED, 0),
        ('Event Process Success. (Event id=0x40F84E00; Node Type=0x40; name="hb")', Kind.FAULT_EVENT, None),
        ("receive ts exception msg, call excep_code=0xb4060007, time=1.9s, devid=1 tsid=0", Kind.TASK_SCHEDULER, 1),
    ],
)
def test_an_error_of_the_driver_is_known_and_names_its_device(text: str, kind: Kind, device: int | None):
    found = line(PREFIX + text)
    assert (found.kind, found.device, found.text) == (kind, device, text)
    assert not found.kind.is_harmless
    assert (found.level, found.module, found.function, found.at_s) == (
        "ERROR",
        "drv_pcie",
        "devdrv_load_device",
        3340.117344,
    )


def test_the_fields_of_a_line_are_told():
    found = line(PREFIX + 'Get file size error. (dev_id=3; file_name="/home/bios/x.bin"; size=-2)')
    assert (found.fields["file_name"], found.fields["size"]) == ("/home/bios/x.bin", "-2")
    assert (
        line(PREFIX + "Event Process Success. (Event id=0x40F84E00; Node Type=0x40)").fields["Event id"] == "0x40F84E00"
    )


def test_a_row_of_the_device_table_is_harmless_though_it_says_zero():
    found = line(
        "[ascend] [drv_pcie] [INFO] [devdrv_init_dev_num 2248] <systemd-udevd:4853:4853> "
        "Findout device. (index=7; device=d105; dev_num=0)"
    )
    assert (found.kind, found.kind.is_harmless, found.device, found.level) == (
        Kind.DEVICE_TABLE_ROW,
        True,
        None,
        "INFO",
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "[ascend] [devmm] [devmm_alloc 662] <main:42394,42394> Devmm_set_porcess details. (status=0; proc_idx=3)",
            Kind.OTHER,
        ),
        ("[ascend] [drv_pcie] [INFO] [x 1] <a:1:1> Device os load success. (dev_id=7)", Kind.LOAD_DONE),
        ("[ascend] [uda] [x 1] <a:1:1> Preempt udevid. (udevid=3)", Kind.PREEMPT),
        ("drv_vascend_stub: module verification failed: signature and/or required key missing", Kind.UNSIGNED_MODULE),
        ("drv_seclib_host: loading out-of-tree module taints kernel.", Kind.UNSIGNED_MODULE),
    ],
)
def test_what_a_healthy_node_logs_is_harmless(text: str, kind: Kind):
    found = line(text)
    assert found.kind is kind
    assert worth_telling([found]) == ()


def test_modules_of_another_kernel_name_both_kernels():
    found = line("[   17.2] drv_pcie_host: version magic '6.6.0-132 SMP aarch64' should be '6.6.0-144 SMP aarch64'")
    assert (found.kind, found.module) == (Kind.WRONG_KERNEL, "drv_pcie_host")
    assert (found.fields["built"], found.fields["running"]) == ("6.6.0-132 SMP aarch64", "6.6.0-144 SMP aarch64")


def test_a_tool_stuck_in_the_kernel_is_seen():
    found = line("[401233.009182] INFO: task npu-smi:731204 blocked for more than 122 seconds.")
    assert (found.kind, found.fields["task"], found.fields["seconds"]) == (Kind.HUNG_TASK, "npu-smi", "122")


def test_a_card_that_left_its_slot_is_seen():
    assert line("[19.7] pcieport 0000:00:08.0: pciehp: Slot(8): Card not present").fields["slot"] == "8"


def test_a_symbol_that_does_not_fit_is_seen():
    found = line("asdrv_pbl: disagrees about version of symbol module_layout")
    assert (found.kind, found.module, found.fields["symbol"]) == (Kind.UNKNOWN_SYMBOL, "asdrv_pbl", "module_layout")


@pytest.mark.parametrize(
    "text",
    ["", "[ 0.000000] Linux version 6.6.0", "[ 6.1] hns3 0000:7d:00.0 enp125s0f0: link up", "usb 1-1: new device"],
)
def test_lines_about_other_things_are_none(text: str):
    assert read_line(text) is None


def test_a_log_gives_its_lines_in_order():
    text = "[ 1.0] Linux\n" + PREFIX + "Load timeout. (dev_id=5)\n" + PREFIX + "Device os load failed. (dev_id=5)\n"
    assert [found.kind for found in read(text)] == [Kind.LOAD_TIMEOUT, Kind.LOAD_FAILED]


def test_a_priority_mark_before_the_stamp_does_not_matter():
    assert line("<5>[   12.5] [ascend] [ERROR] [a] [b 1] <c:1:1> Load timeout. (dev_id=5)").at_s == 12.5
