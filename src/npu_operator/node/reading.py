"""A process of its own that reads files as another process sees them, tells their contents, and ends.

Because a container's file system may hang for ever, on a dead network mount say, or be one that the container serves
itself. Reads a request as JSON from standard input, prints a JSON object from path to content in base64; what cannot be
read, and what is no regular file, is left out.
"""

import base64
import json
import os
import stat
import sys
from pathlib import Path

from npu_operator.node import rooted


def contents(root: Path, paths: list[str], limit: int) -> dict[str, str]:
    """The files below `root` by their paths, each at most `limit` bytes, in base64."""
    found = {}
    for path in paths:
        try:
            data = _read(rooted.resolve(root, path), limit)
        except (OSError, ValueError):
            continue
        if data is not None:
            found[path] = base64.b64encode(data).decode()
    return found


def _read(path: Path, limit: int) -> bytes | None:
    """Opens also a fifo without hanging on it, and reads nothing but regular files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123  # by its descriptor
        return file.read(limit) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def main() -> int:
    """Answer the one request on standard input."""
    request = json.load(sys.stdin)
    json.dump(contents(Path(request["root"]), request["paths"], request["limit"]), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
