"""Texts in the formats of the kubelet and of Go: times, durations, quotes, digests. Pure."""

import hashlib
from datetime import UTC, datetime

from gpuplatform.clock import rfc3339


def invalid_reference_message(image: str) -> str:
    """Return the error message of the container runtime for an invalid image reference."""
    detail = f"couldn't parse image name {quoted(image)}: invalid reference format"
    return f"Failed to apply default image tag {quoted(image)}: {detail}"


def repository_of(reference: str) -> str:
    """Return a full image reference without its tag and digest."""
    registry, _, name = reference.partition("@")[0].rpartition("/")
    return f"{registry}/{name.partition(':')[0]}"


def timestamp(now: float) -> str:
    """Return `now` in the timestamp format of Kubernetes."""
    return rfc3339(datetime.fromtimestamp(now, UTC))


def digest(text: str) -> str:
    """Return a hash of `text` with 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def quoted(text: str) -> str:
    """Return `text` quoted as `%q` of Go does."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def go_duration(seconds: float) -> str:
    """Return a duration in the format of Go, such as `10s`, `1m20s` or `500ms`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"
