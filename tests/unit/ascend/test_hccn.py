"""The network side of chips: hccn.conf and hccn_tool."""

import pytest

from npu_operator.ascend import hccn

CONF = """\
address_0=192.0.2.10
netmask_0=255.255.255.0
netdetect_0=192.0.2.1
gateway_0=192.0.2.1
send_arp_status_0=1
arp_0=-i eth0 -ip 192.0.2.11 -mac 00:00:5e:00:53:01
address_10=192.0.2.20
tls_alarm=60
"""


def test_the_conf_has_the_settings_of_each_device():
    found = hccn.read_conf(CONF)
    assert found.addresses == {0: "192.0.2.10", 10: "192.0.2.20"}
    assert found.by_device[0]["send_arp_status"] == "1"
    assert found.by_device[0]["arp"].startswith("-i eth0")
    assert found.others == {"tls_alarm": "60"}


def test_an_empty_conf_has_no_addresses():
    assert hccn.read_conf("").addresses == {}
    assert hccn.read_conf("address_0=\n").addresses == {}


def test_addresses_that_are_gone_or_others_now_are_lost():
    assert hccn.addresses_lost(
        {0: "192.0.2.10", 1: "192.0.2.11", 2: "192.0.2.12"}, {0: "192.0.2.10", 2: "192.0.2.99"}
    ) == (1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "$ hccn_tool -i 0 -ip -g\nipaddr:192.0.2.10\nnetmask:255.255.255.0\n",
        "vnic ipaddr: 192.0.2.10\nvnic netmask: 255.255.255.0\n",
    ],
)
def test_an_address_is_read_in_both_forms(text: str):
    found = hccn.read(text)
    assert (found.address, found.netmask) == ("192.0.2.10", "255.255.255.0")


@pytest.mark.parametrize(("status", "is_up"), [("UP", True), ("DOWN", False), ("PARTIAL LINK", False)])
def test_a_link_is_up_or_not(status: str, is_up: bool):
    assert hccn.read(f"link status: {status}\n").is_link_up is is_up


def test_an_output_without_link_does_not_say():
    assert hccn.read("hccn_tool: command not found").is_link_up is None


def test_changes_of_the_link_are_told_in_both_forms():
    lines = (
        "[device 0]link up count       : 1\n"
        "[device 0]    Tue Jun  6 16:32:12 2023    LINK UP\n"
        "[device 0]    Tue Jun  6 16:32:10 2023    LINK DOWN\n"
    )
    assert hccn.read(lines).link_changes == (("Tue Jun  6 16:32:12 2023", "UP"), ("Tue Jun  6 16:32:10 2023", "DOWN"))
    assert hccn.read(lines).values["link up count"] == "1"
    table = (
        "+-----+\n| NPU | Link_Status | Time_Stamp |\n+-----+\n| 0 | LINK_DOWN | Mon Feb 9 21:45:47 2026 |\n+-----+\n"
    )
    assert hccn.read(table).link_changes == (("Mon Feb 9 21:45:47 2026", "DOWN"),)


def test_two_tables_have_their_own_headers():
    text = "+---+\n| A | B |\n+---+\n| 1 | 2 |\n+---+\n+---+\n| C |\n+---+\n| 3 |\n+---+\n"
    assert hccn.read(text).rows == ({"A": "1", "B": "2"}, {"C": "3"})


def test_bars_inside_the_last_cell_stay_in_it():
    text = "| Index | Adapt status |\n| 0 | L0:link|L1:fail |\n"
    assert hccn.read(text).rows == ({"Index": "0", "Adapt status": "L0:link|L1:fail"},)


@pytest.mark.parametrize(("switch", "is_on"), [("0", False), ("1", True)])
def test_the_tls_switch_is_read(switch: str, is_on: bool):
    text = f"dev_id:0, tls switch[{switch}](0:disable, 1:enable), tls alarm time threshold[60]days\n"
    assert hccn.read(text).is_tls_on is is_on


def test_optical_values_are_kept_with_their_units():
    found = hccn.read(
        "optical info:\npresent              : present\nTx Power             : 4.4035 mW\n"
        "...\nRx Los Flag          : 0xff\n"
    )
    assert (found.values["Tx Power"], found.values["Rx Los Flag"]) == ("4.4035 mW", "0xff")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("hccn_tool -i 0 -ip -g", "ip"),
        ("hccn_tool -g -link -i 0 -u 0 -p 4", "link"),
        ("hccn_tool -i 0 -tls -g | grep switch", "tls"),
        ("hccn_tool -i 3 -net_health -g", "net_health"),
        ("hccn_tool -h", None),
    ],
)
def test_a_command_line_tells_what_was_asked(command: str, option: str | None):
    assert hccn.option_of(command) == option


def test_a_setting_that_worked_says_so():
    assert hccn.read("$ hccn_tool -s -cfg_recovery -i 0\nCmd executed successfully!\n").is_done
    assert hccn.read("net health status: Init\n").net_health == "Init"
