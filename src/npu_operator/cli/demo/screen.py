"""Where the demo is shown: a live table on a terminal, a line per change elsewhere."""

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live

from npu_operator.cli.demo import picture
from npu_operator.cli.demo.picture import Object, Row

TITLE = "NPU operator: from bare nodes to allocatable chips"
FRAME_S = 0.25
"""Between two pictures on a terminal, so that eyes can follow; without one nobody waits."""


class Screen:
    """A context manager; `show` takes the objects as they are now."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, refresh_per_second=8) if self._console.is_terminal else None
        self._seen: dict[str, Row] = {}
        self._told = ""

    @property
    def frame_s(self) -> float:
        """How long a picture wants to be looked at, in seconds."""
        return FRAME_S if self._live is not None else 0.0

    def __enter__(self) -> "Screen":
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def show(self, time: str, nodes: Sequence[Object], npu_nodes: Sequence[Object], ctl: Object | None) -> None:
        """Show how things are at `time`."""
        rows, summary = picture.rows(nodes, npu_nodes), picture.summary(ctl)
        if self._live is not None:
            self._live.update(picture.table(rows, TITLE, f"{time}  {summary}"))
            return
        for row in rows:
            if self._seen.get(row.node) != row:
                self._seen[row.node] = row
                self.say(f"{time}  {row.node:<10} {' '.join(cell for cell in row.cells[1:] if cell)}")
        if summary != self._told:
            self._told = summary
            self.say(f"{time}  {summary}")

    def say(self, line: str) -> None:
        """A line that stays."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
