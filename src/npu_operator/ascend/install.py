"""The small files that a driver leaves behind: `version.info`, `/etc/ascend_install.info`, `/lib/davinci.conf`.

All three are lines of `key=value` whose order varies by release; unknown keys are kept. Source: the install scripts of
the open driver (hicann/driver) and files of releases from 24.1 to 25.5.
"""

from collections.abc import Mapping

import msgspec

from npu_operator.ascend import versions

DEFAULT_HOME = "/usr/local/Ascend"
FALLBACK_FIRMWARE_HOME = "/home/bios"  # where the kernel module looks without /lib/davinci.conf
COMPLETE = "complete"


def key_values(text: str) -> dict[str, str]:
    """The `key=value` lines of a text, the last of a key wins; comments and lines without `=` are passed over."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and key.strip() and not key.lstrip().startswith("#"):
            found[key.strip()] = value.strip()
    return found


class VersionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`version.info` of a driver or firmware tree.

    `compatible` are the internal branches that the driver accepts; `compatible_firmware` the range of running firmware
    (absent before 24.1.rc2). Both are empty or None when the file has no such line or it cannot be read.
    """

    version: str | None = None
    package_version: str | None = None
    inner: versions.InnerVersion | None = None
    compatible: tuple[versions.InnerVersion, ...] = ()
    compatible_firmware: versions.Range | None = None
    fields: Mapping[str, str] = {}

    def accepts_firmware(self, firmware: str) -> bool | None:
        """Whether the driver takes this running firmware; None when the file or the version does not tell."""
        running = versions.try_parse(firmware)
        if self.compatible_firmware is None or running is None:
            return None
        return running in self.compatible_firmware


def read_version_info(text: str) -> VersionInfo:
    """Read a `version.info`; firmware files write `version=` where driver files write `Version=`."""
    fields = key_values(text)
    lower = {key.lower(): value for key, value in fields.items()}
    return VersionInfo(
        version=lower.get("version") or None,
        package_version=lower.get("package_version") or None,
        inner=versions.parse_inner(lower.get("innerversion", "")),
        compatible=tuple(
            inner
            for part in lower.get("compatible_version", "").split(",")
            if (inner := versions.parse_inner(part)) is not None
        ),
        compatible_firmware=_range_or_none(lower.get("compatible_version_fw", "")),
        fields=fields,
    )


def _range_or_none(text: str) -> versions.Range | None:
    try:
        return versions.parse_range(text)
    except ValueError:
        return None


class InstallInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`/etc/ascend_install.info`. None where the file has no such line; older files have no mode and no status."""

    user: str | None = None
    group: str | None = None
    driver_type: str | None = None
    driver_path: str | None = None
    driver_for_all: bool | None = None
    driver_mode: str | None = None
    driver_status: str | None = None
    firmware_type: str | None = None
    firmware_path: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether newer npu-smi releases take the installation for complete (else they print a warning)."""
        return self.driver_status == COMPLETE


_INSTALL_KEYS = {
    "user": "UserName",
    "group": "UserGroup",
    "driver_type": "Driver_Install_Type",
    "driver_path": "Driver_Install_Path_Param",
    "driver_for_all": "Driver_Install_For_All",
    "driver_mode": "Driver_Install_Mode",
    "driver_status": "Driver_Install_Status",
    "firmware_type": "Firmware_Install_Type",
    "firmware_path": "Firmware_Install_Path_Param",
}


def read_install_info(text: str) -> InstallInfo:
    """Read `/etc/ascend_install.info` of any release."""
    found = key_values(text)
    told = {name: found.get(key) or None for name, key in _INSTALL_KEYS.items() if name != "driver_for_all"}
    for_all = found.get(_INSTALL_KEYS["driver_for_all"], "").lower()
    return InstallInfo(**told, driver_for_all={"yes": True, "no": False}.get(for_all))


def render_install_info(info: InstallInfo) -> str:
    """The file's text, in the vendor's order of 25.x; what is None is left out."""
    order = ("user", "group", "firmware_type", "firmware_path", "driver_type", "driver_path", "driver_for_all")
    lines = []
    for name in (*order, "driver_mode", "driver_status"):
        value = getattr(info, name)
        if value is not None:
            lines.append(f"{_INSTALL_KEYS[name]}={'yes' if value is True else 'no' if value is False else value}\n")
    return "".join(lines)


class DavinciConf(msgspec.Struct, frozen=True, kw_only=True):
    """`/lib/davinci.conf`, which the kernel module itself opens to find the device images."""

    home: str | None = None
    fields: Mapping[str, str] = {}


def read_davinci_conf(text: str) -> DavinciConf:
    """Read `/lib/davinci.conf`; `home` is None without a `DAVINCI_HOME_PATH` that is an absolute path."""
    fields = key_values(text)
    home = fields.get("DAVINCI_HOME_PATH", "").strip("\"'")
    return DavinciConf(home=home.rstrip("/") or "/" if home.startswith("/") else None, fields=fields)


def firmware_home(conf: DavinciConf | None) -> str:
    """Below which directory the kernel looks for `driver/device/`: the conf's path, else the fallback."""
    return conf.home if conf is not None and conf.home is not None else FALLBACK_FIRMWARE_HOME
