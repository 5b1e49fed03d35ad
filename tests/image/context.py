"""The build context of the image: the files of the repository that `.dockerignore` includes."""

import fnmatch
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of `.dockerignore`; with `!` it includes files that an earlier line excluded."""

    pattern: str
    is_included: bool

    def matches(self, path: PurePosixPath) -> bool:
        """Return whether the rule applies to the file or to one of its directories."""
        anywhere = self.pattern.removeprefix("**/")
        for part in (path, *path.parents[:-1]):
            name = part.name if anywhere != self.pattern else str(part)
            if name.count("/") == anywhere.count("/") and fnmatch.fnmatch(name, anywhere):
                return True
        return False


def read_rules(text: str) -> list[Rule]:
    """Return the rules of a `.dockerignore` in their order."""
    lines = [line.strip() for line in text.splitlines()]
    return [
        Rule(line.removeprefix("!").strip("/"), is_included=line.startswith("!"))
        for line in lines
        if line and not line.startswith("#")
    ]


def is_included(path: PurePosixPath, rules: Sequence[Rule]) -> bool:
    """Return whether the last rule that applies to the file includes it."""
    included = True
    for rule in rules:
        if rule.matches(path):
            included = rule.is_included
    return included


def context_files(repository: Path) -> Iterator[PurePosixPath]:
    """Yield the path of every file of the build context, relative to the repository."""
    rules = read_rules((repository / ".dockerignore").read_text())
    # The context is an allow list, so other top-level directories need not be read.
    tops = {rule.pattern.partition("/")[0] for rule in rules if rule.is_included}
    for top in sorted(tops):
        start = repository / top
        found = [start] if start.is_file() else _files_below(start)
        for file in found:
            path = PurePosixPath(file.relative_to(repository).as_posix())
            if is_included(path, rules):
                yield path


def _files_below(folder: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(folder):
        yield from (Path(directory, name) for name in sorted(names))
