"""What npu-smi, the loader, the shell and the installer say when there is no table."""

import pytest

from npu_operator.ascend.smi import exits, reader
from npu_operator.ascend.smi.readings import ErrorKind, InfoTable, ToolError

K = ErrorKind


def error(text: str) -> ToolError:
    found = reader.read(text)
    assert isinstance(found, InfoTable)
    assert found.chips == ()
    assert found.error is not None
    return found.error


TEXTS = [
    ("dcmi module initialize failed. ret is -8005", -8005, K.DRIVER_NOT_READY),
    (
        "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi module initialize failed. ret is -8005",
        -8005,
        K.DRIVER_NOT_READY,
    ),
    (
        "DrvMngGetConsoleLogLevel failed. (ret=4)\ndcmi module initialize failed. ret is -8005",
        -8005,
        K.DRIVER_NOT_READY,
    ),
    ("dcmi module initialize failed. ret is -8012", -8012, K.DRIVER_NOT_READY),
    ("dcmi model initialized failed, because the device is used. ret is -8020", -8020, K.DEVICE_OCCUPIED),
    ("dcmi module initialize failed. ret is -8255", -8255, K.OTHER),
    ("DrvMngGetConsoleLogLevel failed. (ret=4)", None, K.DRIVER_NOT_READY),
    ("npu get board type failed. ret is -9005", -9005, K.BOARD_TYPE),
    (
        "npu-smi: error while loading shared libraries: libc_sec.so: cannot open shared object file: No such file",
        None,
        K.MISSING_LIBRARY,
    ),
    (
        "npu-smi: symbol lookup error: /usr/local/dcmi/libdcmi.so: undefined symbol: halGetChipInfo",
        None,
        K.MISSING_LIBRARY,
    ),
    ("bash: npu-smi: command not found", None, K.TOOL_MISSING),
    ("sh: 1: npu-smi: not found", None, K.TOOL_MISSING),
    ("zsh: command not found: npu-smi", None, K.TOOL_MISSING),
    ("bash: /usr/local/bin/npu-smi: No such file or directory", None, K.TOOL_MISSING),
    ("-bash: /usr/local/bin/npu-smi: Is a directory", None, K.TOOL_MISSING),
    ('exec: "npu-smi": executable file not found in $PATH', None, K.TOOL_MISSING),
    ("timeout: failed to run command 'npu-smi': No such file or directory", None, K.TOOL_MISSING),
    ("[Driver] [ERROR] ERR_NO:0x0091; ERR_DES: HwHiAiUser not exists!", None, K.INSTALLER),
    ("[Driver] [2026-01-01 10:00:00] [ERROR] ERR_NO:0x0093; ERR_DES: root permission", None, K.INSTALLER),
    ("[Driver] [ERROR] The list of missing tools: ifconfig,", None, K.INSTALLER),
    ("/lib/modules/6.6.0-1.oe2403.aarch64/build: No such file or directory.", None, K.INSTALLER),
    ('/var/lib/dkms/davinci_ascend/1.0/build/a.c:62: error: "MIN" redefined [-Werror]', None, K.INSTALLER),
    ("npu_get_card_device_id failed. err is -8008\nFailed to query card total info.", -8008, K.OTHER),
    ("Failed to execute npu-smi info. ret is -8006.", -8006, K.OTHER),
    ("Failed to get card number.", None, K.OTHER),
    ("There is no NPU card on this server.", None, K.OTHER),
    ("Command or option is not found.\nUsage: npu-smi <Command|-h|-v> [Options...]", None, K.OTHER),
    ("2026/01/02 03:04:05.678 [WARN] manager.go:120 cardNum=-1, cardListLen=2, wait for devices", None, K.OTHER),
    ("dcmi init failed, cardNum=-1, error code: -8005", -8005, K.DRIVER_NOT_READY),
    ("Segmentation fault (core dumped)", None, K.OTHER),
]


@pytest.mark.parametrize(("text", "code", "kind"), TEXTS, ids=[text[:40] for text, _, _ in TEXTS])
def test_an_error_text_has_its_code_and_kind(text: str, code: int | None, kind: ErrorKind):
    found = error(text)
    assert (found.code, found.kind) == (code, kind)
    assert found.text in text


@pytest.mark.parametrize("text", ["", "\n\n", "   "])
def test_no_output_is_an_error_and_not_an_empty_node(text: str):
    assert error(text) == ToolError(None, ErrorKind.OTHER, "no output")


def test_a_long_line_of_anything_is_cut_in_the_message():
    assert len(error("x" * 5000).text) == 200


def test_a_saved_command_and_its_status_do_not_hide_the_error():
    text = '$ npu-smi info; echo "rc=$?"\ndcmi module initialize failed. ret is -8005\nrc=187\n'
    found = reader.read(text)
    assert isinstance(found, InfoTable)
    assert found.error is not None
    assert (found.error.code, found.exit_status) == (-8005, 187)


def test_a_tool_that_never_answered_is_an_error_that_says_so():
    found = error('$ timeout 30 npu-smi info; echo "rc=$?"\nrc=124\n')
    assert "did not answer" in found.text


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, 0),
        (-8001, 191),
        (-9001, 215),
        (-8002, 190),
        (-8005, 187),
        (-9005, 211),
        (-8006, 186),
        (-8008, 184),
        (-8012, 180),
        (-8020, 172),
        (-9020, 196),
        (-8255, 193),
        (-9255, 217),
    ],
)
def test_a_shell_sees_the_low_eight_bits_of_a_return_code(code: int, status: int):
    assert exits.shell_status(code) == status
    assert code in exits.codes_of(status)


def test_an_unknown_return_code_is_named():
    assert "-4242" in exits.meaning(-4242)
    assert "occupied" in exits.meaning(-8020)
