"""The driver: one DaemonSet per pool, whose pods stay as they are until the upgrade swaps them, one node at a time.

Container `loader` (our image, first) loads what is active from disk and waits for nobody; `payload` (the driver image)
copies itself to the disk and sleeps. They are containers side by side, so a payload that cannot be pulled never keeps
the loader from loading. What decides whether a node is in sync stands in annotations of the pod (`wanted_driver`), not
in the template's hash: another operator image or label changes the template and restarts nothing. Source: product.md
§4.1–4.5.
"""

import hashlib

import msgspec

from npu_operator.components import environment, images, labels, pods
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object
from npu_operator.components.placement import daemon_set
from npu_operator.components.pools import HASH_DIGITS, Pool, driver_image, pinned_driver_image
from npu_operator.model import names
from npu_operator.model.ctl import Spec, driver_version_for
from npu_operator.model.parts import PullPolicy

COMPONENT = "Driver"
SERVICE_ACCOUNT = "npu-driver"

WANTED_VERSION = f"{names.GROUP}/driver-version"
WANTED_DIGEST = f"{names.GROUP}/driver-image-digest"
WANTED_OPTIONS = f"{names.GROUP}/driver-module-options"
"""Annotations of driver pods: what the pod was made to bring. Digest and options are absent when there are none."""

LOAD_LIMIT_S = 600
"""Loading waits so long for all chips; an A3 needs up to 360 s (facts/mindcluster.md §10)."""

PAYLOAD_RIGHTS = {**pods.AS_ROOT, "capabilities": {"add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"], "drop": ["ALL"]}}
"""Writes the files of the driver tree with the owners and modes that the vendor gave them."""


class WantedDriver(msgspec.Struct, frozen=True):
    """What matters for an installed driver. Two nodes or pods with equal values need nothing from each other."""

    version: str
    digest: str = ""
    """Empty: none is pinned, so any content under the tag will do."""
    module_options: str = ""
    """A hash of the options; empty: none."""

    @property
    def annotations(self) -> dict[str, str]:
        """As it is written on driver pods."""
        written = {WANTED_VERSION: self.version, WANTED_DIGEST: self.digest, WANTED_OPTIONS: self.module_options}
        return {key: value for key, value in sorted(written.items()) if value}


def wanted_driver(spec: Spec, pool: Pool) -> WantedDriver:
    """What the nodes of `pool` should have loaded."""
    options = environment.as_json(spec.driver.module_options) if spec.driver.module_options else ""
    return WantedDriver(
        version=driver_version_for(spec, pool.chip),
        digest=pool.digest,
        module_options=hashlib.sha256(options.encode()).hexdigest()[:HASH_DIGITS] if options else "",
    )


def wanted_of(annotations: dict[str, str]) -> WantedDriver:
    """What a driver pod was made to bring, read back from its annotations."""
    return WantedDriver(*(annotations.get(key, "") for key in (WANTED_VERSION, WANTED_DIGEST, WANTED_OPTIONS)))


def build(spec: Spec, facts: ClusterFacts) -> tuple[Object, ...]:
    """A DaemonSet for each pool; in passthrough only where nodes still run a driver of ours."""
    return tuple(_of_pool(pool, spec, facts) for pool in served_pools(spec, facts))


def served_pools(spec: Spec, facts: ClusterFacts) -> tuple[Pool, ...]:
    """The pools that have a loader."""
    return facts.pools if spec.driver.enabled else facts.pools_to_keep


def name_for(pool: Pool) -> str:
    """The DaemonSet of a pool."""
    return f"{names.DRIVER_PREFIX}{pool.hash}"


def _of_pool(pool: Pool, spec: Spec, facts: ClusterFacts) -> Object:
    workload = pods.Workload(
        name=name_for(pool),
        component=COMPONENT,
        selector={names.LABEL_APP: names.DRIVER_LABELS[names.LABEL_APP], names.POOL: pool.hash},
        labels={**names.DRIVER_LABELS, names.LABEL_COMPONENT: "npu-driver"},
        annotations=wanted_driver(spec, pool).annotations,
        containers=(_loader(pool, spec, facts), _payload(pool, spec)),
        service_account=SERVICE_ACCOUNT,
        node_labels={names.POOL: pool.hash},
        host_pid=True,  # the way into the host's mount namespace, where the kernel looks for firmware, is process 1
        host_network=True,  # no network plugin has to be up before the chips are
        grace_s=LOAD_LIMIT_S + 60,  # a load that has begun is finished
        replaced_on_delete=True,
    )
    made = daemon_set(workload, spec, facts, spec.driver)
    told = {"chip": pool.chip.value, "kernel": pool.kernel, "os": pool.os, "image": driver_image(spec, pool)}
    made["metadata"]["annotations"] |= {f"{names.GROUP}/pool-{key}": value for key, value in told.items()}
    made["metadata"]["labels"] = labels.merged(made["metadata"]["labels"], names.DRIVER_LABELS)
    return made


def _settings(pool: Pool, spec: Spec) -> dict[str, str]:
    """What both containers are told; only what is set."""
    settings = {
        environment.DRIVER_CHIP: pool.chip.value,
        environment.DRIVER_IMAGE_DIGEST: pool.digest,
        environment.DRIVER_KERNEL: pool.kernel,
        environment.DRIVER_VERSION: driver_version_for(spec, pool.chip),
        environment.PAYLOAD_TARGET: names.DRIVER_VERSIONS,
    }
    return {name: value for name, value in settings.items() if value}


def _loader(pool: Pool, spec: Spec, facts: ClusterFacts) -> pods.Container:
    """Privileged, because it loads kernel modules and makes device nodes, and in the host's mount namespace
    bind-mounts the firmware configuration. It touches on the host: /var/lib/Ascend, /var/lib/ascend, /run/ascend,
    /dev, /lib/davinci.conf (mount only), /home/bios, /etc/ascend_install.info, /var/log/npu; it reads /proc and /sys.
    """
    settings = _settings(pool, spec) | {environment.FIRMWARE_POLICY: spec.driver.firmware.policy.value}
    if spec.driver.module_options:
        settings[environment.MODULE_OPTIONS] = environment.as_json(spec.driver.module_options)
    return pods.Container(
        name=names.CONTAINER_LOADER,
        image=images.with_registry(facts.operator_image, spec.registry),
        pull_policy=PullPolicy.IF_NOT_PRESENT,
        command=pods.agent_command("loader"),
        env=settings,
        security=pods.PRIVILEGED,
        mounts=(pods.HOST,),
        requests={"cpu": "10m", "memory": "48Mi"},
        limits={"memory": "512Mi"},
        has_health_socket=True,
        may_be_restarted=False,  # a kill in the middle of a load leaves half of the modules
    )


def _payload(pool: Pool, spec: Spec) -> pods.Container:
    """No limit of memory: half a gigabyte goes through the page cache, which cgroup v1 counts and does not throttle."""
    return pods.Container(
        name=names.CONTAINER_PAYLOAD,
        image=pinned_driver_image(spec, pool),
        pull_policy=spec.driver.image.pull_policy,
        env=_settings(pool, spec),
        security=PAYLOAD_RIGHTS,
        mounts=(pods.Mount(names.DRIVER_VERSIONS, read_only=False),),
        requests={"cpu": "10m", "memory": "16Mi"},
    )
