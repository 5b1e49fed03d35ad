"""What a job is called by people: `Create unit trainer` for the kind `unit.create`.

The machine's word stays where it is looked for: among the facts of a job's page and in the API.
"""

from collections.abc import Mapping
from typing import Final

from gpuplatform.adminkit.display.text import humanize, visible
from gpuplatform.operations.models import Operation

_NOUNS: Final[Mapping[str, str]] = {
    "unit": "GPU unit",
    "stockpool": "stock pool",
    "gpuspec": "GPU spec",
}
_VERBS: Final[Mapping[str, str]] = {"update": "Change"}
_SEED: Final = "stock.seed"
_WORDS: Final[Mapping[str, str]] = {"stock.remove": "Remove stock unit"}
"""Where noun and verb alone say it badly."""


def kind_title(kind: str) -> str:
    """Return what jobs of a kind do."""
    if kind in _WORDS:
        return _WORDS[kind]
    noun, _, verb = kind.partition(".")
    return f"{_VERBS.get(verb) or humanize(verb)} {_NOUNS.get(noun, noun)}".strip()


def operation_subject(job: Operation) -> str:
    """Return what a job is about, by its name; a seeding is about a GPU spec, not about a unit."""
    spec = job.payload.get("specName") if job.kind == _SEED else None
    return visible(str(spec or job.object_name))


def operation_title(job: Operation) -> str:
    """Return what a job does, and to what."""
    return f"{kind_title(job.kind)} {operation_subject(job)}".strip()
