"""Files by which an agent without a token tells the node agent something; the node agent publishes it in `NPUNode`.

Each lies in a directory of the agent's own below the state directory, the only one there into which it may write. A
reader sees the old content or the new one.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from npu_operator.model.npunode import AgentMessage

MESSAGES_FILE: Final = "messages.json"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[AgentMessage, ...]).decode


def publish(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace a file in one step. Raises OSError, and then leaves nothing behind."""
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # by its descriptor
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        Path(beside).rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(beside).unlink()
        raise


def encode_messages(messages: Iterable[AgentMessage]) -> bytes:
    """What an agent has to say now; an empty list when all is well."""
    return _encode(tuple(messages))


def decode_messages(data: bytes) -> tuple[AgentMessage, ...]:
    """The messages in such a file. Raises `msgspec.DecodeError` for anything else."""
    return _decode(data)
