"""Where the collected samples lie when they are there: beside the repository, never in it."""

import json
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "samples"
REASON = "the collected samples are not beside this repository"


def expected(name: str) -> Any:
    """The right readings of one kind; an empty list without samples."""
    file = SAMPLES / "expected" / name
    return json.loads(file.read_text("utf-8"))["files"] if file.is_file() else []


def files(folder: str) -> list[Path]:
    """The samples in one folder, in order; none without samples."""
    return sorted((SAMPLES / folder).glob("*.txt"))


def text(name: str) -> str:
    """The text of one sample."""
    return (SAMPLES / name).read_text("utf-8")
