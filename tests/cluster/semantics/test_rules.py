"""Validation rules of custom resources in CEL: values, transitions, messages, definitions."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Manifest, ResourceKind
from tests.cluster.gadgets import RULES, definition, rule, text
from tests.cluster.world import MERGE, Reply, World

pytestmark = pytest.mark.cluster

INVALID, FORBIDDEN = "FieldValueInvalid", "FieldValueForbidden"


def gadget(name: str = "one", **spec: Any) -> Manifest:
    return {"metadata": {"name": name}, "spec": spec}


def post(world: World, kind: ResourceKind, manifest: Manifest) -> Reply:
    return world.http("POST", world.path(kind), world.placed(kind, manifest))


def patch(world: World, kind: ResourceKind, body: Manifest, sub: str = "") -> Reply:
    return world.http("PATCH", world.path(kind, "one", sub), body, MERGE)


def causes(reply: Reply) -> list[tuple[str, str, str]]:
    """Field, reason and message of each fault."""
    assert reply.status == 422, reply.body
    return [(c["field"], c["reason"], c["message"]) for c in reply.body["details"]["causes"]]


ABOVE_1MI = "!isQuantity(self) || quantity(self).isGreaterThan(quantity('1Mi'))"
REFUSED: dict[str, tuple[Manifest, tuple[str, str, str]]] = {
    "a rule on a string": (
        gadget(memory="much"),
        ("spec.memory", INVALID, 'Invalid value: "much": must be a quantity'),
    ),
    "a rule without message": (
        gadget(memory="1Ki"),
        (
            "spec.memory",
            INVALID,
            f'Invalid value: "1Ki": failed rule: {ABOVE_1MI}',
        ),
    ),
    "a rule with a field path": (
        gadget(low=2, high=1),
        ("spec.low", INVALID, "Invalid value: low is above high"),
    ),
    "a rule with a message expression": (
        gadget(paused=True, replicas=2, kept="it"),
        ("spec", "FieldValueRequired", "Required value: it is paused"),
    ),
    "a rule on an item": (
        gadget(ports=[{"port": 80}, {"port": 22}]),
        ("spec.ports[1]", INVALID, "Invalid value: 22 is reserved"),
    ),
    "a rule on a map": (
        gadget(labels={"example.com/a": "b"}),
        ("spec.labels", INVALID, "Invalid value: has a reserved key"),
    ),
    "a rule on a member of a map": (
        gadget(labels={"a": "bad"}),
        ("spec.labels[a]", "FieldValueDuplicate", 'Duplicate value: "bad"'),
    ),
    "a rule on a number written without fraction": (
        gadget(ratio=2),
        ("spec.ratio", INVALID, "Invalid value: 2: is too much"),
    ),
    "a rule on an integer or text: text": (
        gadget(share="half"),
        ("spec.share", INVALID, 'Invalid value: "half": is no share'),
    ),
    "a rule on an integer or text: integer": (
        gadget(share=100),
        ("spec.share", INVALID, "Invalid value: 100: is no share"),
    ),
    "a rule on a time": (
        gadget(until="2025-01-01T00:00:00Z"),
        ("spec.until", INVALID, 'Invalid value: "2025-01-01T00:00:00Z": is in the past'),
    ),
    "a rule on a field with an escaped name": (
        gadget(**{"x-odd.name": "even"}),
        ("spec", INVALID, "Invalid value: needs a namespace"),
    ),
    "a rule on the whole object": (
        gadget("reserved"),
        ("<nil>", INVALID, "Invalid value: the name is reserved"),
    ),
    "a rule that cannot be evaluated": (
        gadget(sizes={"b": 1}),
        (
            "spec.sizes",
            INVALID,
            'Invalid value: "object": no such key: a evaluating rule: needs a',
        ),
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_rule_refuses_a_value(world: World, gadgets: ResourceKind, case: str) -> None:
    manifest, cause = REFUSED[case]

    assert causes(post(world, gadgets, manifest)) == [cause]


ACCEPTED: dict[str, dict[str, Any]] = {
    "quantity": {"memory": "2Mi"},
    "field path": {"low": 1, "high": 1},
    "message expression": {"paused": True, "replicas": 0},
    "items": {"ports": [{"port": 80}]},
    "map": {"labels": {"example.org/a": "b"}},
    "number": {"ratio": 1},
    "integer or text": {"share": "50%"},
    "time": {"until": "2030-01-01T00:00:00Z"},
    "escaped name": {"x-odd.name": "even", "namespace": "a"},
    "key": {"sizes": {"a": 1}},
}


@pytest.mark.parametrize("case", list(ACCEPTED))
def test_a_rule_accepts_a_value(world: World, gadgets: ResourceKind, case: str) -> None:
    assert post(world, gadgets, gadget(**ACCEPTED[case])).status == 201


def test_rules_are_not_checked_while_the_schema_refuses(
    world: World, gadgets: ResourceKind
) -> None:
    found = causes(post(world, gadgets, gadget(memory="much", low="1")))

    assert [field for field, _, _ in found] == ["spec.low", "<nil>"]


def test_a_transition_rule_does_not_apply_to_a_new_object(
    world: World, gadgets: ResourceKind
) -> None:
    assert world.create(gadgets, gadget(model="large"))["spec"]["model"] == "large"


def test_a_transition_rule_refuses_a_change(world: World, gadgets: ResourceKind) -> None:
    world.create(gadgets, gadget())

    reply = patch(world, gadgets, {"spec": {"model": "large"}})

    assert causes(reply) == [("spec.model", FORBIDDEN, "Forbidden: is immutable")]
    assert reply.message == (
        'Gadget.features.example.com "one" is invalid: spec.model: Forbidden: is immutable'
    )


def test_a_transition_rule_accepts_other_changes(world: World, gadgets: ResourceKind) -> None:
    world.create(gadgets, gadget())

    assert patch(world, gadgets, {"spec": {"model": "small", "replicas": 2}}).status == 200


def test_a_transition_rule_of_an_item_finds_the_old_item_by_its_key(
    world: World, gadgets: ResourceKind
) -> None:
    ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
    world.create(gadgets, gadget(ports=ports))

    moved = patch(world, gadgets, {"spec": {"ports": [{"port": 82, "name": "c"}, *ports[::-1]]}})
    renamed = patch(world, gadgets, {"spec": {"ports": [*ports[:1], {"port": 81, "name": "c"}]}})

    assert moved.status == 200
    assert causes(renamed) == [("spec.ports[1]", INVALID, "Invalid value: must keep its name")]


def test_rules_apply_to_server_side_apply(world: World, gadgets: ResourceKind) -> None:
    path = world.path(gadgets, "one") + "?fieldManager=one"
    manifest = world.placed(gadgets, gadget(memory="much"))

    reply = world.http("PATCH", path, manifest, "application/apply-patch+yaml")

    assert [field for field, _, _ in causes(reply)] == ["spec.memory"]


def test_a_rule_of_the_status_applies_to_its_subresource(
    world: World, gadgets: ResourceKind
) -> None:
    world.create(gadgets, gadget())

    refused = patch(world, gadgets, {"status": {"phase": "Failed"}}, "status")
    accepted = patch(world, gadgets, {"status": {"phase": "Failed", "reason": "a"}}, "status")

    assert causes(refused) == [("status", INVALID, "Invalid value: needs a reason")]
    assert accepted.status == 200


def test_a_stricter_definition_lets_unchanged_values_stay(world: World) -> None:
    group = f"strict.{world.namespace}.example.com"
    kind = ResourceKind(group, "v1", "Gadget", "gadgets")
    world.cluster.create(CUSTOM_RESOURCE_DEFINITION, definition(group))
    world.until(lambda: world.http("GET", world.path(kind)).status == 200)
    world.create(kind, gadget(kept="long", selector="old"))
    strict = definition(
        group, kept=text(maxLength=2), selector=text(rule("self != 'old'", "is old"))
    )
    versions = {"spec": {"versions": strict["spec"]["versions"]}}
    world.cluster.merge_patch(CUSTOM_RESOURCE_DEFINITION, f"gadgets.{group}", versions)
    world.until(
        lambda: (
            post(world, kind, gadget("two", selector="old") | {"spec": {"kept": "long"}}).status
            == 422
        )
    )

    other = patch(world, kind, {"spec": {"replicas": 1}})
    both = patch(world, kind, {"spec": {"kept": "longer", "selector": "old"}})
    by_rule = patch(world, kind, {"spec": {"selector": "new"}})
    back = patch(world, kind, {"spec": {"selector": "old"}})

    assert other.status == 200
    assert "spec.kept" in both.fields
    assert by_rule.status == 200
    assert causes(back) == [("spec.selector", INVALID, 'Invalid value: "old": is old')]


PLACE = "spec.validation.openAPIV3Schema.properties[spec].properties[selector]"
BAD_RULES: dict[str, tuple[dict[str, Any], str]] = {
    "no expression": (rule("self =="), f"{PLACE}.{RULES}[0].rule"),
    "another result": (rule("self + 'a'"), f"{PLACE}.{RULES}[0].rule"),
    "another type": (rule("self > 1"), f"{PLACE}.{RULES}[0].rule"),
    "an undeclared name": (rule("other == self"), f"{PLACE}.{RULES}[0].rule"),
    "an undeclared function": (rule("odd(self)"), f"{PLACE}.{RULES}[0].rule"),
    "an empty rule": (rule(" "), f"{PLACE}.{RULES}[0].rule"),
    "a message with a line break": (rule("true", "a\nb"), f"{PLACE}.{RULES}[0].message"),
    "a reason that is none": (rule("true", reason="Odd"), f"{PLACE}.{RULES}[0].reason"),
    "a message expression of another type": (
        rule("true", messageExpression="1"),
        f"{PLACE}.{RULES}[0].messageExpression",
    ),
}


def create_definition(world: World, **spec: Any) -> Reply:
    manifest = definition(f"{world.namespace}.example.com", **spec)
    return world.http("POST", CUSTOM_RESOURCE_DEFINITION.path() + "?dryRun=All", manifest)


@pytest.mark.parametrize("case", list(BAD_RULES))
def test_a_definition_with_an_invalid_rule_is_refused(world: World, case: str) -> None:
    bad, field = BAD_RULES[case]

    reply = create_definition(world, selector=text(bad))

    assert (reply.status, reply.fields) == (422, [field]), reply.message


def test_a_field_path_must_be_declared(world: World) -> None:
    schema = {"type": "object", "properties": {}, RULES: [rule("true", fieldPath=".odd")]}

    reply = create_definition(world, selector=schema)

    assert (reply.status, reply.fields) == (422, [f"{PLACE}.{RULES}[0].fieldPath"])


def test_a_transition_rule_needs_items_with_keys(world: World) -> None:
    items = text(rule("self == oldSelf"))

    reply = create_definition(world, selector={"type": "array", "maxItems": 2, "items": items})

    assert (reply.status, reply.fields) == (422, [f"{PLACE}.items.{RULES}[0].rule"])
