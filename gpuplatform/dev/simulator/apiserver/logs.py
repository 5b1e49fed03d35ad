"""Logs of simulated containers. A log contains one line for the start and one line for the end.

Containers without a log get the error messages of Kubernetes.
"""

from collections.abc import Mapping
from typing import Any

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.objects import Manifest


def pod_log(pod: Manifest, query: Mapping[str, str]) -> bytes:
    """Return the log of a container of `pod`. `query` selects the container and limits the lines.

    Raises:
        ApiError: 400 if the container or its log does not exist; 422 if a number is negative.
    """
    tail, limit = _number(query, "tailLines"), _number(query, "limitBytes")
    name = _container(pod, query.get("container", ""))
    run = _run(pod, name, is_previous=query.get("previous") in {"true", "1"})
    lines = [f"{run.get('startedAt', '')} Simulated container started; no program runs.\n"]
    if "exitCode" in run:
        reason = run.get("reason", "")
        lines.append(
            f"{run.get('finishedAt', '')} Ended with exit code {run['exitCode']} ({reason}).\n"
        )
    first = 0 if tail is None else max(0, len(lines) - tail)
    return "".join(lines[first:]).encode()[:limit]


def _container(pod: Manifest, desired: str) -> str:
    metadata, spec = pod["metadata"], pod["spec"]
    names = [container["name"] for container in spec["containers"]]
    if not desired and len(names) > 1:
        known = " ".join(names)
        raise errors.bad_request(
            f"a container name must be specified for pod {metadata['name']}, choose one of:"
            f" [{known}]"
        )
    if desired and desired not in names:
        raise errors.bad_request(f"container {desired} is not valid for pod {metadata['name']}")
    if not spec.get("nodeName"):
        raise errors.bad_request(f"pod {metadata['name']} does not have a host assigned")
    return desired or str(names[0])


def _run(pod: Manifest, name: str, *, is_previous: bool) -> dict[str, Any]:
    """Return the state of the current run of a container, or of its previous run."""
    about = f'container "{name}" in pod "{pod["metadata"]["name"]}"'
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    status: dict[str, Any] = next((one for one in statuses if one["name"] == name), {})
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    if is_previous:
        if last is None:
            raise errors.bad_request(f"previous terminated {about} not found")
        return dict(last)
    runs = (state.get("running"), state.get("terminated"), last)
    run = next((one for one in runs if one is not None), None)
    if run is None:
        reason = (state.get("waiting") or {}).get("reason", "ContainerCreating")
        is_pull = reason in {"ErrImagePull", "ImagePullBackOff"}
        why = "trying and failing to pull image" if is_pull else reason
        raise errors.bad_request(f"{about} is waiting to start: {why}")
    return dict(run)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if text and not text.lstrip("-").isdecimal():
        raise errors.bad_request(f"{name} is not a number: {text}")
    if text.startswith("-"):
        field_error = errors.invalid_value(name, int(text), "must be greater than or equal to 0")
        raise errors.invalid("", "PodLogOptions", "", [field_error])
    return int(text) if text else None
