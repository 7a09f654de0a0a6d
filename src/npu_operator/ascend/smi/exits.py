"""The return codes of npu-smi and DCMI, and how a shell sees them.

Source: the npucli source of the open driver (hicann/driver). The tool calls `exit(code)`, so a shell sees the low eight
bits: a caller tests for "not 0", never for 1.
"""

# fmt: off
MEANINGS: dict[int, str] = {
    0:     "ok",
    -8001: "bad parameter",
    -8002: "not permitted",
    -8003: "out of memory",
    -8005: "inner error, the usual one when the driver is not ready",
    -8006: "time-out",
    -8007: "bad device id",
    -8008: "the device does not exist",
    -8009: "ioctl failed",
    -8010: "sending a message to the device failed",
    -8011: "receiving a message from the device failed",
    -8012: "the device is not ready",
    -8013: "not supported in a container",
    -8014: "file operation failed",
    -8015: "reset failed",
    -8017: "an upgrade of the device is going on",
    -8020: "the device is occupied by another container",
    -8022: "the partition is not right",
    -8255: "not supported by this device",
    -9001: "no argument",
    -9002: "not permitted",
    -9005: "unknown command, or no card number",
    -9020: "the device is occupied by another container",
    -9021: "an upgrade of the device is going on",
    -9255: "not supported by this device",
}
# fmt: on


def meaning(code: int) -> str:
    """What a return code says, in words; an unknown one is named as such."""
    return MEANINGS.get(code, f"unknown return code {code}")


def shell_status(code: int) -> int:
    """The exit status a shell sees for a return code: its low eight bits, so -8005 becomes 187."""
    return code & 0xFF


def codes_of(status: int) -> tuple[int, ...]:
    """The known return codes that look like this exit status to a shell, highest first."""
    return tuple(code for code in MEANINGS if shell_status(code) == status)
