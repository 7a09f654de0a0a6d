"""The files that a driver leaves behind."""

import pytest

from npu_operator.ascend import install
from npu_operator.ascend.versions import InnerVersion

VERSION_INFO = """\
Version=25.3.rc1
ascendhal_version=7.35.23
Innerversion=V100R001C23SPC002B212
compatible_version=[V100R001C19],[V100R001C20],[V100R001C23]
compatible_version_fw=[7.0.0,8.9.9]
package_version=25.3.rc1
"""


def test_a_version_info_tells_the_release_and_what_it_gets_on_with():
    found = install.read_version_info(VERSION_INFO)
    assert (found.version, found.package_version, found.inner) == (
        "25.3.rc1",
        "25.3.rc1",
        InnerVersion(100, 1, 23, 2, 212),
    )
    assert InnerVersion(100, 1, 19) in found.compatible
    assert found.fields["ascendhal_version"] == "7.35.23"


@pytest.mark.parametrize(("firmware", "accepted"), [("7.8.0.6.201", True), ("9.0.0", False), ("xxx", None)])
def test_a_driver_accepts_firmware_of_its_range(firmware: str, accepted: bool | None):
    assert install.read_version_info(VERSION_INFO).accepts_firmware(firmware) is accepted


def test_without_a_range_the_file_does_not_tell():
    assert install.read_version_info("Version=24.1.rc1\n").accepts_firmware("7.1.0") is None
    assert install.read_version_info("compatible_version_fw=broken\n").accepts_firmware("7.1.0") is None


def test_a_firmware_file_writes_its_version_small():
    assert install.read_version_info("version=7.8.0.6.201\n").version == "7.8.0.6.201"


@pytest.mark.parametrize("text", ["", "no equals sign", "=value", "# Version=1", "\x00\x01=\n"])
def test_rubbish_is_a_file_that_says_nothing(text: str):
    assert install.read_version_info(text).version is None
    assert install.read_install_info(text) == install.InstallInfo()
    assert install.read_davinci_conf(text).home is None


def test_install_info_is_the_same_in_any_order():
    lines = [
        "UserName=HwHiAiUser",
        "Driver_Install_For_All=no",
        "Driver_Install_Status=complete",
        "Firmware_Install_Type=full",
    ]
    found = install.read_install_info("\n".join(lines))
    assert found == install.read_install_info("\n".join(reversed(lines)))
    assert (found.user, found.driver_for_all, found.firmware_type, found.is_complete) == (
        "HwHiAiUser",
        False,
        "full",
        True,
    )


def test_an_older_install_info_has_no_status_and_is_not_complete():
    found = install.read_install_info("UserName=HwHiAiUser\nDriver_Install_Path_Param=/usr/local/Ascend\n")
    assert (found.driver_status, found.is_complete, found.driver_for_all) == (None, False, None)


def test_install_info_that_is_written_is_read_back():
    info = install.InstallInfo(
        user="HwHiAiUser",
        group="HwHiAiUser",
        driver_type="full",
        driver_path="/usr/local/Ascend",
        driver_for_all=True,
        driver_mode="normal",
        driver_status=install.COMPLETE,
    )
    text = install.render_install_info(info)
    assert install.read_install_info(text) == info
    assert "Driver_Install_For_All=yes\n" in text
    assert "Firmware" not in text


@pytest.mark.parametrize(
    ("text", "home"),
    [
        ("DAVINCI_HOME_PATH=/usr/local/Ascend\n", "/usr/local/Ascend"),
        ("IRQ_RES_GEAR=4\nDAVINCI_HOME_PATH=/var/lib/Ascend/\n", "/var/lib/Ascend"),
        ('DAVINCI_HOME_PATH="/opt/x"\n', "/opt/x"),
        ("DAVINCI_HOME_PATH=/\n", "/"),
        ("DAVINCI_HOME_PATH=relative\n", install.FALLBACK_FIRMWARE_HOME),
        ("", install.FALLBACK_FIRMWARE_HOME),
    ],
)
def test_the_kernel_looks_where_the_conf_says_or_in_its_fallback(text: str, home: str):
    assert install.firmware_home(install.read_davinci_conf(text)) == home


def test_without_a_conf_the_kernel_looks_in_its_fallback():
    assert install.firmware_home(None) == "/home/bios"
