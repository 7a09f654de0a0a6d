"""The door of the program `npu-operator`. Agents go their own way, without the imports of the command line.

A node runs six agents all the time and asks each how it is every few seconds; every megabyte and every millisecond
counts six times.
"""

import sys


def main() -> None:
    """Run the program; the exit status is the command's, 2 for a wrong command line."""
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command in ("agent", "agent-probe"):
        from npu_operator.cli import agents

        sys.exit(agents.main(command, sys.argv[2:]))
    from npu_operator.cli import main as commands

    commands.main()


if __name__ == "__main__":
    main()
