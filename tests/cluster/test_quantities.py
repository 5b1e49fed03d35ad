"""The platform and the API server parse a quantity to the same value, and its text is unchanged.

Hundreds of values in few requests: each is a limit of a container of a pod that is sent as a
dry-run. The server keeps the notation that it receives (`1000Ki`, where the platform writes
`1024k`). The test compares its response by value for the given text, by letter for the other.
"""

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import pytest

from gpuplatform.formats.quantity import Quantity, cpu, memory
from gpuplatform.kube.kinds import POD
from tests.cluster.world import World

pytestmark = pytest.mark.cluster

EACH: Final = 300
"""Values of memory; the same number of CPU values."""
IN_A_POD: Final = 50
DECIMAL: Final = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E")
BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def texts(seed: int) -> Iterator[str]:
    """Yield typical texts: units, fractions, exponents, signs, leading zeros."""
    chance = random.Random(seed)
    while True:
        whole = str(chance.randrange(10 ** chance.randint(1, 16)))
        part = "." + str(chance.randrange(1000)).rstrip("0") if chance.random() < 0.3 else ""
        unit = chance.choice((*DECIMAL, *BINARY, *BINARY))
        if chance.random() < 0.15:
            unit = f"{chance.choice('eE')}{chance.choice(('', '+', '-'))}{chance.randint(0, 12)}"
        lead = chance.choice(("", "", "", "+", "0", "00"))
        yield f"{lead}{whole}{part}{unit}"


def accepted(rule: Callable[[str], str], seed: int) -> Iterator[tuple[str, str]]:
    """Yield texts that the platform accepts, with their canonical text."""
    for text in texts(seed):
        try:
            yield text, rule(text)
        except ValueError:
            continue


def container(name: str, memory_text: str, cpu_text: str) -> dict[str, Any]:
    limits = {"memory": memory_text, "cpu": cpu_text}
    return {"name": name, "image": "busybox", "resources": {"limits": limits}}


def test_a_quantity_is_what_the_api_server_makes_of_it(world: World) -> None:
    memories = list(islice(accepted(memory, 1), EACH))
    cpus = list(islice(accepted(cpu, 2), EACH))
    wrong = []
    for start in range(0, EACH, IN_A_POD):
        rows = list(zip(memories, cpus, strict=True))[start : start + IN_A_POD]
        containers = [
            container(f"{how}-{number}", row[0][place], row[1][place])
            for number, row in enumerate(rows)
            for place, how in enumerate(("given", "ours"))
        ]
        manifest = {"metadata": {"name": "quantities"}, "spec": {"containers": containers}}

        answer = world.http("POST", f"{world.path(POD)}?dryRun=All", world.placed(POD, manifest))

        assert answer.status == 201, answer.message
        found = [one["resources"]["limits"] for one in answer.body["spec"]["containers"]]
        for row, given, ours in zip(rows, found[::2], found[1::2], strict=True):
            for (text, own), what in zip(row, ("memory", "cpu"), strict=True):
                is_same = (
                    Quantity.parse(given[what]) == Quantity.parse(text) == Quantity.parse(own)
                )
                if not is_same or ours[what] != own:
                    wrong.append((text, own, given[what], ours[what]))

    assert wrong == []
    assert len({text for text, _ in (*memories, *cpus)}) >= 500
