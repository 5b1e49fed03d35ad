"""`make bench-node`: the hand-over on two real nodes, compared with the cluster alone.

The baseline is the deletion of a pod for whose GPU another pod waits, until that pod is ready. All
other GPUs are in use. The hand-over is a POST of a unit until a request with `wait=ready` returns.
Rounds of both alternate, so their ratio does not depend on the machine. Each part of the hand-over
is printed in seconds after the POST.
"""

import argparse
import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpuplatform.deployment.installation import CRDS
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.fields import condition, items, number
from gpuplatform.kube.fields import field as read
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, Manifest, ResourceKind
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.pods import Size, Workload, pod_spec
from gpuplatform.workloads.template import PodTemplate
from tests.benchmarks.bench import (
    PORTS,
    SPEC,
    UNITS,
    Bench,
    UnitsPlatform,
    describe_machine,
    load_words,
    say,
    started,
    temporary_folder,
)
from tests.cluster.world import is_ready
from tests.node.builds import all_built
from tests.node.cluster import NodeCluster
from tests.node.images import APP, BUSYBOX, PLATFORM_SETTINGS
from tests.node.node import GPUS

NODES: Final = 2
ROUNDS: Final = 5
ACTS: Final = 10
"""Number of baselines and of hand-overs in a round."""
PAUSE_SECONDS: Final = 1.0
AGE_SECONDS: Final = 3.0
"""Age of the pods that end: a pod that has just started ends more slowly."""
TIMEOUT_SECONDS: Final = 60.0
BASELINE_NAMESPACE: Final = "default"
TARGETS: Final = {"p50": 1.5, "p95": 2.5}
SETTINGS: Final = PodSettings(reservation_image=BUSYBOX, sidecar_image="")
SIZE: Final = Size(cpu="100m", memory="64Mi", gpu=1)


@dataclass
class Trace:
    """The times at which watches first reported the states of pods, Deployments and units."""

    at: dict[tuple[str, str], float] = field(default_factory=dict)
    """By name of the unit (or the pod, without a unit) and state."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def follow(self, cluster: Cluster, kind: ResourceKind, stop: threading.Event) -> None:
        """Watch a kind until `stop`."""
        version = cluster.list(kind).resource_version
        while not stop.is_set():
            stream = cluster.watch(kind, resource_version=version, timeout_seconds=5)
            try:
                for event in stream:
                    version = event.resource_version or version
                    self._note(kind, event.type, event.object, time.perf_counter())
            except ClusterUnavailable:
                if not stop.is_set():
                    raise

    def _note(self, kind: ResourceKind, type_: str, item: Manifest, at: float) -> None:
        metadata = item.get("metadata") or {}
        owner = read(metadata, "labels", UNIT_LABEL) or metadata.get("name", "")
        with self.changed:
            for state in STATES[kind.kind](type_, item):
                self.at.setdefault((str(owner), state), at)
            self.changed.notify_all()

    def wait(self, name: str, state: str) -> float:
        """Return the time at which the state was reported."""
        key = (name, state)
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.at, TIMEOUT_SECONDS):
                raise SystemExit(f"{name}: no state '{state}' after {TIMEOUT_SECONDS:.0f} s")
            return self.at[key]


POD_STATES: Final[dict[str, Callable[[Manifest], bool]]] = {
    "pod waits": lambda pod: condition(pod, "PodScheduled").get("status") == "False",
    "pod bound": lambda pod: bool(read(pod, "spec", "nodeName")),
    "pod terminating": lambda pod: bool(read(pod, "metadata", "deletionTimestamp")),
    "pod terminal": lambda pod: read(pod, "status", "phase") in {"Succeeded", "Failed"},
    "pod running": lambda pod: any(
        read(one, "state", "running") is not None
        for one in items(pod, "status", "containerStatuses")
    ),
    "pod ready": lambda pod: bool(is_ready(pod)),
}
EVENTS: Final = {"ADDED": "created", "DELETED": "gone"}


def _pod_states(type_: str, pod: Manifest) -> Iterator[str]:
    if type_ in EVENTS:
        yield f"pod {EVENTS[type_]}"
    yield from (state for state, holds in POD_STATES.items() if holds(pod))


def _deployment_states(_type: str, deployment: Manifest) -> Iterator[str]:
    if number(deployment, "status", "availableReplicas"):
        yield "Deployment available"


def _unit_states(type_: str, unit: Manifest) -> Iterator[str]:
    if type_ in EVENTS:
        yield f"unit {EVENTS[type_]}"
    if read(unit, "status", "phase") == "Ready":
        yield "unit Ready"


STATES: Final[dict[str, Callable[[str, Manifest], Iterator[str]]]] = {
    POD.kind: _pod_states,
    DEPLOYMENT.kind: _deployment_states,
    GPU_UNIT.kind: _unit_states,
}
PARTS: Final = (
    ("unit", "unit created", "unit created"),
    ("stock", "unit gone", "stock deleted"),
    ("stock", "pod terminating", "stock pod terminating"),
    ("stock", "pod terminal", "stock pod terminal"),
    ("stock", "pod gone", "stock pod gone"),
    ("unit", "pod created", "unit pod created"),
    ("unit", "pod bound", "unit pod bound"),
    ("unit", "pod running", "unit pod running"),
    ("unit", "pod ready", "unit pod ready"),
    ("unit", "Deployment available", "Deployment available"),
    ("unit", "unit Ready", "unit Ready in the cluster"),
    ("unit", "API", "Ready in the API"),
)
"""Whose state, the state, and its name in the output."""


@dataclass
class Acts:
    """Both acts on one cluster whose other GPUs are in use, and their times."""

    bench: Bench
    cluster: Cluster
    trace: Trace
    baseline: list[float] = field(default_factory=list)
    hand_overs: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=dict)

    def fill(self, number: int) -> None:
        """Use GPUs until the end of the benchmark."""
        names = [self.bench.name("filler") for _ in range(number)]
        for name in names:
            self._reserve(name)
        for name in names:
            self.trace.wait(name, "pod ready")

    def baseline_round(self, number: int) -> None:
        """Delete pods for whose GPU another pod waits."""
        holders = [self.bench.name("holder") for _ in range(number)]
        for name in holders:
            self._reserve(name)
        for name in holders:
            self.trace.wait(name, "pod ready")
        _pause(AGE_SECONDS)
        heirs = []
        for holder in holders:
            heirs.append(heir := self.bench.name("heir"))
            self._create(heir, _program())
            self.trace.wait(heir, "pod waits")
            _pause(PAUSE_SECONDS)
            begun = time.perf_counter()
            self.cluster.delete(POD, holder, namespace=BASELINE_NAMESPACE)
            self.baseline.append(self.trace.wait(heir, "pod ready") - begun)
        for name in heirs:
            self.cluster.delete(POD, name, namespace=BASELINE_NAMESPACE)
        for name in [*holders, *heirs]:
            self.trace.wait(name, "pod gone")

    def hand_over_round(self, number: int) -> None:
        """Create units that consume stock."""
        self.bench.seed(number)
        _pause(AGE_SECONDS)
        for _ in range(number):
            self._hand_over(self.bench.name("unit"))
            _pause(PAUSE_SECONDS)
        self.bench.empty()

    def _hand_over(self, name: str) -> None:
        api = self.bench.api()
        body = {"operationID": name, "name": name, "specName": SPEC, "image": APP}
        begun = time.perf_counter()
        answer = api("POST", UNITS, {**body, "template": PORTS})
        if answer.status != 202:
            raise SystemExit(f"a create returned {answer.status}: {answer.body}")
        unit = api("GET", f"{UNITS}/{name}?wait=ready&timeout=60").body["data"]
        ended = time.perf_counter()
        if unit["phase"] != "Ready":
            raise SystemExit(f"{name} is {unit['phase']}: {unit['message']}")
        api.close()
        self.hand_overs.append(ended - begun)
        names = {"unit": name, "stock": unit["sourceStockName"]}
        for whose, state, label in PARTS:
            at = ended if state == "API" else self.trace.wait(names[whose], state)
            self.parts.setdefault(label, []).append(at - begun)

    def _reserve(self, name: str) -> None:
        self._create(name, _reservation())

    def _create(self, name: str, spec: Manifest) -> None:
        metadata = {"name": name, "namespace": BASELINE_NAMESPACE}
        pod = {"apiVersion": "v1", "kind": POD.kind, "metadata": metadata, "spec": spec}
        self.cluster.create(POD, pod)

    def report(self) -> None:
        """Print the percentiles, the parts and the ratios."""
        say(f"baseline ({len(self.baseline)}): {_words(self.baseline)}")
        say(
            f"hand-over, POST → Ready in the API ({len(self.hand_overs)}): "
            f"{_words(self.hand_overs)}"
        )
        for name, found in self.parts.items():
            say(f"  {name:26} {_words(found)}")
        baseline, ours = _percentiles(self.baseline), _percentiles(self.hand_overs)
        for name, target in TARGETS.items():
            say(f"ratio {name}: {ours[name] / baseline[name]:.2f} (target {target})")


def _reservation() -> Manifest:
    """Return the spec of the pod of a stock unit."""
    return _spec(PodTemplate(), image=None, is_reservation=True)


def _program() -> Manifest:
    """Return the spec of the pod of a unit with the test program."""
    template = PodTemplate.parse(PORTS)
    return _spec(template, image=APP, is_reservation=False, primary_port=template.ports[0])


def _spec(template: PodTemplate, **further: Any) -> Manifest:
    workload = Workload(template=template, environment={}, size=SIZE, settings=SETTINGS, **further)
    spec = pod_spec(workload)
    del spec["priorityClassName"]  # Of the installation.
    return spec


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50": cuts[49], "p95": cuts[94], "max": max(seconds)}


def _words(seconds: Sequence[float]) -> str:
    return "  ".join(f"{name} {value:.2f} s" for name, value in _percentiles(seconds).items())


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def main() -> None:
    """Run the benchmark; `python -m tests.node bench` creates its namespaces."""
    parser = argparse.ArgumentParser(prog="make bench-node", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--acts", type=int, default=ACTS, help="of each kind in a round")
    asked = parser.parse_args()
    os.environ.update(PLATFORM_SETTINGS)
    describe_machine(f"{NODES} real nodes with {GPUS} GPUs")
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(NodeCluster(all_built(), NODES, definitions=CRDS))
        platform = UnitsPlatform(
            temporary_folder(stack), is_like_production=True, kubeconfig=nodes.kubeconfig
        )
        bench = started(stack, platform, nodes.kubeconfig)
        acts = Acts(bench, platform.cluster(), Trace())
        stop = threading.Event()
        stack.callback(stop.set)
        for kind in (POD, DEPLOYMENT, GPU_UNIT):
            watch = (platform.cluster(), kind, stop)
            threading.Thread(target=acts.trace.follow, args=watch, daemon=True).start()
        _pause(PAUSE_SECONDS)
        acts.fill(NODES * GPUS - asked.acts)
        for number in range(1, asked.rounds + 1):
            say(f"-- round {number} of {asked.rounds}  [{load_words()}]")
            acts.baseline_round(asked.acts)
            acts.hand_over_round(asked.acts)
        acts.report()


if __name__ == "__main__":
    main()
