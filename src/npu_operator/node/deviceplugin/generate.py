"""Makes `v1beta1_pb2.py` and its types from `v1beta1.proto`: `python -m npu_operator.node.deviceplugin.generate`.

Needs grpcio-tools, which is not needed at run time. Generated code refuses a protobuf older than the version that it
names, and warns when the installed one is a major version newer; so that version is the floor in pyproject.toml. Only
messages are generated: the two services are a short table in `services`, typed and bound to no version of grpcio.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parents[3]
PROTO: Final = Path(__file__).with_name("v1beta1.proto")
MADE: Final = ("v1beta1_pb2.py", "v1beta1_pb2.pyi")


def generate() -> dict[str, str]:
    """The generated files by name. Raises RuntimeError with the compiler's exit status when it refuses the source."""
    from grpc_tools import protoc  # type: ignore[import-untyped]  # a development tool; agents start without it

    with tempfile.TemporaryDirectory() as folder:
        status = protoc.main(["protoc", f"-I{SOURCES}", f"--python_out={folder}", f"--pyi_out={folder}", str(PROTO)])
        if status != 0:
            raise RuntimeError(f"protoc refused {PROTO} with status {status}")
        made = Path(folder, PROTO.parent.relative_to(SOURCES))
        return {name: (made / name).read_text() for name in MADE}


def main() -> int:
    """Write the files beside their source."""
    for name, text in generate().items():
        PROTO.with_name(name).write_text(text)
        print(f"wrote {name}", file=sys.stderr)  # noqa: T201  # a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
