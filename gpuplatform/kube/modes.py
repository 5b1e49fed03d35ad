"""Selects the cluster of this process, according to the setting `KUBE_MODE`.

Call `get_cluster()` for each use: it sends no request, and a forked process gets its own
connections. `open_cluster` does not read the settings.
"""

import os
from collections.abc import Callable
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Final, assert_never
from urllib.parse import urlsplit

import yaml
from django.conf import settings
from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import load_incluster_config
from kubernetes.config.kube_config import load_kube_config

from gpuplatform.errors import OperatorUnavailable
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.process_local import ProcessLocal


class KubeMode(StrEnum):
    """The values of the setting `KUBE_MODE`."""

    AUTO = "auto"
    """Use the cluster in which this process runs, otherwise a kubeconfig, otherwise no cluster."""
    REQUIRED = "required"
    """Use the configured kubeconfig, otherwise the cluster in which this process runs. One of them
    must exist."""
    OFF = "off"
    """Use no cluster. Requests that need a cluster get `operator_unavailable`."""
    SIMULATED = "simulated"
    """Use the simulated cluster of `make run`. For development only."""


def open_cluster(mode: KubeMode, kubeconfig: str = "") -> Cluster | None:
    """Return the cluster of `mode`, or `None` if no cluster is configured. No request is sent.

    Raises:
        ClusterUnavailable: If no valid configuration is found.
    """
    match mode:
        case KubeMode.OFF:
            return None
        case KubeMode.AUTO:
            load = _in_pod() or _in_file(kubeconfig)
        case KubeMode.REQUIRED:
            load = (_in_file(kubeconfig) if kubeconfig else None) or _in_pod() or _in_file("")
            if load is None:
                raise ClusterUnavailable(
                    "KUBE_MODE=required needs a cluster, but no kubeconfig was found and this"
                    " process does not run in a pod. Set KUBECONFIG to the path of a kubeconfig."
                )
        case KubeMode.SIMULATED:
            return Cluster(lambda: _loopback(_from_file(kubeconfig)))
        case _:
            assert_never(mode)
    return Cluster(load) if load else None


def get_cluster() -> Cluster:
    """Return the cluster of the settings, with the connections of this process for requests.

    Raises:
        OperatorUnavailable: If the platform runs without a cluster.
        ClusterUnavailable: If no valid configuration is found.
    """
    return _REQUESTS.get()


def check_configuration() -> None:
    """Check that a cluster is configured, if `KUBE_MODE` is `required`.

    No request is sent. If the cluster is unreachable, the process waits for it, and the health
    page reports the error.

    Raises:
        ClusterUnavailable: If `KUBE_MODE` is `required` and no valid configuration is found.
    """
    if settings.KUBE_MODE == KubeMode.REQUIRED:
        cluster = open_cluster(KubeMode.REQUIRED, settings.KUBECONFIG)
        if cluster is not None:
            cluster.close()


def get_watch_cluster() -> Cluster:
    """Return the cluster of the settings, with separate connections for watches.

    Raises:
        OperatorUnavailable: If the platform runs without a cluster.
        ClusterUnavailable: If no valid configuration is found.
    """
    return _WATCHES.get()


def close_clusters() -> None:
    """Close the connections of this process. The next use opens new connections."""
    for connections in (_REQUESTS, _WATCHES):
        if (cluster := connections.pop()) is not None:
            cluster.close()


def _from_settings() -> Cluster:
    mode = KubeMode(settings.KUBE_MODE)
    if mode is KubeMode.SIMULATED and not settings.GPUPLATFORM_DEV:
        raise OperatorUnavailable(
            "KUBE_MODE=simulated is only for development. Set KUBE_MODE=required and KUBECONFIG."
        )
    cluster = open_cluster(mode, settings.KUBECONFIG)
    if cluster is None:
        raise OperatorUnavailable(
            f"This platform runs without a cluster (KUBE_MODE={mode}), so it accepts no changes.",
            retry_after=60,
        )
    return cluster


_REQUESTS: Final = ProcessLocal(_from_settings)
_WATCHES: Final = ProcessLocal(_from_settings)


def _in_pod() -> Callable[[], Configuration] | None:
    return _from_pod if os.environ.get("KUBERNETES_SERVICE_HOST") else None


def _in_file(kubeconfig: str) -> Callable[[], Configuration] | None:
    """Return the loader of a kubeconfig, or `None` if no kubeconfig is found.

    A configured path is used even if the file is missing, so that the error contains the path.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG", "")
    if not path and not (Path.home() / ".kube" / "config").exists():
        return None
    return lambda: _from_file(path)


def _from_pod() -> Configuration:
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ClusterUnavailable(
            f"The service account of this pod cannot be used: {error}"
        ) from error
    return configuration


def _from_file(path: str) -> Configuration:
    configuration = Configuration()
    try:
        load_kube_config(  # type: ignore[no-untyped-call]
            config_file=path or None, client_configuration=configuration, persist_config=False
        )
    except (ConfigException, OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        shown = path or "~/.kube/config"
        raise ClusterUnavailable(
            f"The kubeconfig '{shown}' cannot be used: {error}", context={"error": repr(error)}
        ) from error
    return configuration


def _loopback(configuration: Configuration) -> Configuration:
    """Reject an address of another machine, so that no other cluster gets demo objects.

    Raises:
        ClusterUnavailable: If the address of the API server is not a loopback address.
    """
    host = urlsplit(configuration.host).hostname or ""
    try:
        is_loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ClusterUnavailable(
            "KUBE_MODE=simulated supports a cluster on this machine only. Set KUBE_MODE=required"
            " for another cluster."
        )
    configuration.proxy = None
    return configuration
