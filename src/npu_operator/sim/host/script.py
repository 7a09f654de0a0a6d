"""The fake npu-smi as one executable file: a shell script with all that a machine's tool would say.

For nodes and containers that are real: it needs nothing but `/bin/sh` with the usual few programs (busybox will do).
What it says of a chip it says only where that chip's device node is, as the real tool shows only the chips of its
container; without `/dev/davinci_manager` it fails as the real one does. To change the chips, write it anew and rename.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from npu_operator.ascend.smi.errors import NO_CARD_LINE
from npu_operator.sim.host import details, npu_smi, table
from npu_operator.sim.host.machine import FakeChip, Machine

DEVICES: Final = "NPU_SMI_DEV"
"""Environment variable of the script: where the device nodes are, if not in /dev."""
DRIVER_NOT_READY: Final = -8005
FOR_EVER_S: Final = 1_000_000
NO_CARD: Final = f"{NO_CARD_LINE}\n"
TYPES: Final = ("health", "board", "usages", "common", "volt", "memory", "ecc", "info-vnpu", "spod-info", "temp")
"""Each with `-i`, and with `-i` and `-c`; what the machine's tool does not know says so."""

_PARSE = """
kind= card= chip= physical= form=
while [ $# -gt 0 ]; do
  case $1 in
    -t) kind=$2; shift ;;
    -i) card=$2; shift ;;
    -c) chip=$2; shift ;;
    -p) physical=$2; shift ;;
    -l|-m) form=$1 ;;
  esac
  shift
done
"""


def render(machine: Machine) -> bytes:
    """The script."""
    return "\n".join(_lines(machine)).encode() + b"\n"


def _lines(machine: Machine) -> Iterator[str]:
    yield "#!/bin/sh"
    yield "# A stand-in for npu-smi, made by npu-operator from a model of the chips."
    yield f"[ $# -gt 0 ] || {{ {_say(npu_smi.HELP)}; exit {npu_smi.answer(machine, ()).status}; }}"
    unknown = npu_smi.answer(machine, ("?",))
    yield f"case $1 in {'|'.join(npu_smi.COMMANDS)}) ;; *) {_say(unknown.text)}; exit {unknown.status} ;; esac"
    yield f"dev=${{{DEVICES}:-/dev}}"
    if machine.takes_s:
        yield f"sleep {machine.takes_s:g}"
    if machine.hangs:
        yield f"exec sleep {FOR_EVER_S}"
    failed = npu_smi.failed_start(machine.failure or DRIVER_NOT_READY)
    failing = f"{_say(npu_smi.CONSTRUCTOR + failed.text)}; exit {failed.status}"
    yield f"[ -c $dev/davinci_manager ] || {{ {failing}; }}"
    if machine.failure:
        yield failing
        return
    for command in ("-v", "-h", "--help", "set", "clear", "upgrade"):
        yield f'[ "$1" = {command} ] && {{ {_say(npu_smi.answer(machine, (command,)).text)}; exit 0; }}'
    yield "shift"
    yield "seen() { [ -c $dev/davinci$1 ]; }"
    yield "bare=$#"
    yield _PARSE.strip()
    yield from _table(machine)
    yield 'case "$form" in'
    yield from _case("-l", _say(details.listed(machine)))
    yield from _case("-m", _say(details.mapping(machine)))
    yield "esac"
    yield 'case "$kind/$card/$chip/$physical" in'
    yield from _case("topo/*", _say(details.topology(machine)))
    for chip in machine.shown:
        yield from _of_chip(machine, chip)
    for card in dict.fromkeys(chip.card for chip in machine.shown):
        yield from _of_card(machine, card)
    for kind in (*TYPES, "device-share"):
        yield from _answered(machine, f"{kind}///*|{kind}//*", ("-t", kind))
        yield from _answered(machine, f"{kind}/*//*", ("-t", kind, "-i", "none"))
        yield from _answered(machine, f"{kind}/*", ("-t", kind, "-i", "none", "-c", "none"))
    yield from _answered(machine, "phyid-remap/*", ("-t", "phyid-remap", "-p", "none"))
    yield from _answered(machine, "*", ("-t", "none"))
    yield "esac"


def _table(machine: Machine) -> Iterator[str]:
    """The bare `info`: head, then chips and processes of the nodes that are there."""
    chips = machine.shown
    yield 'if [ "$bare" = 0 ]; then'
    yield "any="
    yield f"for number in {' '.join(str(chip.physical) for chip in chips)}; do seen $number && any=yes; done"
    yield f'[ "$any" ] || {{ {_say(NO_CARD)}; exit 0; }}'
    yield _say(_joined(table.head(machine)))
    for number, chip in enumerate(chips):
        is_last = number + 1 == len(chips) or chips[number + 1].card != chip.card
        yield f"seen {chip.physical} && {_say(_joined(table.rows(machine, chip, is_last_of_card=is_last)))}"
    if table.layout_of(machine).process:
        yield _say(_joined(table.process_head(machine)))
        for card in dict.fromkeys(chip.card for chip in chips):
            of_card = [chip for chip in chips if chip.card == card]
            text = _joined(table.process_rows(machine, of_card))
            yield f"{' || '.join(f'seen {chip.physical}' for chip in of_card)} && {_say(text)}"
    if not machine.is_installed_completely:
        yield _say(f"{table.INCOMPLETE}\n")
    yield "exit 0"
    yield "fi"


def _of_chip(machine: Machine, chip: FakeChip) -> Iterator[str]:
    for kind in TYPES:
        args = ("-t", kind, "-i", str(chip.card), "-c", str(chip.chip))
        yield from _answered(machine, f"{kind}/{chip.card}/{chip.chip}/", args, chip)
    yield from _answered(
        machine, f"phyid-remap/*/*/{chip.physical}", ("-t", "phyid-remap", "-p", str(chip.physical)), chip
    )


def _of_card(machine: Machine, card: int) -> Iterator[str]:
    for kind in (*TYPES, "device-share"):
        yield from _answered(machine, f"{kind}/{card}//", ("-t", kind, "-i", str(card)))


def _answered(machine: Machine, pattern: str, args: Sequence[str], chip: FakeChip | None = None) -> Iterator[str]:
    """A branch that says what the tool says; of a chip whose node is not there, that it does not exist."""
    found = npu_smi.answer(machine, ("info", *args))
    said = f"{_say(found.text)}; exit {found.status}"
    if chip is None:
        yield from _case(pattern, said)
        return
    gone = npu_smi.answer(machine, ("info", "-t", "phyid-remap", "-p", "none"))
    missing = f"{_say(gone.text)}; exit {gone.status}"
    yield from _case(pattern, f"if seen {chip.physical}; then {said}; else {missing}; fi")


def _case(pattern: str, command: str) -> Iterator[str]:
    yield f"{pattern}) {command}; exit 0 ;;"


def _say(text: str) -> str:
    """Print a text as it is, without a newline of its own."""
    return f"printf %s {shlex.quote(text)}"


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
