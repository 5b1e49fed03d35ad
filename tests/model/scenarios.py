"""Scenarios: the requests, the number of ready stock units, and the budget of each fault.

python -m tests.model.scenarios [NAME …] [--without RULE,…] [--limit STATES]
"""

import argparse
import sys
import time
from types import MappingProxyType

from tests.model.explorer import Exploration, Finding
from tests.model.state import FAULTS, RULES, Config, Request


def _requests(words: str) -> tuple[Request, ...]:
    """Parse `create 0, stop 0`."""
    pairs = (word.split() for word in words.split(", "))
    return tuple(Request(kind, int(name)) for kind, name in pairs)


_TWO = "create 0, create 1"
_DELETED = f"{_TWO}, delete 0"
_AGAIN = "create 0, delete 0, create 0"
_START = "create 0, stop 0, start 0"

SCENARIOS: MappingProxyType[str, tuple[str, int, dict[str, int]]] = MappingProxyType(
    {
        "short": (_TWO, 1, {}),
        "plain": (f"{_TWO}, create 2", 2, {}),
        "seed3": ("seed 0, create 0", 0, {"late": 1, "crash": 1, "refuse": 1, "sweep": 1}),
        "refuse": (_TWO, 1, {"late": 1, "refuse": 1, "crash": 1}),
        "stop1": ("create 0, stop 0, create 1", 1, {"crash": 1, "planner": 1}),
        "races": (_DELETED, 1, {"planner": 1, "sweep": 1, "crash": 1}),
        "seed1": ("seed 0, create 0", 0, {"late": 1, "planner": 1, "outsider": 1}),
        "late2": (_TWO, 1, {"late": 2, "refuse": 1, "sweep": 1}),
        "outsider1": (_DELETED, 1, {"outsider": 1, "planner": 1}),
        "evict": (_AGAIN, 2, {"evict": 1, "planner": 1}),
        "kill": (_DELETED, 2, {"crash": 2}),
        "refuse2": (_TWO, 2, {"late": 1, "refuse": 1, "ambig": 1}),
        "again": (_AGAIN, 2, {"late": 1, "crash": 1}),
        "end1": ("create 0, start 0, stop 0", 2, {"end": 1, "planner": 1}),
        "end2": ("create 0, start 0, stop 0, start 0", 3, {"end": 2, "planner": 1}),
        "end3": ("create 0, start 0, stop 0", 2, {"end": 1, "late": 1, "refuse": 1}),
        "outsider": (_TWO, 2, {"outsider": 1, "late": 1}),
        "again2": (_AGAIN, 2, {"late": 1, "sweep": 1, "planner": 1}),
        "stop2": (f"{_START}, stop 0", 2, {"late": 1}),
        "stop3": (_START, 2, {"late": 1, "planner": 1}),
        "again3": (_AGAIN, 2, {"late": 1, "outsider": 1}),
        "stop6": (_START, 2, {"late": 1, "refuse": 1, "planner": 1}),
        "stop7": (f"{_START}, delete 0", 2, {"crash": 1, "ambig": 1, "planner": 1}),
        "ambig": (_DELETED, 2, {"ambig": 1, "late": 1}),
        "late": (_DELETED, 2, {"crash": 1, "late": 1}),
        "sweep": (_DELETED, 2, {"sweep": 1, "refuse": 1, "late": 1}),
        "seed2": (
            "create 0, seed 1, create 1",
            1,
            {"late": 1, "crash": 1, "mirror": 1},
        ),
        "mix1": (
            _TWO,
            1,
            {"crash": 1, "late": 1, "refuse": 1, "planner": 1, "sweep": 1, "outsider": 1},
        ),
        "stop5": (_START, 2, {"late": 1, "outsider": 1}),
        "planner": (_DELETED, 2, {"planner": 1, "late": 1}),
        "stop8": (f"{_START}, create 1", 2, {"late": 1, "refuse": 1}),
        "stop12": (f"{_START}, stop 0, start 0", 3, {"planner": 1}),
        "stop13": (f"{_START}, stop 0, start 0", 3, {"planner": 1, "refuse": 1}),
        "stop10": (_START, 1, {"late": 1, "crash": 1, "outsider": 1}),
        "stop11": ("create 0, start 0, stop 0, start 0", 3, {"late": 1, "refuse": 1}),
        "stop4": (_START, 3, {"late": 1, "outsider": 1}),
        "late3": (_DELETED, 2, {"late": 2, "refuse": 1}),
        "outsider2": (_DELETED, 2, {"outsider": 1, "planner": 1, "crash": 1}),
        "mirror": (_DELETED, 2, {"mirror": 1, "late": 1}),
        "stop9": (f"{_START}, stop 0, start 0", 3, {"late": 1, "refuse": 1}),
        "three": (f"{_TWO}, create 2, delete 0", 3, {"late": 1}),
        "mix2": (_DELETED, 2, {"late": 1, "refuse": 1, "sweep": 1, "outsider": 1}),
    }
)
"""In order of size."""


def explore(
    name: str, *, without: frozenset[str] = frozenset(), limit: int = 2_000_000
) -> Finding:
    """Explore a scenario, with all rules except some."""
    words, stock, faults = SCENARIOS[name]
    budget = tuple(faults.get(fault, 0) for fault in FAULTS)
    rules = frozenset(RULES) - without
    return Exploration(Config(_requests(words), stock, budget, rules)).run(limit)


def main() -> int:
    """Explore the scenarios of the command line, and print the findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SCENARIOS, []], metavar="NAME")
    parser.add_argument("--without", default="", metavar="RULE,…")
    parser.add_argument("--limit", type=int, default=2_000_000)
    asked = parser.parse_args()
    without = frozenset(filter(None, asked.without.split(",")))
    found = 0
    for name in asked.names or SCENARIOS:
        begun = time.monotonic()
        finding = explore(name, without=without, limit=asked.limit)
        found += bool(finding.fault)
        sys.stdout.write(f"{name:10} {time.monotonic() - begun:6.1f} s  {finding}\n")
        sys.stdout.flush()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
