"""Watches: every change once, bookmarks, and 410 for compacted versions."""

import itertools
import json
from collections.abc import Iterator

import pytest

from gpuplatform.kube.errors import ClusterGone
from gpuplatform.kube.kinds import CONFIG_MAP, ResourceKind
from gpuplatform.kube.watch import WatchEvent, WatchStream
from tests.cluster.world import World

pytestmark = pytest.mark.cluster
BOOKMARK_SECONDS = 4
"""A server sends a bookmark about once a minute, and two seconds before the end of a watch."""
BOOKMARK_WATCHES = 10
"""A loaded server omits the last bookmark."""


def version_now(world: World) -> str:
    return world.cluster.list(CONFIG_MAP, namespace=world.namespace).resource_version


def begin(world: World, version: str, *, selector: str = "", seconds: float = 20) -> WatchStream:
    """Return a watch that the server has started."""
    return world.cluster.watch(
        CONFIG_MAP,
        resource_version=version,
        namespace=world.namespace,
        label_selector=selector,
        timeout_seconds=seconds,
    )


def watch(
    world: World, version: str, *, selector: str = "", seconds: float = 20
) -> Iterator[WatchEvent]:
    """Yield the events of the objects of the test; the request is sent at the first of them."""
    for event in begin(world, version, selector=selector, seconds=seconds):
        if not event.object["metadata"].get("name", "").startswith("kube-root"):
            yield event


def first(events: Iterator[WatchEvent], count: int) -> list[tuple[str, str]]:
    """Return type and name of the first events that are not bookmarks."""
    changes = (event for event in events if event.type != "BOOKMARK")
    return [
        (event.type, event.object["metadata"]["name"])
        for event in itertools.islice(changes, count)
    ]


def test_a_watch_has_the_changes_after_its_version_in_order(world: World) -> None:
    world.config_map("before")
    version = version_now(world)
    world.config_map("one")
    world.patch(CONFIG_MAP, "one", {"data": {"a": "1"}})
    world.delete(CONFIG_MAP, "one")

    seen = first(watch(world, version), 3)

    assert seen == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]


def test_a_watch_without_version_begins_with_the_existing_objects(world: World) -> None:
    world.config_map("one")
    query = "?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Done"

    reply = world.http("GET", world.path(CONFIG_MAP) + query)

    lines = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
    events = [json.loads(line) for line in lines.splitlines() if line]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "one")
    ]


def test_a_watch_resumed_after_an_event_misses_and_repeats_nothing(world: World) -> None:
    version = version_now(world)
    for name in ("a", "b", "c", "d"):
        world.config_map(name)
    events = watch(world, version)
    seen = [next(events) for _ in range(2)]

    rest = first(watch(world, seen[-1].object["metadata"]["resourceVersion"]), 2)

    assert [event.object["metadata"]["name"] for event in seen] == ["a", "b"]
    assert rest == [("ADDED", "c"), ("ADDED", "d")]


def test_an_open_watch_has_new_changes(world: World) -> None:
    events = watch(world, version_now(world))
    world.config_map("one")
    opened = first(events, 1)
    world.patch(CONFIG_MAP, "one", {"data": {"a": "1"}})

    assert opened == [("ADDED", "one")]
    assert first(events, 1) == [("MODIFIED", "one")]


def test_a_bookmark_updates_the_version_of_a_watch(world: World) -> None:
    version = version_now(world)
    found = None
    for number in range(BOOKMARK_WATCHES):
        # A bookmark has the version of a change after the start of the watch.
        events = begin(world, version, seconds=BOOKMARK_SECONDS)
        name = f"elsewhere-{world.namespace}-{number}"
        made = {"metadata": {"name": name, "namespace": "default"}}
        world.create(CONFIG_MAP, made)
        found = next((event for event in events if event.type == "BOOKMARK"), None)
        world.cluster.delete(CONFIG_MAP, name, namespace="default")
        if found:
            break

    assert found is not None
    assert int(found.resource_version) > int(version)


def test_a_watch_ends_at_its_timeout(world: World) -> None:
    assert first(watch(world, version_now(world), seconds=1), 1) == []


def test_a_watch_from_a_compacted_version_is_gone(world: World, widgets: ResourceKind) -> None:
    with pytest.raises(ClusterGone):
        next(
            world.cluster.watch(
                widgets, resource_version="1", namespace=world.namespace, timeout_seconds=3
            )
        )


def test_a_list_of_an_invalid_version_is_a_bad_request(world: World) -> None:
    reply = world.http("GET", world.path(CONFIG_MAP) + "?resourceVersion=nonsense")

    assert (reply.status, reply.reason) == (400, "BadRequest")


def test_an_object_that_enters_a_selector_is_added(world: World) -> None:
    world.config_map("one")
    version = version_now(world)
    world.patch(CONFIG_MAP, "one", {"metadata": {"labels": {"app": "x"}}})

    assert first(watch(world, version, selector="app=x"), 1) == [("ADDED", "one")]


def test_an_object_that_leaves_a_selector_is_deleted(world: World) -> None:
    labels = {"app": "x"}
    world.create(CONFIG_MAP, {"metadata": {"name": "one", "labels": labels}})
    version = version_now(world)
    world.patch(CONFIG_MAP, "one", {"metadata": {"labels": None}})

    assert first(watch(world, version, selector="app=x"), 1) == [("DELETED", "one")]


def test_an_object_that_leaves_a_selector_has_its_old_state_and_the_new_version(
    world: World,
) -> None:
    labels = {"app": "x"}
    world.create(CONFIG_MAP, {"metadata": {"name": "one", "labels": labels}})
    version = version_now(world)
    left = world.patch(CONFIG_MAP, "one", {"metadata": {"labels": None}, "data": {"a": "1"}})

    event = next(watch(world, version, selector="app=x"))

    assert event.type == "DELETED"
    assert event.object["metadata"]["labels"] == labels
    assert event.object["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


def test_a_deletion_has_a_new_version(world: World) -> None:
    made = world.config_map("one")
    world.delete(CONFIG_MAP, "one")

    event = next(watch(world, made["metadata"]["resourceVersion"]))

    assert event.type == "DELETED"
    deleted, created = event.object["metadata"], made["metadata"]
    assert deleted["uid"] == created["uid"]
    assert int(deleted["resourceVersion"]) > int(created["resourceVersion"])
