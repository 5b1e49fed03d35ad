"""`manage.py install_cluster`: install the objects that the platform requires in the cluster."""

import time
from argparse import ArgumentTypeError
from ipaddress import ip_network
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from typing_extensions import override

from gpuplatform.deployment.installation import CRDS, manifests
from gpuplatform.deployment.isolation import policies, queue_networks
from gpuplatform.deployment.permissions import Place, namespace_manifests
from gpuplatform.deployment.permissions import manifests as account_manifests
from gpuplatform.formats.namespaces import POOL_NAMESPACE
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.kinds import CUSTOM_RESOURCE_DEFINITION
from gpuplatform.kube.modes import get_cluster
from gpuplatform.management.required import cluster_errors

READY_SECONDS = 30.0


class Command(BaseCommand):
    """The command `install_cluster`. Idempotent."""

    help = (
        "Applies namespaces, network policies of units, priority classes and"
        " CustomResourceDefinitions (server-side apply)."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Print the manifests without applying them."
        )
        parser.add_argument(
            "--accounts",
            action="store_true",
            help="Also apply the ServiceAccounts, roles and bindings of the processes.",
        )

        parser.add_argument(
            "--queue-address",
            action="append",
            type=_network,
            help="Address or network of a NATS server outside the cluster, to which the workers of"
            " functions may connect. Can be repeated. Defaults to the IP address in NATS_URL.",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        addresses = options["queue_address"] or queue_networks(settings.NATS_URL)
        system_namespace = settings.GPUPLATFORM_SYSTEM_NAMESPACE
        pools = settings.POOL_NAMESPACES
        wanted = [*manifests(system_namespace, pools), *policies(addresses, pools)]
        if options["accounts"]:
            wanted += account_manifests(system_namespace)
            for name in set(pools) - {POOL_NAMESPACE}:
                wanted += namespace_manifests(system_namespace, name, places={Place.WORKLOADS})
        if options["dry_run"]:
            self.stdout.write(yaml.safe_dump_all([m for _, m in wanted], sort_keys=False))
            return
        with cluster_errors("The installation in the cluster failed"), deadline(READY_SECONDS):
            cluster = get_cluster()
            for kind, manifest in wanted:
                cluster.apply(kind, manifest)
                self.stdout.write(f"applied {kind.kind} {manifest['metadata']['name']}")
            for crd in CRDS:
                self._wait_until_served(cluster, crd["metadata"]["name"])

    def _wait_until_served(self, cluster: Cluster, name: str) -> None:
        """Wait until the API server serves the kind, or until the deadline."""
        while True:
            found = cluster.get(CUSTOM_RESOURCE_DEFINITION, name) or {}
            conditions = (found.get("status") or {}).get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                return
            time.sleep(0.1)


def _network(text: str) -> str:
    """Return the network of an address or a network.

    Raises:
        ArgumentTypeError: If the text is not an address or a network.
    """
    try:
        return str(ip_network(text))
    except ValueError as error:
        msg = f"{text!r} is not an IP address or a network such as 10.0.5.0/24"
        raise ArgumentTypeError(msg) from error
