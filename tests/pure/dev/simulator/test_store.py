import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.dev.simulator.apiserver.journal import Journal
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.store import Change, Key, Store


def key(name: str) -> Key:
    return ("", "configmaps", "default", name)


def config_map(name: str, value: str = "x") -> Manifest:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}}


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[tuple[Store, Journal]]:
    journal = Journal(directory)
    try:
        yield Store(journal), journal
    finally:
        journal.close()


def names(store: Store) -> list[str]:
    return [entry.key[3] for entry in store.find(("", "configmaps"))]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with opened(tmp_path) as (store, _):
        for name in ("one", "two", "three"):
            store.commit(key(name), config_map(name))
        store.commit(key("one"), config_map("one", "changed"))
        store.remove(key("two"), config_map("two"))
    return tmp_path


def test_state_survives_a_restart(filled: Path) -> None:
    with opened(filled) as (store, _):
        pass

    assert names(store) == ["one", "three"]
    assert store.version == 5
    entry = store.get(key("one"))
    assert entry is not None
    assert entry.object["data"] == {"v": "changed"}


def test_a_truncated_line_is_dropped(filled: Path) -> None:
    file = filled / "state.jsonl"
    file.write_bytes(file.read_bytes() + b'["","configmaps","default","torn",{"apiVer')

    with opened(filled) as (store, _):
        store.commit(key("four"), config_map("four"))
    with opened(filled) as (store, _):
        pass

    assert names(store) == ["four", "one", "three"]


def test_a_file_truncated_anywhere_loads(filled: Path, tmp_path: Path) -> None:
    whole = (filled / "state.jsonl").read_bytes()
    place = tmp_path / "cut"
    for length in range(0, len(whole), 7):
        place.mkdir(exist_ok=True)
        (place / "state.jsonl").write_bytes(whole[:length])
        with opened(place) as (store, _):
            pass

        assert set(names(store)) <= {"one", "two", "three"}


def test_a_rewritten_file_keeps_objects_and_version(filled: Path) -> None:
    with opened(filled) as (store, journal):
        journal.rewrite(store.version, ((e.key, e.json) for e in store.entries()))
    with opened(filled) as (again, _):
        pass

    assert names(again) == ["one", "three"]
    assert again.version == 5


def test_one_directory_has_one_server(filled: Path) -> None:
    with opened(filled), pytest.raises(BlockingIOError):
        Journal(filled)


def test_changes_since_a_version_come_in_order() -> None:
    store = Store(None)
    for name in ("a", "b", "c"):
        store.commit(key(name), config_map(name))

    changes = store.history(("", "configmaps")).since(1)

    assert changes is not None
    assert [(c.type, c.entry.key[3]) for c in changes] == [("ADDED", "b"), ("ADDED", "c")]


def test_changes_before_the_window_are_compacted() -> None:
    store = Store(None)
    for number in range(4001):
        store.commit(key("a"), config_map("a", str(number)))
    history = store.history(("", "configmaps"))

    assert history.since(1) is None
    assert history.since(store.version) == []


def test_versions_before_a_restart_are_compacted(filled: Path) -> None:
    with opened(filled) as (store, _):
        history = store.history(("", "configmaps"))

    assert history.since(4) is None
    assert history.since(5) == []


def test_dependents_are_found_by_the_uid_of_their_owner() -> None:
    store = Store(None)
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [{"uid": "uid-owner", "controller": True}]
    store.commit(key("child"), child)
    store.commit(key("free"), config_map("free"))

    assert [e.key[3] for e in store.owned("uid-owner")] == ["child"]
    assert [e.key[3] for e in store.uncontrolled(("", "configmaps"), "default")] == ["free"]
    store.remove(key("child"), child)
    assert store.owned("uid-owner") == []


def test_a_listener_that_fails_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    store, seen = Store(None), list[str]()

    def fail(change: Change) -> None:
        raise KeyError(change.entry.key)

    store.listen(fail)
    store.listen(lambda change: seen.append(change.entry.key[3]))
    store.commit(key("one"), config_map("one"))

    assert (seen, names(store)) == (["one"], ["one"])
    assert [record.exc_info is not None for record in caplog.records] == [True]
