from pathlib import Path

import msgspec
import pytest

from npu_operator.model.npunode import AgentMessage
from npu_operator.node import report

MESSAGE = AgentMessage(agent="device-plugin", reason="AgentFailed", message="the kubelet is not there")


def test_messages_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / report.MESSAGES_FILE
    report.publish(file, report.encode_messages([MESSAGE]))
    assert report.decode_messages(file.read_bytes()) == (MESSAGE,)


def test_the_new_content_replaces_the_old_and_leaves_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / report.MESSAGES_FILE
    for messages in ([MESSAGE], []):
        report.publish(file, report.encode_messages(messages))
    assert report.decode_messages(file.read_bytes()) == ()
    assert [path.name for path in tmp_path.iterdir()] == [report.MESSAGES_FILE]
    assert file.stat().st_mode & 0o777 == 0o644


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").touch()
    with pytest.raises(OSError, match="taken"):
        report.publish(tmp_path / "taken", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]"])
def test_what_holds_no_messages_is_refused(content: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        report.decode_messages(content)
