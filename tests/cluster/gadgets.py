"""A custom kind with short names, scale, selectable fields and rules."""

from typing import Any

from gpuplatform.kube.kinds import Manifest, ResourceKind

GADGET = ResourceKind("features.example.com", "v1", "Gadget", "gadgets")

RULES = "x-kubernetes-validations"


def rule(expression: str, message: str = "", **more: str) -> dict[str, str]:
    """Return a validation rule."""
    return {"rule": expression, **({"message": message} if message else {}), **more}


def text(*rules: dict[str, str], **more: Any) -> dict[str, Any]:
    """Return the schema of a short string."""
    return {"type": "string", "maxLength": 20, **more, **({RULES: list(rules)} if rules else {})}


PORT = {
    "type": "object",
    "required": ["port"],
    "properties": {"port": {"type": "integer"}, "name": text()},
    RULES: [
        rule("self.port != 22", "22 is reserved"),
        rule("!has(oldSelf.name) || self.name == oldSelf.name", "must keep its name"),
    ],
}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "selector": text(),
        "model": text(
            rule("self == oldSelf", "is immutable", reason="FieldValueForbidden"), default="small"
        ),
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "memory": text(
            rule("isQuantity(self)", "must be a quantity"),
            rule("!isQuantity(self) || quantity(self).isGreaterThan(quantity('1Mi'))"),
        ),
        "ports": {
            "type": "array",
            "maxItems": 4,
            "items": PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
        },
        "labels": {
            "type": "object",
            "maxProperties": 4,
            "additionalProperties": text(rule("self != 'bad'", reason="FieldValueDuplicate")),
            RULES: [rule("self.all(k, !k.startsWith('example.com/'))", "has a reserved key")],
        },
        "sizes": {
            "type": "object",
            "maxProperties": 4,
            "additionalProperties": {"type": "integer"},
            RULES: [rule("self['a'] > 0", "needs a")],
        },
        "ratio": {"type": "number", RULES: [rule("self <= 1.5", "is too much")]},
        "share": {
            "x-kubernetes-int-or-string": True,
            "maxLength": 20,
            RULES: [rule("type(self) == string ? self.endsWith('%') : self < 100", "is no share")],
        },
        "until": text(
            rule("self > timestamp('2026-01-01T00:00:00Z')", "is in the past"),
            format="date-time",
            maxLength=30,
        ),
        "x-odd.name": text(rule("self != 'odd'")),
        "namespace": text(),
        "paused": {"type": "boolean"},
        "kept": text(),
    },
    RULES: [
        rule("!has(self.high) || self.low <= self.high", "low is above high", fieldPath=".low"),
        rule("!has(self.x__dash__odd__dot__name) || has(self.__namespace__)", "needs a namespace"),
        rule(
            "!has(self.paused) || !self.paused || self.replicas == 0",
            messageExpression="has(self.kept) ? self.kept + ' is paused' : 'is paused'",
            reason="FieldValueRequired",
        ),
    ],
}
STATUS = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "selector": text(),
        "phase": text(enum=["Ready", "Failed"]),
        "reason": text(),
        "at": text(),
    },
    RULES: [
        rule("!has(self.phase) || self.phase == 'Ready' || has(self.reason)", "needs a reason")
    ],
}


def definition(group: str = GADGET.group, **spec: Any) -> Manifest:
    """Return the definition; `spec` replaces properties of the spec's schema."""
    properties = {**SPEC["properties"], **spec}
    schema = {
        "type": "object",
        "properties": {"spec": {**SPEC, "properties": properties}, "status": STATUS},
        RULES: [rule("self.metadata.name != 'reserved'", "the name is reserved")],
    }
    columns = [
        {"name": "Model", "type": "string", "jsonPath": ".spec.model"},
        {"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused", "priority": 1},
    ]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "selectableFields": [
            {"jsonPath": ".spec.model"},
            {"jsonPath": ".spec.paused"},
            {"jsonPath": ".spec.replicas"},
            {"jsonPath": ".status.phase"},
        ],
        "additionalPrinterColumns": columns,
    }
    names = {
        "plural": "gadgets",
        "singular": "gadget",
        "kind": "Gadget",
        "shortNames": ["gd"],
        "categories": ["features"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
