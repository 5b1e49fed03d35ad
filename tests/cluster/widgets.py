"""A custom kind for tests of schemas."""

from gpuplatform.kube.errors import ClusterConflict
from gpuplatform.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Manifest, ResourceKind
from tests.cluster.world import World

WIDGET = ResourceKind("rules.example.com", "v1", "Widget", "widgets")

PORT = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "name": {"type": "string"},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    },
}
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 0},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "word": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "ports": {
            "type": "array",
            "maxItems": 2,
            "items": PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
STATUS = {"type": "object", "properties": {"phase": {"type": "string"}}}


def definition(group: str) -> Manifest:
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version],
        },
    }


def install(world: World, kind: ResourceKind, manifest: Manifest) -> ResourceKind:
    """Create the definition of `kind` unless it exists; return `kind` once it is served."""
    try:
        world.cluster.create(CUSTOM_RESOURCE_DEFINITION, manifest)
    except ClusterConflict:
        return kind
    world.until(lambda: world.http("GET", world.path(kind)).status == 200)
    return kind
