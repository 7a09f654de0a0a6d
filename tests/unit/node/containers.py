"""The inside of a container as the validator finds it: a folder with devices, libraries and the vendor's tools."""

from pathlib import Path

from tests.unit.node.states import VERSION

DRIVER = "usr/local/Ascend/driver"
RULE = "+---------------------------+---------------+----------------------------------------------------+"


def an_npu_smi_table(count: int = 8, *, version: str = VERSION, lost: tuple[int, ...] = ()) -> str:
    """What `npu-smi info` prints for so many chips; a lost one has the zeroed row of the real tool."""
    lines = [
        RULE.replace("+", "-").replace("-", "+", 1),
        f"| npu-smi {version:<25} Version: {version:<25}                          |",
        RULE,
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        RULE.replace("-", "="),
    ]
    for number in range(count):
        name, health, bus = (
            ("", "UNKNOWN", "0000:00:00.0") if number in lost else ("910B3", "OK", f"0000:C{number}:00.0")
        )
        lines += [
            f"| {number:<5} {name:<19} | {health:<13} | 93.5        41                0    / 0             |",
            f"| 0                         | {bus:<13} | 0           0    / 0          3161 / 65536         |",
            RULE.replace("-", "="),
        ]
    return "\n".join(lines) + "\n"


class Container:
    """A container with so many chips, in which everything works until a test breaks something."""

    def __init__(self, root: Path, *, chips: int = 8, version: str = VERSION) -> None:
        self.root = root
        for name in ("davinci_manager", "devmm_svm", "hisi_hdc", *(f"davinci{number}" for number in range(chips))):
            self.write(f"dev/{name}", "")
        self.write(f"{DRIVER}/lib64/driver/libascend_hal.so", "\x7fELF")
        self.write("usr/local/dcmi/libdcmi.so", "\x7fELF")
        self.write(f"{DRIVER}/version.info", f"Version={version}\nascendhal_version=7.35.23\n")
        self.npu_smi_prints(an_npu_smi_table(chips, version=version))

    def write(self, path: str, content: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def tool(self, path: str, script: str) -> None:
        """Put a shell script in a tool's place."""
        beside = self.write(f"{path}.new", f"#!/bin/sh\n{script}\n")
        beside.chmod(0o755)
        beside.rename(self.root / path)

    def npu_smi(self, script: str) -> None:
        self.tool("usr/local/bin/npu-smi", script)

    def npu_smi_prints(self, text: str, *, code: int = 0) -> None:
        self.npu_smi(f"[ \"$*\" = info ] || exit 211\ncat <<'END'\n{text}END\nexit {code}")

    def hccn_tool(self, addresses: dict[int, str], *, links_down: tuple[int, ...] = ()) -> None:
        """The tool as it answers `-i N -ip -g` and `-i N -link -g`."""
        cases = "\n".join(
            f"{number}-ip) echo ipaddr:{address}; echo netmask:255.255.255.0 ;;"
            for number, address in addresses.items()
        )
        down = "\n".join(f"{number}-link) echo 'link status: DOWN' ;;" for number in links_down)
        self.tool(
            f"{DRIVER}/tools/hccn_tool", f"case \"$2$3\" in\n{down}\n{cases}\n*-link) echo 'link status: UP' ;;\nesac"
        )
