"""npu-smi for a machine: arguments in, text and exit status out, with the tool's own errors.

Errors are on standard output; a known command fails on a node without a driver, also `-v`; the status is the low eight
bits of the return code. Codes of the -8000 family get a second line, those of the -9000 family do not. Source: the flow
of the npucli source (hicann/driver).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from npu_operator.ascend.smi.exits import shell_status
from npu_operator.model.chips import ChipFamily
from npu_operator.sim.host import details, table
from npu_operator.sim.host.machine import FakeChip, Machine

COMMANDS: Final = ("-h", "--help", "-v", "info", "set", "clear", "upgrade")
OCCUPIED: Final = -8020
NO_ARGUMENT, UNKNOWN_COMMAND, NOT_SUPPORTED, NO_SUCH_DEVICE = -9001, -9005, -9255, -8008
HELP: Final = "Usage: npu-smi <Command|-h|-v> [Options...]\n"
CONSTRUCTOR: Final = "DrvMngGetConsoleLogLevel failed. (ret=4)\n"
"""The library's own line when it cannot use /dev/davinci_manager."""


class Answer(msgspec.Struct, frozen=True):
    """What the tool prints, and the status a shell sees."""

    text: str
    status: int = 0


def answer(machine: Machine, args: Sequence[str]) -> Answer:
    """What `npu-smi` with these arguments says."""
    if not args:
        return Answer(HELP, shell_status(NO_ARGUMENT))
    if args[0] not in COMMANDS:
        return Answer(f"Command or option is not found.\n{HELP}", shell_status(UNKNOWN_COMMAND))
    if machine.failure:
        return failed_start(machine.failure)
    if args[0] == "-v":
        return Answer(f"npu-smi version: {machine.tool_version}\n")
    if args[0] != "info":
        return Answer(HELP)
    return _info(machine, args[1:])


def failed_start(code: int) -> Answer:
    """The tool cannot start its library."""
    words = f"dcmi module initialize failed. ret is {code}"
    if code == OCCUPIED:
        words = f"dcmi model initialized failed, because the device is used. ret is {code}"
    return Answer(f"{words}\n", shell_status(code))


def options_of(args: Sequence[str]) -> Mapping[str, str]:
    """`-t health -i 0` as a map; the value of an option without one is empty."""
    return {
        word: args[at + 1] if at + 1 < len(args) and not args[at + 1].startswith("-") else ""
        for at, word in enumerate(args)
        if word.startswith("-")
    }


def _info(machine: Machine, args: Sequence[str]) -> Answer:
    options = options_of(args)
    if not args:
        return Answer(table.text(machine)) if machine.shown else Answer(details.listed(machine))
    if "-l" in options:
        return Answer(details.listed(machine))
    if "-m" in options:
        return Answer(details.mapping(machine))
    kind = options.get("-t", "")
    if kind == "topo":
        return Answer(details.topology(machine))
    if kind == "phyid-remap":
        return _remap(machine, options.get("-p", ""))
    if kind == "device-share" and "-i" not in options:
        return _shared(machine)
    return _typed(machine, kind, options)


def _typed(machine: Machine, kind: str, options: Mapping[str, str]) -> Answer:
    cards = dict.fromkeys(chip.card for chip in machine.shown)
    is_card_text = bool(cards) and details.of_card(machine, kind, next(iter(cards))) is not None
    if not is_card_text and not details.is_of_chip(machine, kind):
        return Answer("Error parameter of -t\n", shell_status(NO_ARGUMENT))
    chips = [chip for chip in machine.shown if str(chip.card) == options.get("-i")]
    needs_chip = not is_card_text and machine.family is not ChipFamily.ASCEND_950
    if "-i" not in options or (needs_chip and "-c" not in options):
        return Answer("This command must input card id and chip id.\n", shell_status(NO_ARGUMENT))
    if "-c" in options:
        chips = [chip for chip in chips if str(chip.chip) == options["-c"]]
    if not chips:
        return _no_such_device()
    if "-c" not in options and (of_card := details.of_card(machine, kind, chips[0].card)) is not None:
        return Answer(of_card)
    of_chip = details.of_chip(machine, kind, chips[0])
    if of_chip is None or not chips[0].answers:
        return _no_answer(kind, chips[0])
    return Answer(of_chip, shell_status(NOT_SUPPORTED) if "does not support" in of_chip else 0)


def _no_answer(kind: str, chip: FakeChip) -> Answer:
    code = -8012 if not chip.answers else NOT_SUPPORTED
    if code == NOT_SUPPORTED:
        return Answer(f"This device does not support querying {kind}.\n", shell_status(code))
    return Answer(f"Failed to execute npu-smi info. ret is {code}.\n", shell_status(code))


def _no_such_device() -> Answer:
    text = f"npu_get_card_device_id failed. err is {NO_SUCH_DEVICE}\n"
    return Answer(f"{text}Failed to execute npu-smi info. ret is {NO_SUCH_DEVICE}.\n", shell_status(NO_SUCH_DEVICE))


def _remap(machine: Machine, physical: str) -> Answer:
    found = next((chip for chip in machine.shown if str(chip.physical) == physical), None)
    return _no_such_device() if found is None else Answer(details.remap(machine, found))


def _shared(machine: Machine) -> Answer:
    if machine.family is ChipFamily.ASCEND_950:
        return Answer("Error parameter of -t\n", shell_status(NO_ARGUMENT))
    cards = dict.fromkeys(chip.card for chip in machine.shown)
    texts = [details.of_card(machine, "device-share", card) or "" for card in cards]
    return Answer("\n".join(texts))
