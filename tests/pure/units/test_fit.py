"""A unit that no node can hold is detected before any of its objects is created."""

from typing import Any

import pytest

from units.core.fit import misfit, units_on_empty_nodes

GPU = "nvidia.com/gpu"
SMALL = {"cpu": "8", "memory": "64Gi", GPU: "1"}


def node(gpus: str = "8", *, away: bool = False, **labels: str) -> dict[str, Any]:
    size = {"cpu": "64", "memory": "512Gi", GPU: gpus}
    offered = {**size, GPU: "0"} if away else size
    return {"metadata": {"labels": labels}, "status": {"capacity": size, "allocatable": offered}}


def test_a_request_that_fits_a_node_has_no_misfit() -> None:
    assert misfit(SMALL, {}, [node("0"), node("8")]) == ""


@pytest.mark.parametrize(
    ("resource", "amount", "largest"),
    [(GPU, "16", "8"), ("cpu", "73", "64"), ("memory", "1Ti", "512Gi")],
    ids=["gpus", "cpu", "memory"],
)
def test_a_request_larger_than_every_node_names_both_amounts(
    resource: str, amount: str, largest: str
) -> None:
    text = misfit({**SMALL, resource: amount}, {}, [node(), node("4")])

    assert all(part in text for part in (f"{amount} {resource}", f" {largest}."))


def test_amounts_on_different_nodes_do_not_add_up() -> None:
    many_gpus, much_memory = node("8"), node("1")
    many_gpus["status"]["capacity"]["memory"] = "8Gi"

    assert misfit({"memory": "64Gi", GPU: "8"}, {}, [many_gpus, much_memory])


def test_only_nodes_with_the_labels_count() -> None:
    nodes = [node("8", zone="a"), node("1", zone="b")]

    assert misfit({GPU: "8"}, {"zone": "a"}, nodes) == ""
    assert misfit({GPU: "8"}, {"zone": "b"}, nodes)
    assert "disk=fast, zone=c" in misfit({GPU: "8"}, {"zone": "c", "disk": "fast"}, nodes)


def test_gpus_that_are_temporarily_missing_count() -> None:
    assert misfit({GPU: "8"}, {}, [node(away=True)]) == ""


def test_a_cluster_without_nodes_has_no_misfit() -> None:
    assert misfit({GPU: "8"}, {"zone": "a"}, []) == ""


@pytest.mark.parametrize("odd", [{}, {"status": 7}, {"status": {"capacity": {GPU: "many"}}}])
def test_malformed_nodes_are_ignored(odd: dict[str, Any]) -> None:
    assert misfit({GPU: "8"}, {}, [odd, node("8")]) == ""


def test_cpu_and_memory_that_no_node_reports_are_unlimited() -> None:
    unreported = {"metadata": {}, "status": {"capacity": {GPU: "1"}, "allocatable": {}}}

    assert misfit(SMALL, {}, [unreported]) == ""


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({GPU: "1"}, 8 + 4),
        ({GPU: "3"}, 2 + 1),
        ({GPU: "8"}, 1),
        ({GPU: "16"}, 0),
        ({GPU: "1", "memory": "100Gi"}, 5 + 4),
        ({GPU: "1", "cpu": "65"}, 0),
        ({GPU: "0"}, None),
        ({}, None),
        ({"amd.com/gpu": "1"}, None),
        ({GPU: "many"}, None),
    ],
    ids=str,
)
def test_the_units_on_empty_nodes_are_counted_by_node(
    wanted: dict[str, str], expected: int | None
) -> None:
    assert units_on_empty_nodes(wanted, {}, [node("8", away=True), node("4")]) == expected


def test_only_nodes_with_the_labels_have_units() -> None:
    nodes = [node("8", zone="a"), node("1", zone="b")]

    assert units_on_empty_nodes({GPU: "1"}, {"zone": "b"}, nodes) == 1
    assert units_on_empty_nodes({GPU: "1"}, {"zone": "c"}, nodes) is None
    assert units_on_empty_nodes({GPU: "1"}, {}, []) is None
