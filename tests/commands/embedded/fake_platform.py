"""Runs a supervisor over the parts that its first argument describes as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

from gpuplatform.dev.embedded.children import ChildRecord, Command, stop_leftovers
from gpuplatform.dev.embedded.console import Console
from gpuplatform.dev.embedded.supervisor import Part, StopTimes, Supervisor


def _command(fields: dict[str, Any]) -> Command | None:
    if code := fields.pop("code", None):
        return Command(argv=(sys.executable, "-u", "-c", code))
    return None


def _part(name: str, fields: dict[str, Any]) -> Part:
    command = _command(fields)
    file = fields.pop("ready_file", None)
    after = tuple(fields.pop("after", ()))
    is_ready = None if file is None else Path(file).exists
    return Part(name, command, after=after, is_ready=is_ready, **fields)


def main() -> int:
    """Print `READY` when all parts are ready, and `STOPPING` when stopping begins."""
    description = json.loads(sys.argv[1])
    record = ChildRecord(Path(description["record"]))
    console = Console(tuple(description["parts"]))
    console.plain(f"LEFTOVERS {','.join(stop_leftovers(record))}")
    record.begin()
    parts = [_part(name, fields) for name, fields in description["parts"].items()]
    supervisor = Supervisor(parts, console, record, StopTimes(**description.get("times", {})))

    def when_ready() -> bool:
        console.plain("READY")
        return bool(description.get("keeps_running", True))

    return supervisor.run(when_ready, lambda: console.plain("STOPPING"))


if __name__ == "__main__":
    sys.exit(main())
