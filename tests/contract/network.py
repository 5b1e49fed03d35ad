"""Evaluates NetworkPolicies as Kubernetes defines them. Pure.

If no policy of a direction selects a pod, everything is allowed in this direction. Otherwise one
rule of one of these policies has to allow the connection. A connection needs both directions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, TypeAlias

Manifest: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A pod, or with an empty namespace an address outside the cluster."""

    address: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Network:
    """The policies of a cluster, and the labels of its namespaces."""

    policies: Sequence[Manifest]
    namespaces: Mapping[str, Mapping[str, str]]
    blocks_match_pods: bool = True
    """Whether `ipBlock` matches pods, which depends on the network plugin."""

    def allows(self, source: Endpoint, target: Endpoint, port: int, protocol: str = "TCP") -> bool:
        """Return whether `source` can connect to a port of `target`."""
        return self._allows("Egress", source, target, (protocol, port)) and self._allows(
            "Ingress", target, source, (protocol, port)
        )

    def _allows(
        self, direction: str, pod: Endpoint, other: Endpoint, port: tuple[str, int]
    ) -> bool:
        selecting = [
            one["spec"]
            for one in self.policies
            if direction in _types(one["spec"])
            and one["metadata"]["namespace"] == pod.namespace
            and matches(one["spec"].get("podSelector") or {}, pod.labels)
        ]
        peers = "to" if direction == "Egress" else "from"
        rules = [rule for spec in selecting for rule in spec.get(direction.lower()) or ()]
        return not selecting or any(
            self._has_peer(rule.get(peers) or (), pod, other) and _has_port(rule, port)
            for rule in rules
        )

    def _has_peer(self, peers: Iterable[Manifest], pod: Endpoint, other: Endpoint) -> bool:
        peers = list(peers)
        return not peers or any(self._is_peer(peer, pod, other) for peer in peers)

    def _is_peer(self, peer: Manifest, pod: Endpoint, other: Endpoint) -> bool:
        if "ipBlock" in peer:
            is_applicable = self.blocks_match_pods or not other.namespace
            return is_applicable and _in_block(peer["ipBlock"], other.address)
        if not other.namespace:
            return False
        if "namespaceSelector" in peer:
            labels = {"kubernetes.io/metadata.name": other.namespace}
            labels |= self.namespaces.get(other.namespace, {})
            is_there = matches(peer["namespaceSelector"], labels)
        else:
            is_there = other.namespace == pod.namespace
        return is_there and matches(peer.get("podSelector") or {}, other.labels)


def matches(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches; an empty one matches everything."""
    return (selector.get("matchLabels") or {}).items() <= labels.items() and all(
        _is_met(one, labels) for one in selector.get("matchExpressions") or ()
    )


def _is_met(expression: Manifest, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case other:
            raise AssertionError(other)


def _types(spec: Manifest) -> Sequence[str]:
    default = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    types: Sequence[str] = spec.get("policyTypes") or default
    return types


def _has_port(rule: Manifest, port: tuple[str, int]) -> bool:
    ports = rule.get("ports") or ()
    return not ports or any(
        one.get("protocol", "TCP") == port[0] and one.get("port", port[1]) == port[1]
        for one in ports
    )


def _in_block(block: Manifest, text: str) -> bool:
    address = ip_address(text)
    return address in ip_network(block["cidr"]) and not any(
        address in ip_network(inner) for inner in block.get("except") or ()
    )
