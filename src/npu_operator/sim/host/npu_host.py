"""A node with chips in memory: what its kernel, its driver's files and its tools show of one machine.

    node = NpuHost(fake_host, machine_of(ChipFamily.ASCEND_910B))
    node.load()                                  # the driver's tree, modules and device nodes
    node.machine.chip(3).is_on_bus = False; node.refresh()

Only what agents read is here. Everything follows from the machine, so nothing can disagree by accident; whoever wants
disagreement changes the files afterwards.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from npu_operator.ascend import pci
from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from npu_operator.node.host import Ran
from npu_operator.sim.host import hccn_tool, npu_smi
from npu_operator.sim.host.fake_host import Call, FakeHost, Hang
from npu_operator.sim.host.machine import FakeChip, Machine

KERNEL: Final = "6.6.0-145.0.4.135.oe2403sp3.aarch64"
OS_RELEASE: Final = 'NAME="openEuler"\nVERSION_ID="24.03"\nID="openEuler"\n'
USERS: Final = "root:x:0:0:root:/root:/bin/bash\nHwHiAiUser:x:1000:1000::/home/HwHiAiUser:/bin/bash\n"
MODULES: Final = ("drv_seclib_host", "drv_pcie_host", "drv_devmm_host", "drv_dvpp_cmdlist", "ts_agent")
LIBRARIES: Final = (
    "lib64/common/libc_sec.so",
    "lib64/driver/libascend_hal.so",
    "lib64/driver/libdrvdsmi_host.so",
    "lib64/driver/libdcmi.so",
)
MAJOR: Final = 510
DEVICES: Final = ("devmm_svm", "hisi_hdc", "dvpp_cmdlist")
DEVICES_950: Final = ("asdrv_svm", "hisi_hdc", "uburma/ub0", "uburma/ub1", "ummu/tid")


class NpuHost:
    """A fake host and the machine that it shows."""

    def __init__(self, host: FakeHost, machine: Machine) -> None:
        self.host = host
        self.machine = machine
        self._tree = ""
        files = host.files
        files.put("/etc/os-release", OS_RELEASE)
        files.put("/etc/passwd", USERS)
        for directory in ("/run", "/dev", "/var/lib", "/var/log", "/usr/local", "/home", "/tmp"):  # noqa: S108  # fake
            files.put_dir(directory)
        files.put_link("/var/run", "/run")
        host.install("/usr/bin/uname", lambda call: Ran(0, "aarch64\n", ""))
        host.install("/usr/bin/cat", self._cat)
        self._boot()

    def load(self, tree: str = names.DRIVER_TREE, *, is_installed: bool = True) -> None:
        """The driver is loaded, from the tree at this path; `is_installed` puts the tree there."""
        if is_installed:
            self.install_tree(tree)
        self._tree = tree
        files = self.host.files
        files.put("/proc/modules", "".join(f"{name} 45056 0 - Live 0x0000000000000000\n" for name in MODULES))
        files.put("/sys/module/drv_pcie_host/version", f"{self.machine.driver_version}\n")
        self.refresh()

    def install_tree(self, tree: str, *, version: str = "") -> None:
        """A driver's tree with its tools, as a payload brings it."""
        files = self.host.files
        told = version or self.machine.driver_version
        files.put(f"{tree}/version.info", f"Version={told}\ncompatible_version_fw=[7.0.0,7.9.99]\n")
        for library in LIBRARIES:
            files.put(f"{tree}/{library}", b"\x7fELF")
        files.put(f"{tree}/include/ascend_hal.h")
        files.put_dir(f"{tree}/topo")
        self.host.install(f"{tree}/tools/npu-smi", self._npu_smi)
        self.host.install(f"{tree}/tools/hccn_tool", self._hccn_tool)
        self.host.install(f"{tree}/tools/msnpureport", lambda call: Ran(0, "report\n", ""))
        if self.machine.has_network:
            files.put(names.HCCN_CONF, hccn_tool.conf(self.machine))

    def reboot(self, boot_id: str) -> None:
        """A new boot, with no driver loaded; what chips keep only in memory is gone."""
        self.host.reboot(boot_id)
        self._tree = ""
        for chip in self.machine.chips:
            chip.processes.clear()
        self._boot()

    def refresh(self) -> None:
        """Show the machine as it is now: functions on the bus, and device nodes if a driver is loaded."""
        files = self.host.files
        files.take_away("/sys/bus/pci/devices")
        files.put_dir("/sys/bus/pci/devices")
        for chip in self.machine.chips:
            if chip.is_on_bus:
                self._put_function(chip)
        for entry in self.host.list("/dev"):
            if entry.name.startswith("davinci"):
                files.take_away(f"/dev/{entry.name}")
        if not self._tree:
            return
        files.put_device("/dev/davinci_manager", MAJOR + 1, 0, mode=0o660)
        is_950 = self.machine.family is ChipFamily.ASCEND_950
        for number, name in enumerate(DEVICES_950 if is_950 else DEVICES):
            files.put_device(f"/dev/{name}", MAJOR - 1 - number, 0, mode=0o660)
        for chip in self.machine.shown:
            files.put_device(chip.device, MAJOR, chip.physical, mode=0o660)

    def start_container(
        self, pid: int, *, uid: str, container_id: str, name: str, files: Sequence[tuple[str, str]] = ()
    ) -> None:
        """A process of a container, with files in the container's root."""
        put = self.host.files.put
        slice_of = f"kubepods-besteffort-pod{uid.replace('-', '_')}.slice"
        put(f"/proc/{pid}/cgroup", f"0::/kubepods.slice/{slice_of}/cri-containerd-{container_id}.scope\n")
        mount = f"/var/lib/kubelet/pods/{uid}/containers/{name}/0a1b2c3d"
        put(f"/proc/{pid}/mountinfo", f"1 2 0:1 {mount} /dev/termination-log rw - ext4 /dev/sda rw\n")
        put(f"/proc/{pid}/environ", "PATH=/usr/bin\0")
        self.host.files.put_dir(f"/proc/{pid}/root")
        for path, content in files:
            put(f"/proc/{pid}/root{path}", content)

    def _boot(self) -> None:
        files = self.host.files
        files.put("/proc/modules", "ext4 1000000 1 - Live 0x0000000000000000\n")
        files.put("/proc/sys/kernel/osrelease", f"{KERNEL}\n")
        files.put("/proc/1/stat", "1 (systemd) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 10 0 0\n")
        self.refresh()

    def _put_function(self, chip: FakeChip) -> None:
        """Two chips of one card may be one function."""
        at = f"/sys/bus/pci/devices/{chip.bus}"
        machine, files = self.machine, self.host.files
        told = {
            "vendor": f"0x{pci.VENDOR:04x}",
            "device": f"0x{machine.device_id:04x}",
            "subsystem_vendor": f"0x{machine.subvendor:04x}",
            "subsystem_device": f"0x{machine.subdevice:04x}",
            "class": "0x120000",
            "numa_node": str(-1 if chip.numa is None else chip.numa),
        }
        for name, value in told.items():
            files.put(f"{at}/{name}", f"{value}\n")
        is_ours = chip.kernel_driver == pci.DRIVER_NAME
        if self._tree or not is_ours:
            files.put_link(f"{at}/driver", f"../../../bus/pci/drivers/{chip.kernel_driver}")
        if self._tree and is_ours:
            number = pci.npus_per_function(machine.device_id, machine.subdevice)
            files.put(f"{at}/davinci_dev_num", f"{number}\n")

    async def _npu_smi(self, call: Call) -> Ran:
        if self.machine.hangs:
            raise Hang(in_kernel=True)
        await asyncio.sleep(self.machine.takes_s)
        has_manager = self.host.stat("/dev/davinci_manager") is not None
        found = npu_smi.answer(self.machine, call.args) if has_manager else npu_smi.failed_start(-8005)
        return Ran(found.status, found.text, "")

    def _hccn_tool(self, call: Call) -> Ran:
        before = hccn_tool.conf(self.machine)
        found = hccn_tool.answer(self.machine, call.args)
        if hccn_tool.conf(self.machine) != before:
            self.host.files.put(names.HCCN_CONF, hccn_tool.conf(self.machine))
        return Ran(found.status, found.text, "")

    def _cat(self, call: Call) -> Ran:
        try:
            return Ran(0, "".join(self.host.read(path).decode() for path in call.args), "")
        except OSError as error:
            return Ran(1, "", f"cat: {error.filename}: {error.strerror}\n")
