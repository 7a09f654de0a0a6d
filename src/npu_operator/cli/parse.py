"""`npu-operator parse npu-smi FILE…`: what saved outputs of npu-smi say, as JSON.

One file gives one object, several give a list in their order; `-` is standard input. A table or an error text has the
keys layout, tool_version, driver_version, error, chips and processes; another sub-command has type, command and values,
and message where one was printed. Any text is read: what is no output of npu-smi has an error of kind "other".
"""

import json
import sys
from pathlib import Path

from npu_operator.ascend.smi import reader

UNREADABLE = 2  # exit status when a file cannot be read

STANDARD_INPUT = Path("-")


def parse_npu_smi(files: list[Path]) -> int:
    """Print the reading of each file; returns the exit status. With an unreadable file nothing is printed but why."""
    texts: list[str] = []
    complaints: list[str] = []
    for file in files:
        try:
            texts.append(decoded(_bytes_of(file)))
        except OSError as error:
            complaints.append(f"error: cannot read {file}: {error.strerror or error}")
    if complaints:
        print("\n".join(complaints), file=sys.stderr)
        return UNREADABLE
    documents = [reader.as_document(reader.read(text)) for text in texts]
    print(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2))
    return 0


def decoded(raw: bytes) -> str:
    """The text of a saved output: UTF-8, UTF-16 with its mark (a Windows redirect), GB18030, else byte for byte."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", errors="replace")
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("latin-1")


def _bytes_of(file: Path) -> bytes:
    return sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
