"""hccn_tool for a machine: `-i N -ip -g` and its like before 950, `-g -link -i N …` on 950.

What is set goes into the machine and, as the real tool does it, into `/etc/hccn.conf`. Source: outputs in the
MindCluster fault-diagnosis guide (910A) and the HCCN tool manual of the open driver (950).
"""

import itertools
from collections.abc import Collection, Sequence

from npu_operator.model.chips import ChipFamily
from npu_operator.sim.host.machine import FakeChip, Machine
from npu_operator.sim.host.npu_smi import Answer, options_of

DONE = "Cmd executed successfully!\n"


def answer(machine: Machine, args: Sequence[str]) -> Answer:
    """What `hccn_tool` with these arguments says; a setting changes the machine."""
    options = options_of(args)
    chip = next((one for one in machine.shown if str(one.physical) == options.get("-i")), None)
    if chip is None:
        return Answer("device id is invalid\n", 1)
    if "-s" in options:
        return _set(chip, args)
    if "-g" not in options:
        return Answer("Usage\n        hccn_tool -i <device id> -ip|-link|… -g\n", 1)
    if machine.family is ChipFamily.ASCEND_950:
        return Answer(f"link status: {_state(chip)}\n") if "-link" in options else Answer(DONE)
    return _asked(chip, options.keys())


def conf(machine: Machine) -> str:
    """`/etc/hccn.conf` as the settings leave it."""
    lines = []
    for chip in machine.chips:
        if chip.port.address:
            lines += [f"address_{chip.physical}={chip.port.address}", f"netmask_{chip.physical}={chip.port.netmask}"]
        if chip.port.gateway:
            lines.append(f"gateway_{chip.physical}={chip.port.gateway}")
    return "".join(f"{line}\n" for line in lines)


def _asked(chip: FakeChip, asked: Collection[str]) -> Answer:
    port = chip.port
    if "-ip" in asked:
        return Answer(f"ipaddr:{port.address}\nnetmask:{port.netmask}\n") if port.address else _failed(chip, "ip")
    if "-gateway" in asked:
        return Answer(f"default gateway:{port.gateway}, Iface:eth{chip.physical}\n") if port.gateway else Answer("")
    if "-link" in asked:
        return Answer(f"link status: {_state(chip)}\n")
    if "-net_health" in asked:
        return Answer(f"net health status: {'Success' if port.link_up else 'Socket fail'}\n")
    if "-speed" in asked:
        return Answer(f"Speed: {port.speed_mbps} Mb/s\n")
    if "-optical" in asked:
        return Answer(_optical(chip))
    return Answer("Usage\n", 1)


def _set(chip: FakeChip, args: Sequence[str]) -> Answer:
    """`-i N -ip -s address A netmask M`, `-i N -gateway -s gateway G`."""
    words = dict(itertools.pairwise(args))
    if "-ip" in args and "address" in words and "netmask" in words:
        chip.port.address, chip.port.netmask = words["address"], words["netmask"]
        return Answer("")
    if "-gateway" in args and "gateway" in words:
        chip.port.gateway = words["gateway"]
        return Answer("")
    return Answer("Usage\n", 1)


def _failed(chip: FakeChip, what: str) -> Answer:
    return Answer(f"hccn_tool get {what} failed, dev_id:{chip.physical}\n", 1)


def _state(chip: FakeChip) -> str:
    return "UP" if chip.port.link_up else "DOWN"


def _optical(chip: FakeChip) -> str:
    if not chip.port.optics_present:
        return "optical info:\npresent              : not present\n"
    return (
        "optical info:\n"
        "present              : present\n"
        "temperature          : 45 C\n"
        "Vcc                  : 3301.20 mV\n"
        "Tx Power             : 1.2035 mW\n"
        "Rx Power             : 1.0189 mW\n"
    )
