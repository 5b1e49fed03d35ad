"""Persistent storage: a journal file of changes, which is rewritten when it has grown.

Each line is one change. A killed process can leave a truncated last line, which is removed at the
next start, because the client did not get a response for this change. A rewrite creates a second
file and renames it, so a complete file always exists.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from gpuplatform.dev.simulator.apiserver.objects import to_bytes

StateKey: TypeAlias = tuple[str, str, str, str]

_GROWTH_BYTES = 16 * 1024 * 1024


class Journal:
    """A journal in `directory`/state.jsonl, which only one process can open."""

    def __init__(self, directory: Path) -> None:
        """Lock the directory.

        Raises:
            BlockingIOError: If another server uses the directory.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)  # The objects contain Secrets.
        self._lock = _private(directory / "lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise
        for file in directory.iterdir():  # An earlier release created them for every reader.
            file.chmod(0o600)
        self._path = directory / "state.jsonl"
        self._file = _private(self._path).open("ab", buffering=0)
        self._size = self._file.tell()
        self._limit = max(self._size * 2, _GROWTH_BYTES)

    @property
    def needs_rewrite(self) -> bool:
        """Whether the file has grown enough to be rewritten."""
        return self._size > self._limit

    def read(self) -> Iterator[tuple[StateKey, bytes]]:
        """Yield all changes, each an object or only a version. Remove a truncated last line."""
        complete = 0
        with self._path.open("rb") as file:
            for line in file:
                if not line.endswith(b"]\n"):
                    break
                *key, state = line[1:-2].split(b",", 4)  # Keys do not contain commas.
                group, plural, namespace, name = (part[1:-1].decode() for part in key)
                yield (group, plural, namespace, name), state
                complete += len(line)
        if complete < self._size:
            os.truncate(self._path, complete)
            self._size = complete

    def put(self, key: StateKey, obj: bytes) -> None:
        """Append the new state of an object."""
        self._append(_line(key, obj))

    def remove(self, key: StateKey, version: int) -> None:
        """Append the deletion of an object."""
        self._append(_line(key, str(version).encode()))

    def _append(self, line: bytes) -> None:
        self._file.write(line)
        self._size += len(line)

    def rewrite(self, version: int, objects: Iterable[tuple[StateKey, bytes]]) -> None:
        """Replace the file with a file that contains only the current state."""
        fresh = self._path.with_suffix(".new")
        with _private(fresh).open("wb") as file:
            file.write(_line(("", "", "", ""), str(version).encode()))
            for key, obj in objects:
                file.write(_line(key, obj))
        fresh.replace(self._path)
        self._file.close()
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.seek(0, os.SEEK_END)
        self._limit = max(self._size * 2, _GROWTH_BYTES)

    def close(self) -> None:
        """Unlock the directory."""
        self._file.close()
        self._lock.close()


def _private(path: Path) -> Path:
    """Create a file that only its owner can read, unless it exists; return its path."""
    path.touch(mode=0o600)
    return path


def _line(key: StateKey, tail: bytes) -> bytes:
    return to_bytes(list(key))[:-1] + b"," + tail + b"]\n"
