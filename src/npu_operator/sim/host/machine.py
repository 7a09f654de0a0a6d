"""The model behind all that a fake host shows of its chips: one place to make a chip sick, lost, hot or busy.

Machines of each family are made by `machine_of`, with the ids, bus addresses and NUMA nodes that such machines have.
The three numbers of a chip are kept apart here as well: card (slot), logic (order of the library), physical (the N of
its device node). Source: facts of public outputs; see the layouts in `npu_operator.ascend.smi.layouts`.
"""

from dataclasses import dataclass, field

from npu_operator.ascend import pci
from npu_operator.model.chips import ChipFamily


@dataclass
class Port:
    """The network port of a chip."""

    address: str = ""
    netmask: str = "255.255.255.0"
    gateway: str = ""
    link_up: bool = True
    speed_mbps: int = 200_000
    optics_present: bool = True


@dataclass
class Process:
    """A process on a chip, by its pid on the host."""

    pid: int
    name: str
    memory_mib: int
    container_pid: int | None = None


@dataclass
class FakeChip:
    """One chip (one die on A3). Numbers are what the tool prints."""

    card: int
    logic: int
    physical: int
    bus: str
    chip: int = 0
    name: str = "910B3"
    numa: int | None = None
    health: str = "OK"
    fault_codes: tuple[str, ...] = ()
    answers: bool = True
    """False: its getters fail, so its row is printed from a zeroed structure."""
    is_on_bus: bool = True
    """False: it fell off the PCI bus."""
    kernel_driver: str = pci.DRIVER_NAME
    """Driver of its PCI function; `vfio-pci` when it is given to a virtual machine."""
    power_w: float | None = 97.1
    temperature_c: int = 42
    voltage_v: float = 0.88
    aicore_pct: int = 0
    frequency_mhz: int = 1800
    hbm_used_mib: int | None = 3357
    hbm_total_mib: int | None = 65536
    memory_used_mib: int = 0
    memory_total_mib: int = 0
    hbm_temperature_c: int = 40
    ecc_double: int = 0
    isolated_pages: int = 0
    vnpus: int = 0
    """Virtual NPUs that somebody cut out of it."""
    is_shared: bool = False
    """Device-share mode: several containers may open it."""
    serial: str = "000000000000"
    vdie: str = ""
    port: Port = field(default_factory=Port)
    processes: list[Process] = field(default_factory=list)

    @property
    def device(self) -> str:
        """Its device node."""
        return f"/dev/davinci{self.physical}"

    @property
    def is_usable(self) -> bool:
        """Whether the driver has it at all."""
        return self.is_on_bus and self.kernel_driver == pci.DRIVER_NAME


@dataclass
class Machine:
    """A node's chips and the tool that tells of them."""

    family: ChipFamily
    chips: list[FakeChip]
    layout: str = "L2"
    """Name of the table layout of the installed tool."""
    tool_version: str = "25.5.0"
    driver_version: str = "25.5.0"
    firmware: str = "7.8.0.5.216"
    device_id: int = 0xD802
    subvendor: int = 0x19E5
    subdevice: int = 0x3400
    failure: int = 0
    """Return code with which every command of npu-smi fails, for example -8005; 0: it works."""
    hangs: bool = False
    """No command of the tool ends, and none can be killed."""
    takes_s: float = 0.0
    """How long each command takes."""
    is_installed_completely: bool = True
    """False: newer tools warn below the table."""
    topology: str = "HCCS"
    """What joins two chips: a word for all pairs, or `rings` for HCCS rings of four."""
    super_pod: int | None = None

    @property
    def has_network(self) -> bool:
        """Whether the chips have network ports of their own."""
        return self.family in (ChipFamily.ASCEND_910, ChipFamily.ASCEND_910B, ChipFamily.ASCEND_A3)

    @property
    def shown(self) -> list[FakeChip]:
        """The chips that the driver has, in the order in which the tool prints them."""
        return sorted((chip for chip in self.chips if chip.is_usable), key=lambda chip: (chip.card, chip.chip))

    def chip(self, physical: int) -> FakeChip:
        """The chip of this physical id. Raises KeyError."""
        found = next((chip for chip in self.chips if chip.physical == physical), None)
        if found is None:
            raise KeyError(f"there is no chip with physical id {physical}")
        return found


A2_BUSES = ("c1", "c2", "81", "82", "01", "02", "41", "42")
A3_BUSES = ("9d", "9f", "99", "9b", "95", "97", "91", "93", "8d", "8f", "89", "8b", "85", "87", "81", "83")
"""Of arm machines; the cards follow each other in this order."""


def machine_of(family: ChipFamily, count: int | None = None) -> Machine:
    """A machine of this family with `count` chips, or as many as such machines usually have."""
    return _MAKERS[family](count)


def _a2(count: int | None) -> Machine:
    chips = [
        FakeChip(card=number, logic=number, physical=number, bus=f"0000:{A2_BUSES[number]}:00.0", numa=number // 2)
        for number in range(8 if count is None else count)
    ]
    return _addressed(Machine(ChipFamily.ASCEND_910B, chips))


def _a3(count: int | None) -> Machine:
    """Two dies to a card; the second one prints no power of its own."""
    chips = [
        FakeChip(
            card=number // 2,
            chip=number % 2,
            logic=number,
            physical=number,
            bus=f"0000:{A3_BUSES[number]}:00.0",
            name="Ascend910",
            numa=number // 4,
            power_w=172.1 if number % 2 == 0 else None,
            hbm_used_mib=3140 if number % 2 == 0 else 2882,
        )
        for number in range(16 if count is None else count)
    ]
    made = Machine(ChipFamily.ASCEND_A3, chips, firmware="7.7.0.1.231", device_id=0xD803, subdevice=0x3003, super_pod=0)
    return _addressed(made)


def _910a(count: int | None) -> Machine:
    chips = [
        FakeChip(
            card=number,
            logic=number,
            physical=number,
            bus=f"0000:{A2_BUSES[number]}:00.0",
            name="910A",
            numa=number // 4,
            power_w=69.0,
            hbm_used_mib=0,
            hbm_total_mib=32768,
            memory_used_mib=1809,
            memory_total_mib=15079,
        )
        for number in range(8 if count is None else count)
    ]
    made = Machine(
        ChipFamily.ASCEND_910,
        chips,
        tool_version="23.0.5",
        driver_version="23.0.5",
        firmware="6.4.12.1.241",
        device_id=0xD801,
        subvendor=0x0200,
        subdevice=0x0100,
        topology="rings",
    )
    return _addressed(made)


def _310p(count: int | None) -> Machine:
    """Cards of two chips on one PCI function (300I Duo) whose slots are not numbered from 0."""
    chips = [
        FakeChip(
            card=1 + number // 2,
            chip=number % 2,
            logic=number,
            physical=number,
            bus=f"0000:{0x5E + number // 2:02x}:00.0",
            name="310P3",
            numa=0,
            power_w=None,
            hbm_used_mib=None,
            hbm_total_mib=None,
            memory_used_mib=1848,
            memory_total_mib=44280,
        )
        for number in range(4 if count is None else count)
    ]
    return Machine(
        ChipFamily.ASCEND_310P,
        chips,
        layout="L3",
        tool_version="25.2.0",
        driver_version="25.2.0",
        firmware="7.7.0.6.236",
        device_id=0xD500,
        subvendor=0x0200,
        subdevice=0x0110,
        topology="PHB",
    )


def _310(count: int | None) -> Machine:
    chips = [
        FakeChip(
            card=number,
            logic=number,
            physical=number,
            bus=f"0000:{0x05 + number:02x}:00.0",
            name="310",
            power_w=12.8,
            hbm_used_mib=None,
            hbm_total_mib=None,
            memory_used_mib=957,
            memory_total_mib=8192,
        )
        for number in range(4 if count is None else count)
    ]
    return Machine(
        ChipFamily.ASCEND_310,
        chips,
        layout="L3",
        tool_version="22.0.4",
        driver_version="22.0.4",
        firmware="1.82.22.2.220",
        device_id=0xD100,
        subvendor=0x0200,
        subdevice=0x0100,
        topology="PIX",
    )


def _310b(count: int | None) -> Machine:
    """A module on a board: it is on no bus that the tool would name."""
    made = _310(1 if count is None else count)
    for chip in made.chips:
        chip.name, chip.memory_total_mib, chip.memory_used_mib, chip.power_w = "310B4", 15609, 3628, 0.0
    made.family, made.tool_version, made.driver_version, made.device_id = (
        ChipFamily.ASCEND_310B,
        "23.0.0",
        "23.0.0",
        0xD107,
    )
    return made


def _950(count: int | None) -> Machine:
    chips = [
        FakeChip(
            card=number,
            logic=number,
            physical=number,
            bus=f"0000:{0x71 + number:02x}:00.0",
            name="Ascend950PR",
            numa=number // 4,
            power_w=276.0,
            hbm_used_mib=8824,
            hbm_total_mib=131072,
        )
        for number in range(8 if count is None else count)
    ]
    return Machine(
        ChipFamily.ASCEND_950,
        chips,
        layout="L5",
        tool_version="25.7.rc1.7",
        driver_version="25.7.rc1.7",
        firmware="8.1.0.1.210",
        device_id=0xD806,
        subdevice=0x4004,
        topology="SYS",
    )


_MAKERS = {
    ChipFamily.ASCEND_310: _310,
    ChipFamily.ASCEND_310B: _310b,
    ChipFamily.ASCEND_310P: _310p,
    ChipFamily.ASCEND_910: _910a,
    ChipFamily.ASCEND_910B: _a2,
    ChipFamily.ASCEND_A3: _a3,
    ChipFamily.ASCEND_950: _950,
}


def _addressed(machine: Machine) -> Machine:
    """Each chip gets an address in the chips' network, and dies their numbers."""
    for chip in machine.chips:
        chip.port.address = f"192.0.2.{100 + chip.physical}"
        chip.port.gateway = "192.0.2.1"
        chip.vdie = f"00000000 00000001 00000002 00000003 {chip.physical:08X}"
    return machine
