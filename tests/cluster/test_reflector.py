"""The reflector on an API server behind a proxy that breaks connections: no change is lost.

`GPUPLATFORM_TEST_CHANGES=10000` runs the long test instead of the short one.
"""

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typing_extensions import override

from gpuplatform.kube.client import Cluster, Listing
from gpuplatform.kube.kinds import CONFIG_MAP, Manifest
from gpuplatform.kube.reflector import Reflector, Timings
from tests.cluster.world import World
from tests.fakes import faults
from tests.fakes.fault_proxy import FaultProxy, Upstream
from tests.fakes.faults import Cut, Fault, Refuse, Rule

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

CHANGES = int(os.environ.get("GPUPLATFORM_TEST_CHANGES", "1000"))
CHANGES_OF_A_ROUND = 1000
"""The number of changes between comparisons of the mirror with the server."""
WRITERS = 4
NAMES = 40
"""Objects of one writer, which changes, deletes and recreates each of them."""
PATIENCE_SECONDS = 60
LABEL = "test=reflector"

FAST = Timings(
    watch_seconds=(2, 4),
    silence_seconds=1.0,
    backoff_seconds=(0.01, 0.1),
    short_watch_seconds=0.2,
    retry_after_seconds=1,
)

STREAM_FAULTS: list[Fault] = [
    faults.cut_stream(120),
    faults.gone(40),
    faults.half_open(60),
    faults.cut_in_line(30),
    faults.repeat(3),
    faults.broken_line(50),
    faults.reorder(4),
    Refuse(410, "Expired"),
    faults.half_open(0),
    Refuse(429, "TooManyRequests", retry_after=1),
    Cut(),
    Refuse(503),
    faults.cut_stream(0),
]
LIST_FAULTS: list[Fault] = [Refuse(500), Cut(is_after=True), Refuse(410, "Expired"), Cut()]


class Mirror:
    """The state of a consumer, which ignores events that are older than its state."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.lists = 0
        self.events = 0
        self._newest: dict[str, int] = {}
        self._listed_at = 0
        self._seen: set[int] = set()
        self._changed = threading.Condition()

    def on_list(self, listing: Listing) -> None:
        with self._changed:
            self.versions = {
                item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
                for item in listing.items
            }
            self.lists += 1
            self._newest = {}
            self._listed_at = int(listing.resource_version)
            self._changed.notify_all()

    def on_event(self, kind: str, manifest: Manifest) -> None:
        name, version = manifest["metadata"]["name"], int(manifest["metadata"]["resourceVersion"])
        with self._changed:
            self.events += 1
            self._seen.add(version)
            if version > self._newest.get(name, self._listed_at):
                self._newest[name] = version
                self.versions[name] = version
                if kind == "DELETED":
                    del self.versions[name]
            self._changed.notify_all()

    def wait_until_listed(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.lists > 0, PATIENCE_SECONDS)

    def wait_for(self, expected: dict[str, int]) -> None:
        with self._changed:
            met = self._changed.wait_for(lambda: self.versions == expected, PATIENCE_SECONDS)
            assert met, set(self.versions.items()) ^ set(expected.items())

    def missed(self, written: list[int]) -> list[int]:
        """Return the changes without an event and without a later list."""
        with self._changed:
            return [v for v in written if v > self._listed_at and v not in self._seen]


class Writer(threading.Thread):
    """Creates, changes and deletes its own objects without delay."""

    def __init__(self, cluster: Cluster, namespace: str, number: int, changes: int) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._namespace = namespace
        self._number = number
        self._changes = changes
        self.written: list[int] = []
        """The versions that created or changed an object."""

    @override
    def run(self) -> None:
        made: set[str] = set()
        draw = random.Random(self._number)
        for change in range(self._changes):
            name = f"w{self._number}-{draw.randrange(NAMES)}"
            if name not in made:
                done = self._make(name, change)
                made.add(name)
            elif draw.random() < 0.25:
                self._cluster.delete(CONFIG_MAP, name, namespace=self._namespace)
                made.remove(name)
                continue
            else:
                patch = {"data": {"change": str(change)}}
                done = self._cluster.merge_patch(
                    CONFIG_MAP, name, patch, namespace=self._namespace
                )
            self.written.append(int(done["metadata"]["resourceVersion"]))
        for name in made:
            if draw.random() < 0.5:
                self._cluster.delete(CONFIG_MAP, name, namespace=self._namespace)

    def _make(self, name: str, change: int) -> Manifest:
        labels = dict([LABEL.split("=")])
        return self._cluster.create(
            CONFIG_MAP,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": self._namespace, "labels": labels},
                "data": {"change": str(change)},
            },
        )


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[FaultProxy]:
    with FaultProxy(Upstream.of(kubeconfig)).running() as running:
        yield running


@contextmanager
def reflecting(proxy: FaultProxy, world: World, timings: Timings = FAST) -> Iterator[Mirror]:
    mirror, stop, cluster = Mirror(), threading.Event(), proxy.cluster()
    reflector = Reflector(
        cluster,
        CONFIG_MAP,
        on_list=mirror.on_list,
        on_event=mirror.on_event,
        namespace=world.namespace,
        label_selector=LABEL,
        timings=timings,
    )
    thread = threading.Thread(target=reflector.run, args=(stop,))
    thread.start()
    try:
        yield mirror
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)
        cluster.close()
        assert not thread.is_alive()


def write(world: World, changes: int, first_number: int) -> list[int]:
    writers = [
        Writer(world.cluster, world.namespace, first_number + n, changes // WRITERS)
        for n in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(PATIENCE_SECONDS * 5)
        assert not writer.is_alive()
    return [version for writer in writers for version in writer.written]


def truth(world: World) -> dict[str, int]:
    listing = world.cluster.list(CONFIG_MAP, namespace=world.namespace, label_selector=LABEL)
    return {
        item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
        for item in listing.items
    }


def test_every_change_is_reported_once_and_in_order_without_faults(
    world: World, proxy: FaultProxy
) -> None:
    with reflecting(proxy, world, Timings()) as mirror:
        mirror.wait_until_listed()
        written = write(world, 400, first_number=1000)
        mirror.wait_for(truth(world))

    assert mirror.lists == 1
    assert mirror.missed(written) == []
    assert mirror.events >= len(written)


def test_no_change_is_lost_however_the_connection_breaks(world: World, proxy: FaultProxy) -> None:
    with reflecting(proxy, world) as mirror:
        for number in range(CHANGES // CHANGES_OF_A_ROUND):
            rules = [Rule(fault, verbs=("watch",)) for fault in STREAM_FAULTS]
            rules += [Rule(fault, verbs=("list",), skip=n) for n, fault in enumerate(LIST_FAULTS)]
            random.shuffle(rules)
            proxy.add(*rules)
            written = write(world, CHANGES_OF_A_ROUND, first_number=number * WRITERS)
            mirror.wait_for(truth(world))
            assert mirror.missed(written) == []

    print(f"\n{CHANGES} changes, {mirror.events} events, {mirror.lists} lists")  # noqa: T201
