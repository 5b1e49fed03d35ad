from typing import Any

import pytest
from kubernetes.client import models

from gpuplatform.dev.simulator.apiserver.builtins.defaults import fill_defaults
from gpuplatform.dev.simulator.apiserver.builtins.validation import validation_errors
from gpuplatform.dev.simulator.apiserver.decode import Decoder
from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.resources import Registry
from gpuplatform.dev.simulator.apiserver.schema import Schema
from gpuplatform.dev.simulator.apiserver.tables import age

REGISTRY = Registry()
RENAMED = {"NodeAllocatableResourceClaimStatus"}
"""An alpha type that differs between the two releases."""
POD = REGISTRY.require("pods")
DEPLOYMENT = REGISTRY.require("deployments", "apps")
GROUP = "apiextensions.k8s.io"


def named_types() -> dict[str, Schema]:
    found: dict[str, Schema] = {}

    def visit(schema: Schema) -> None:
        name = schema.get("x-type")
        if name in found:
            return
        if name:
            found[name] = schema
        below = [*schema.get("properties", {}).values()]
        below += [schema[word] for word in ("items", "additionalProperties") if word in schema]
        for sub in below:
            visit(sub)

    for resource in REGISTRY:
        visit(resource.schema)
    return found


def test_every_field_of_the_types_is_known_to_the_official_client() -> None:
    compared = 0
    for name, schema in named_types().items():
        model = getattr(models, f"V1{name}", None)
        if model is None or name in RENAMED:
            continue
        unknown = set(schema.get("properties", {})) - set(model.attribute_map.values())
        compared += 1

        assert unknown == set(), name
    assert compared > 150


def decoded(body: Manifest) -> Manifest:
    return Decoder("Pod", "v1").clean(body, POD.schema)


def test_decoding_drops_nulls_and_makes_quantities_canonical() -> None:
    container: Manifest = {"name": "c", "args": None, "env": [], "image": ""}
    container["resources"] = {"limits": {"memory": "1024Mi", "cpu": 0.5, "nvidia.com/gpu": 1}}

    spec = decoded({"metadata": {"name": "p"}, "spec": {"containers": [container]}})["spec"]

    limits = {"memory": "1Gi", "cpu": "500m", "nvidia.com/gpu": "1"}
    assert spec == {"containers": [{"name": "c", "resources": {"limits": limits}}]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            {"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}},
            "cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of"
            " type string",
            id="number for text",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": 1}}},
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type",
            id="label",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"limits": {"memory": "1GiB"}}}]}},
            "quantities must match the regular expression",
            id="quantity",
        ),
        pytest.param(
            {"spec": {"priority": 2**40}},
            "cannot unmarshal number 1099511627776 into Go struct field PodSpec.spec.priority of"
            " type int32",
            id="too large",
        ),
    ],
)
def test_a_wrong_type_is_a_bad_request(body: Manifest, message: str) -> None:
    with pytest.raises(ApiError) as raised:
        decoded(body)

    assert raised.value.code == 400
    assert message in str(raised.value)


def test_unknown_fields_are_named() -> None:
    decoder = Decoder("Pod", "v1")
    decoder.clean({"spec": {"containers": [{"foo": 1}], "bar": 2}}, POD.schema)

    assert decoder.unknown == ["spec.containers[0].foo", "spec.bar"]


def deployment(**spec: object) -> Manifest:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    body: Manifest = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec},
    }
    fill_defaults(DEPLOYMENT, body)
    return body


def test_a_deployment_gets_the_defaults_of_the_server() -> None:
    spec = deployment()["spec"]

    assert spec["replicas"] == 1
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({}, [], id="fine"),
        pytest.param({"replicas": -1}, ["spec.replicas"], id="negative"),
        pytest.param(
            {"selector": {"matchLabels": {"a": "c"}}},
            ["spec.template.metadata.labels"],
            id="selector does not match",
        ),
        pytest.param({"selector": {}}, ["spec.selector"], id="empty selector"),
        pytest.param(
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            ["spec.strategy.rollingUpdate"],
            id="recreate has no bounds",
        ),
    ],
)
def test_validation_errors_of_a_deployment(spec: Manifest, fields: list[str]) -> None:
    assert [
        error.field for error in validation_errors(DEPLOYMENT, deployment(**spec), None)
    ] == fields


def test_the_selector_of_a_deployment_never_changes() -> None:
    old = deployment(selector={"matchLabels": {"x": "y"}})

    errors = validation_errors(DEPLOYMENT, deployment(), old)

    assert [error.message.rpartition(": ")[2] for error in errors] == ["field is immutable"]


def test_an_age_has_the_format_of_kubectl() -> None:
    assert age(None) == "<unknown>"
    assert age("2020-01-01T00:00:00Z").endswith("y")
    assert age("soon") == "<invalid>"


OPTIONAL = {"rule": "self == oldSelf.value()", "optionalOldSelf": True}


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        *(pytest.param(keyword, [{}], id=keyword) for keyword in ("allOf", "anyOf", "oneOf")),
        pytest.param("not", {}, id="not"),
        pytest.param("x-kubernetes-validations", [OPTIONAL], id="optionalOldSelf"),
    ],
)
def test_a_definition_with_an_unsupported_keyword_is_refused(keyword: str, value: Any) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", keyword: value}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    definition: Manifest = {
        "metadata": {"name": "widgets.rules.example.com"},
        "spec": {
            "group": "rules.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "conversion": {"strategy": "None"},
            "versions": [version],
        },
    }

    with pytest.raises(ApiError) as refusal:
        validation_errors(REGISTRY.require("customresourcedefinitions", GROUP), definition, None)

    assert refusal.value.code == 501
    assert keyword in str(refusal.value) or "optionalOldSelf" in str(refusal.value)
