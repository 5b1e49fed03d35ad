"""The cache of built files, keyed by their sources, in the cache directory of the user."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path


def cache_root() -> Path:
    """Return the directory of all files that these tests keep."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuplatform"


def key_of(content: Iterable[bytes]) -> str:
    """Return a short key of the content that something is built from."""
    return hashlib.sha256(b"".join(content)).hexdigest()[:16]


def path_of(name: str, key: str) -> Path:
    """Return the path of the file or directory `name` of this key, which may not exist."""
    return cache_root() / f"{name}-{key}" / name


def cached(name: str, key: str, build: Callable[[Path], None]) -> Path:
    """Return the cached file or directory `name` of this key; build it if it does not exist.

    `build` writes the path that it gets, which is renamed after it has returned. Concurrent
    processes build once.
    """
    target = path_of(name, key)
    if target.exists():
        return target
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            part = folder / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            build(part)
            part.replace(target)
    return target
