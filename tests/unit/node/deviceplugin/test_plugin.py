"""The plugin as a whole, against a kubelet on real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec
import pytest

from npu_operator.model import names
from npu_operator.model.chips import ChipFamily, ChipHealth, ChipState
from npu_operator.model.ctl import Injection
from npu_operator.model.npunode import DriverFound, RuntimeFound
from npu_operator.node import health, report
from npu_operator.node.deviceplugin import plugin, services
from npu_operator.node.deviceplugin import v1beta1_pb2 as api
from npu_operator.node.deviceplugin.answers import Chips
from npu_operator.node.deviceplugin.calls import OPTIONS, Calls
from npu_operator.node.deviceplugin.plugin import Settings
from npu_operator.node.deviceplugin.server import Pace
from npu_operator.node.reader import STALE_S, boot_seconds
from npu_operator.node.state import NodeState
from tests.unit.node.deviceplugin.kubelets import Kubelet, a_kubelet, until
from tests.unit.node.states import BOOT, OTHER_BOOT, a_chip, a_state, write

NPU = "huawei.com/Ascend910"
VALIDATION = names.VALIDATION_RESOURCE
POLL_S = 0.02
PACE = Pace(first_retry_s=0.02, last_retry_s=0.1, alone_s=0.2, first_comeback_s=2.0)


class Node:
    """A node with a kubelet and one plugin, which a test changes and looks at."""

    def __init__(self, folder: Path, kubelet: Kubelet) -> None:
        self.kubelet = kubelet
        self.state_file = folder / "npu-state.json"
        self.boot_id_file = folder / "boot_id"
        self.boot_id_file.write_text(BOOT)
        self.report_dir = folder / "report"
        self.report_dir.mkdir()
        self.health_socket = folder / "health.sock"

    def settings(self, **about: object) -> Settings:
        usual = Settings(
            kubelet_dir=self.kubelet.directory,
            state_file=self.state_file,
            boot_id_file=self.boot_id_file,
            report_dir=self.report_dir,
            health_socket=self.health_socket,
            poll_s=POLL_S,
            pace=PACE,
        )
        return msgspec.structs.replace(usual, **about)

    def tell(self, state: NodeState) -> None:
        write(self.state_file, msgspec.structs.replace(state, written_at_s=state.written_at_s or boot_seconds()))

    async def is_offered(self, count: int = 8, resource: str = NPU) -> None:
        await until(
            lambda: self.kubelet.allocatable(resource) == count,
            f"{resource} is {count}, with {self.kubelet.health(resource)}",
        )

    async def readiness(self) -> str:
        return await asyncio.to_thread(health.ask, self.health_socket, health.READY)

    async def becomes_ready(self, *, because: str = "") -> str:
        """Wait for an answer that is empty, or that contains `because`."""
        answer = "never asked"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                while not (because in answer if because else answer == ""):
                    await asyncio.sleep(POLL_S)
                    answer = await self.readiness()
        assert because in answer if because else answer == "", answer
        return answer

    def reported(self) -> list[str]:
        data = (self.report_dir / report.MESSAGES_FILE).read_bytes()
        return [f"{one.agent} {one.reason}: {one.message}" for one in report.decode_messages(data)]


Story = Callable[[Node], Awaitable[None]]


@contextlib.asynccontextmanager
async def runs(settings: Settings) -> AsyncIterator[None]:
    """The plugin as the program runs it."""
    task = asyncio.create_task(plugin.main(settings))
    try:
        yield
        assert not task.done(), f"the plugin ended: {task.exception()}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Run a story on a node whose state is known before the plugin starts (None: there is no file)."""

    def run(story: Story, state: NodeState | None = None, **about: object) -> None:
        async def whole() -> None:
            async with a_kubelet(tmp_path / "plugins") as kubelet:
                node = Node(tmp_path, kubelet)
                if state is not None:
                    node.tell(state)
                async with runs(node.settings(**about)):
                    await story(node)

        asyncio.run(whole())

    return run


Play = Callable[..., None]


# --- registering


def test_both_resources_are_registered_with_their_devices(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        await node.is_offered(1, VALIDATION)
        assert set(node.kubelet.endpoints) == {NPU, VALIDATION}
        request = node.kubelet.endpoints[NPU].request
        assert request.version == "v1beta1"
        assert request.options.get_preferred_allocation_available
        assert not request.options.pre_start_required
        assert await node.becomes_ready() == ""

    play(story, a_state())


def test_devices_carry_their_numa_node_or_none(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(2)
        devices = node.kubelet.endpoints[NPU].devices
        assert [one.ID for one in devices["Ascend910-0"].topology.nodes] == [3]
        assert not devices["Ascend910-1"].HasField("topology")

    play(story, a_state(a_chip(0, numa=3), a_chip(1, numa=None)))


def test_chips_are_offered_under_the_renamed_resource(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8, "huawei.com/Ascend910B")
        assert NPU not in node.kubelet.endpoints
        assert set(node.kubelet.health("huawei.com/Ascend910B")) == {f"Ascend910-{number}" for number in range(8)}

    play(story, a_state(), resource_names={ChipFamily.ASCEND_910B: "huawei.com/Ascend910B"})


def test_another_family_keeps_its_own_name(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(4, "huawei.com/Ascend310P")

    state = a_state(count=4, family=ChipFamily.ASCEND_310P)
    play(story, state, resource_names={ChipFamily.ASCEND_910B: "huawei.com/Ascend910B"})


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (a_state(boot_id=OTHER_BOOT), OTHER_BOOT),
        (a_state(driver=DriverFound(message="module refused")), "no Ascend driver is loaded: module refused"),
        (a_state(cdi_devices=()), "there is no CDI file"),
        (a_state(cdi_devices=("0", "1", "2", "all")), "lacks 3, 4, 5, 6, 7"),
        (a_state(runtime=RuntimeFound(name="containerd", message="restart needed")), "restart needed"),
        (a_state(count=0), "no chips"),
        (msgspec.structs.replace(a_state(), chip_family="1000"), "'1000'"),
    ],
    ids=["other boot", "driver", "no cdi", "cdi of fewer chips", "runtime", "no chips", "unknown family"],
)
def test_nothing_is_registered_before_all_is_right(play: Play, state: NodeState, words: str) -> None:
    async def story(node: Node) -> None:
        await node.becomes_ready(because=words)
        assert node.kubelet.registrations == []
        assert [path.name for path in node.kubelet.directory.iterdir()] == ["kubelet.sock"]
        assert words in node.reported()[0]
        node.tell(a_state())
        await node.is_offered(8)
        await node.becomes_ready()
        assert node.reported() == []

    play(story, state)


def test_a_missing_state_file_is_waited_for(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.becomes_ready(because="there is no")
        node.tell(a_state())
        await node.is_offered(8)

    play(story)


def test_garbage_in_the_state_file_is_waited_out(play: Play) -> None:
    async def story(node: Node) -> None:
        write(node.state_file, b'{"schema": 1, "chips": [')
        await node.becomes_ready(because="damaged or half-written")
        assert node.kubelet.registrations == []
        node.tell(a_state())
        await node.is_offered(8)

    play(story)


def test_a_kubelet_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    async def whole() -> None:
        (tmp_path / "plugins").mkdir()
        kubelet = Kubelet(tmp_path / "plugins")
        node = Node(tmp_path, kubelet)
        node.tell(a_state())
        async with runs(node.settings()):
            await node.becomes_ready(because="the kubelet is not there")
            await kubelet.start()
            try:
                await node.is_offered(8)
            finally:
                await kubelet.stop()

    asyncio.run(whole())


def test_a_refused_registration_is_told_and_tried_again(play: Play) -> None:
    async def story(node: Node) -> None:
        node.kubelet.refuse = "resource is not welcome"
        node.tell(a_state())
        await node.becomes_ready(because="resource is not welcome")
        node.kubelet.refuse = ""
        await node.is_offered(8)
        await node.becomes_ready()

    play(story)


def test_a_path_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    async def whole() -> None:
        async with a_kubelet(tmp_path / "plugins") as kubelet:
            node = Node(tmp_path, kubelet)
            node.tell(a_state())
            long = f"huawei.com/{'x' * 63}"
            async with runs(node.settings(resource_names={ChipFamily.ASCEND_910B: long})):
                await node.becomes_ready(because="longer than the 107 bytes")

    asyncio.run(whole())


# --- health


def sick(number: int, **about: Any) -> NodeState:
    """A node on which one chip is as told."""
    return a_state(*(a_chip(one, **(about if one == number else {})) for one in range(8)))


@pytest.mark.parametrize(
    "state",
    [
        sick(3, health=ChipHealth.CRITICAL),
        sick(3, health=ChipHealth.ALARM),
        sick(3, health=ChipHealth.UNKNOWN),
        sick(3, state=ChipState.LOST),
        sick(3, state=ChipState.ISOLATED),
        sick(3, state=ChipState.PARTITIONED),
        sick(3, state=ChipState.SHARED),
        sick(3, state=ChipState.PASSTHROUGH),
        a_state(isolated=("Ascend910-3",)),
    ],
    ids=["critical", "alarm", "unknown", "lost", "isolated", "split", "shared", "passed through", "isolated by name"],
)
def test_a_chip_that_goes_leaves_the_others_and_comes_back(play: Play, state: NodeState) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        node.tell(state)
        await node.is_offered(7)
        assert node.kubelet.health(NPU)["Ascend910-3"] == "Unhealthy"
        node.tell(a_state())
        await node.is_offered(8)
        assert node.kubelet.registrations.count(NPU) == 1

    play(story, a_state())


def test_a_warning_keeps_a_chip(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)

    play(story, sick(3, health=ChipHealth.WARNING))


def test_a_chip_in_use_stays_allocatable(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)

    play(story, sick(3, state=ChipState.IN_USE))


def test_a_node_out_of_service_offers_the_validator_alone(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(1, VALIDATION)
        await until(lambda: len(node.kubelet.health(NPU)) == 8, "the chips are known")
        assert node.kubelet.allocatable(NPU) == 0
        node.tell(a_state())
        await node.is_offered(8)

    play(story, a_state(in_service=False))


def test_the_kubelet_hears_of_a_change_once_and_of_nothing_else(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        for _ in range(3):
            node.tell(a_state())  # a new file that says the same
        node.tell(sick(3, health=ChipHealth.CRITICAL))
        await node.is_offered(7)
        assert len(node.kubelet.endpoints[NPU].lists) == 2

    play(story, a_state())


def test_a_change_reaches_the_kubelet_with_one_look(tmp_path: Path) -> None:
    async def whole() -> None:
        async with a_kubelet(tmp_path / "plugins") as kubelet:
            node = Node(tmp_path, kubelet)
            node.tell(a_state())
            one = plugin.Plugin(node.settings())
            await one._look()
            await node.is_offered(8)
            node.tell(sick(3, health=ChipHealth.CRITICAL))
            await one._look()
            await node.is_offered(7)
            await one._withdraw()

    asyncio.run(whole())


@pytest.mark.parametrize("content", [b"", b"garbage", None], ids=["empty", "garbage", "gone"])
def test_a_state_file_that_goes_bad_changes_no_chip(play: Play, content: bytes | None) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(7)
        if content is None:
            node.state_file.unlink()
        else:
            write(node.state_file, content)
        await node.becomes_ready(because="cannot be used")
        assert node.kubelet.allocatable(NPU) == 7
        assert sorted(node.kubelet.registrations) == sorted([NPU, VALIDATION])
        node.tell(a_state())
        await node.is_offered(8)
        await node.becomes_ready()

    play(story, sick(3, health=ChipHealth.CRITICAL))


def test_a_stale_state_file_is_told_and_changes_no_chip(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(7)
        await node.becomes_ready(because="the node agent is silent")
        assert node.kubelet.allocatable(NPU) == 7

    long_ago_s = boot_seconds() - STALE_S - 1
    play(story, msgspec.structs.replace(sick(3, health=ChipHealth.CRITICAL), written_at_s=long_ago_s))


def test_gates_that_close_later_take_nothing_from_the_kubelet(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        node.tell(a_state(cdi_devices=(), runtime=RuntimeFound(), isolated=("Ascend910-0",)))
        await node.is_offered(7)  # so it has been read
        assert node.kubelet.registrations.count(NPU) == 1
        await node.becomes_ready()

    play(story, a_state())


# --- the kubelet comes and goes


def test_a_restarted_kubelet_gets_everything_again(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        for _ in range(3):
            await node.kubelet.restart()
            assert node.kubelet.allocatable(NPU) == 0
            await node.is_offered(8)
            await node.is_offered(1, VALIDATION)
        await node.becomes_ready()
        assert sorted(node.kubelet.registrations) == sorted([NPU, VALIDATION])

    play(story, a_state())


def test_a_kubelet_restarted_while_the_cdi_file_is_gone_waits_for_it(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        node.tell(a_state(cdi_devices=(), isolated=("Ascend910-0",)))
        await node.is_offered(7)  # so it has been read
        await node.kubelet.restart()
        await node.becomes_ready(because="there is no CDI file")
        assert node.kubelet.registrations == []
        node.tell(a_state())
        await node.is_offered(8)

    play(story, a_state())


def test_a_removed_socket_is_made_and_registered_again(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        socket = node.kubelet.directory / node.kubelet.endpoints[NPU].request.endpoint
        socket.unlink()
        await until(lambda: node.kubelet.registrations.count(NPU) == 2, "the resource is registered again")
        await until(socket.is_socket, "the socket is there again")
        await node.is_offered(8)
        assert node.kubelet.registrations.count(VALIDATION) == 1

    play(story, a_state())


def test_another_plugin_for_the_resource_is_told_and_not_fought(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        async with another_plugin(node.kubelet, NPU):
            answer = await node.becomes_ready(because="another device plugin is registered for it")
            assert NPU in answer
            assert "Ascend910.sock" in answer
            assert NPU in node.reported()[0]
            assert node.kubelet.registrations.count(NPU) == 2  # ours and the other's
        await node.is_offered(8)
        await node.becomes_ready()

    play(story, a_state())


@contextlib.asynccontextmanager
async def another_plugin(kubelet: Kubelet, resource: str) -> AsyncIterator[None]:
    """MindCluster's plugin, as far as the kubelet sees it: it takes the resource over, with no healthy device."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((services.handler(Calls(resource, Chips(a_state(), Injection.CDI))),))
    server.add_insecure_port(f"unix:{kubelet.directory / 'Ascend910.sock'}")
    await server.start()
    request = api.RegisterRequest(version="v1beta1", endpoint="Ascend910.sock", resource_name=resource, options=OPTIONS)
    await services.register(kubelet.socket, request, timeout_s=5)
    try:
        yield
    finally:
        await server.stop(None)


def test_a_plugin_that_ends_leaves_no_socket_and_no_healthy_chip(tmp_path: Path) -> None:
    async def whole() -> None:
        async with a_kubelet(tmp_path / "plugins") as kubelet:
            node = Node(tmp_path, kubelet)
            node.tell(a_state())
            async with runs(node.settings()):
                await node.is_offered(8)
            await node.is_offered(0)
            assert [path.name for path in kubelet.directory.iterdir()] == ["kubelet.sock"]
            async with runs(node.settings()):
                await node.is_offered(8)

    asyncio.run(whole())


# --- giving chips to containers


def test_a_container_gets_its_chips_by_cdi(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        answer = await node.kubelet.allocate(NPU, ["Ascend910-2", "Ascend910-5"])
        (given,) = answer.container_responses
        assert [one.name for one in given.cdi_devices] == ["huawei.com/ascend=2", "huawei.com/ascend=5"]
        assert dict(given.envs) == {"ASCEND_VISIBLE_DEVICES": "2,5"}

    play(story, a_state())


@pytest.mark.parametrize(
    ("containers", "words"),
    [
        ([["Ascend910-9"]], "there is no device Ascend910-9"),
        ([["Ascend910-1", "Ascend910-1"]], "Ascend910-1 was asked for 2 times"),
        ([["Ascend910-1"], ["Ascend910-1"]], "Ascend910-1 was asked for 2 times"),
        ([["Ascend910-3"]], "its health is Critical"),
    ],
    ids=["unknown", "twice", "twice in one pod", "sick"],
)
def test_a_request_that_cannot_be_met_says_why(play: Play, containers: list[list[str]], words: str) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(7)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await node.kubelet.allocate(NPU, *containers)
        assert words in (refused.value.details() or "")
        assert await node.kubelet.allocate(NPU, ["Ascend910-1"])
        await node.becomes_ready()

    play(story, sick(3, health=ChipHealth.CRITICAL))


def test_the_validator_gets_all_chips_of_a_node_out_of_service(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(1, VALIDATION)
        (device,) = node.kubelet.health(VALIDATION)
        answer = await node.kubelet.allocate(VALIDATION, [device])
        assert [one.name for one in answer.container_responses[0].cdi_devices] == ["huawei.com/ascend=all"]

    play(story, a_state(in_service=False))


def test_the_kubelet_is_told_which_chips_go_together(play: Play) -> None:
    async def story(node: Node) -> None:
        await node.is_offered(8)
        free = [f"Ascend910-{number}" for number in (0, 2, 4, 5, 7)]
        assert await node.kubelet.prefer(NPU, free, [], 2) == ["Ascend910-4", "Ascend910-5"]
        assert await node.kubelet.prefer(NPU, free, ["Ascend910-7"], 1) == ["Ascend910-7"]

    play(story, a_state())


# --- settings


def test_the_environment_of_the_pod_is_understood() -> None:
    settings = plugin.from_environment(
        {
            "NPU_INJECTION": "Annotation",
            "NPU_RESOURCE_NAMES": '{"910b":"huawei.com/Ascend910B"}',
            "NPU_HEALTH_SOCKET": "/run/agent/health.sock",
        }
    )
    assert settings.injection is Injection.ANNOTATION
    assert settings.resource_names == {ChipFamily.ASCEND_910B: "huawei.com/Ascend910B"}
    assert settings.health_socket == Path("/run/agent/health.sock")
    assert settings.kubelet_dir == Path("/var/lib/kubelet/device-plugins")


def test_an_empty_environment_means_the_usual_settings() -> None:
    assert plugin.from_environment({}) == Settings()


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"NPU_INJECTION": "cdi"}, "NPU_INJECTION: .*one of CDI, Annotation, Devices"),
        ({"NPU_RESOURCE_NAMES": "910b=x"}, "NPU_RESOURCE_NAMES: .*JSON object"),
        ({"NPU_RESOURCE_NAMES": '{"911":"x/y"}'}, "NPU_RESOURCE_NAMES: "),
    ],
)
def test_a_wrong_setting_names_its_variable(env: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plugin.from_environment(env)


def test_waits_double_up_to_the_last_one() -> None:
    pace = Pace()
    assert [pace.retry_s(tries) for tries in (1, 2, 3, 99_999)] == [1, 2, 4, 30]
    assert [pace.comeback_s(times) for times in (1, 2, 3, 99_999)] == [10, 20, 40, 300]
