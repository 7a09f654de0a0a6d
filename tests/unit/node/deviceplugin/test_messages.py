"""The messages are what the kubelet reads: their numbers are on the wire, and the generated file is the source's."""

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

import npu_operator
from npu_operator.node.deviceplugin import generate
from npu_operator.node.deviceplugin import v1beta1_pb2 as api

# As documented by Kubernetes for v1beta1; a repeated or map field has `*`.
NUMBERS = {
    "RegisterRequest": "version=1 endpoint=2 resource_name=3 options=4",
    "DevicePluginOptions": "pre_start_required=1 get_preferred_allocation_available=2",
    "ListAndWatchResponse": "devices=1*",
    "Device": "ID=1 health=2 topology=3",
    "TopologyInfo": "nodes=1*",
    "NUMANode": "ID=1",
    "PreferredAllocationRequest": "container_requests=1*",
    "ContainerPreferredAllocationRequest": "available_deviceIDs=1* must_include_deviceIDs=2* allocation_size=3",
    "PreferredAllocationResponse": "container_responses=1*",
    "ContainerPreferredAllocationResponse": "deviceIDs=1*",
    "AllocateRequest": "container_requests=1*",
    "ContainerAllocateRequest": "devices_ids=1*",
    "AllocateResponse": "container_responses=1*",
    "ContainerAllocateResponse": "envs=1* mounts=2* devices=3* annotations=4* cdi_devices=5*",
    "Mount": "container_path=1 host_path=2 read_only=3",
    "DeviceSpec": "container_path=1 host_path=2 permissions=3",
    "CDIDevice": "name=1",
    "PreStartContainerRequest": "devices_ids=1*",
    "PreStartContainerResponse": "",
    "Empty": "",
}


def told(field: FieldDescriptor) -> str:
    return f"{field.name}={field.number}{'*' if field.is_repeated else ''}"


def test_every_message_has_the_documented_numbers() -> None:
    found = {
        name: " ".join(map(told, message.fields)) for name, message in api.DESCRIPTOR.message_types_by_name.items()
    }
    assert found == NUMBERS


def test_the_services_have_the_names_that_the_kubelet_calls() -> None:
    services = api.DESCRIPTOR.services_by_name
    assert {service.full_name: [method.name for method in service.methods] for service in services.values()} == {
        "v1beta1.Registration": ["Register"],
        "v1beta1.DevicePlugin": [
            "GetDevicePluginOptions",
            "ListAndWatch",
            "GetPreferredAllocation",
            "Allocate",
            "PreStartContainer",
        ],
    }


def test_the_generated_files_are_those_of_the_source() -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    for name, text in generate.generate().items():
        kept = generate.PROTO.with_name(name).read_text()
        assert _without_version(kept) == _without_version(text), f"run python -m {generate.__name__}"


def test_the_project_asks_for_the_protobuf_that_the_messages_need() -> None:
    made = re.search(r"Protobuf Python Version: (\S+)", generate.PROTO.with_name("v1beta1_pb2.py").read_text())
    assert made is not None
    project = Path(npu_operator.__file__).parents[2] / "pyproject.toml"
    assert f'"protobuf>={made[1]}"' in project.read_text()


def _without_version(text: str) -> str:
    """The compiler's own version stands in the file three times."""
    return re.sub(r"Protobuf Python Version: .*|^    [0-9]+,$", "", text, flags=re.MULTILINE)
