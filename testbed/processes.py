"""Programs that run beside a test and never outlive it, and the ports they listen on."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed import keeper

STOP_LIMIT_S = 15.0  # the API server needs 1 s to end in good order; after this it is killed
LOG_TAIL_LINES = 20
LOG_LINE_LENGTH = 300  # characters; some parts log whole objects in one line


class Port:
    """A free loopback port that stays ours: bound here with SO_REUSEPORT, never listened on.

    The program that serves on it binds it with the same option, as often as it is restarted; nobody else gets it in
    between. While the program is away, connections are refused.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()


class Process:
    """One program with its log file; may be started again after it was stopped."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, group: int) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        self._folder = folder
        self._group = group
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running program."""
        assert self._child, f"{self.name} was not started"
        return self._child.pid

    def start(self) -> None:
        """Start the program; its output is added to the log."""
        assert not self.is_running(), f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=self._group,
            )  # fmt: skip

    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    def stop(self) -> None:
        """End the program: politely first, then not. Does nothing if it does not run."""
        if self._child is None or not self.is_running():
            return
        self.resume()  # a stopped program does not hear SIGTERM
        self._child.terminate()
        try:
            self._child.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the program at once, as a power cut would."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def pause(self) -> None:
        """Let it hold still: its connections stay open and nothing is answered."""
        assert self._child, f"{self.name} was not started"
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        assert self._child, f"{self.name} was not started"
        self._child.send_signal(signal.SIGCONT)

    def last_words(self, lines: int = LOG_TAIL_LINES) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(line[:LOG_LINE_LENGTH] for line in text.splitlines()[-lines:])


class Household:
    """A temporary folder and a process group that both go when this process does, whichever way it goes."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="npu-testbed-"))
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(keeper.__file__)), str(self.folder)],
            stdin=subprocess.PIPE, process_group=0,
        )  # fmt: skip
        self._processes: list[Process] = []

    def process(self, name: str, command: Sequence[str]) -> Process:
        """A program of this household, not started yet."""
        process = Process(name, command, self.folder, self._keeper.pid)
        self._processes.append(process)
        return process

    def close(self) -> None:
        """End all programs, the youngest first, and remove the folder."""
        for process in reversed(self._processes):
            process.stop()
        assert self._keeper.stdin
        self._keeper.stdin.close()
        self._keeper.wait()
