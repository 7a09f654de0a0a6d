"""The kernel's messages from /dev/kmsg, as dmesg prints them.

Each read gives one record, `<priority>,<sequence>,<microseconds>,<flags>[,…];<text>`, with unprintable characters as
`\\xNN`, and lines of context that begin with a blank. Source: Documentation/ABI/testing/dev-kmsg of the kernel.
"""

import errno
import os
import re
from collections import deque
from pathlib import Path
from typing import Final

LONGEST_RECORD: Final = 8192  # the kernel's own limit (PRINTK_MESSAGE_MAX is below)
_ESCAPED: Final = re.compile(rb"\\x([0-9a-f]{2})")


def read(path: Path, limit: int) -> str:
    """The newest `limit` bytes or so of all messages there are; empty where they cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    lines: deque[str] = deque()
    size = 0
    try:
        while (record := _next(descriptor)) is not None:
            line = line_of(record)
            lines.append(line)
            size += len(line) + 1
            while size > limit:
                size -= len(lines.popleft()) + 1
    finally:
        os.close(descriptor)
    return "\n".join(lines)


def line_of(record: bytes) -> str:
    """`[  123.456789] text` of one record; what is no record is given back as text."""
    head, separator, rest = record.partition(b";")
    fields = head.split(b",")
    text = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), rest.split(b"\n", 1)[0]).decode(errors="replace")
    if not separator or len(fields) < 3 or not fields[2].isdigit():
        return record.decode(errors="replace").strip()
    return f"[{int(fields[2]) / 1e6:12.6f}] {text}"


def _next(descriptor: int) -> bytes | None:
    """The next record; None at the end. EPIPE says that records were overwritten before they were read: go on."""
    while True:
        try:
            return os.read(descriptor, LONGEST_RECORD) or None
        except OSError as error:
            if error.errno != errno.EPIPE:
                return None
