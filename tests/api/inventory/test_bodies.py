"""Bodies of creates: the rules of Kubernetes with the field path; a rejection leaves no row."""

import gzip
import json
import time
from typing import Any

import pytest

from gpuplatform.operations.models import Operation
from inventory.models import StockPool
from tests.factories.inventory import create_body
from tests.factories.template_pods import FULL_TEMPLATE
from tests.fakes.api import POOLS, Answer, Api
from tests.fakes.cluster import FakeCluster

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]


@pytest.fixture(autouse=True)
def _with_cluster(cluster: FakeCluster) -> None:
    """A configured cluster, so that only the body can cause a rejection."""


def refused(answer: Answer, field: str | None) -> None:
    """Check for a 400 with this field and without rows."""
    assert (answer.status, answer.code) == (400, "invalid_request"), answer.json
    if field is not None:
        assert field in answer.fields
        assert all(one["message"] for one in answer.json["error"]["details"])
    assert not Operation.objects.exists()
    assert not StockPool.objects.exists()


def accepted(answer: Answer) -> None:
    assert answer.status == 202, answer.json
    assert Operation.objects.count() == StockPool.objects.count() == 1


def raw(text: str) -> bytes:
    """Return a valid body with `text` inserted as further members."""
    return json.dumps(create_body()).removesuffix("}").encode() + f",{text}}}".encode()


QUANTITY_NONSENSE = [
    "NaN",
    "Infinity",
    "16K",
    "16 Gi",
    " 16Gi",
    "16Gi ",
    "16Gi\n",
    "１６Gi",  # noqa: RUF001 - full-width digits are the case
    "٣Gi",
    "1_000",
    "1e3Gi",
    "Ki",
    ".",
    "",
    "+",
    "1.2.3Gi",
    "0x10",
    "16gi",
    "16GiB",
    "1e1000000",
    "1e-1000000",
    "9" * 400,
    "-1Gi",
    "0",
    "1m",
    "8Ei",
]


@pytest.mark.parametrize("memory", QUANTITY_NONSENSE, ids=lambda text: ascii(text)[:30])
def test_a_quantity_that_kubernetes_refuses_or_hangs_on_is_refused(api: Api, memory: str) -> None:
    started = time.process_time()

    refused(api.post(POOLS, create_body(memory=memory)), "memory")

    assert time.process_time() - started < 1


@pytest.mark.parametrize("memory", [None, True, 16, 1.5, [], {}])
def test_a_quantity_is_a_string(api: Api, memory: Any) -> None:
    refused(api.post(POOLS, create_body(memory=memory)), "memory")


@pytest.mark.parametrize(
    ("memory", "canonical"),
    [("1.5Gi", "1536Mi"), ("1024Mi", "1Gi"), ("1e9", "1G"), ("16Gi", "16Gi")],
)
def test_a_quantity_is_stored_in_canonical_form_and_replayed_in_any(
    api: Api, memory: str, canonical: str
) -> None:
    body = create_body(memory=memory)
    accepted(api.post(POOLS, body))

    assert api.get(f"{POOLS}/{body['name']}").data["memory"] == canonical
    assert api.post(POOLS, body | {"memory": canonical}).status == 200


@pytest.mark.parametrize("length", [1, 30, 57, 58])
def test_a_name_whose_derived_names_fit_is_accepted(api: Api, length: int) -> None:
    accepted(api.post(POOLS, create_body(name="n" * length)))


@pytest.mark.parametrize(
    "name",
    ["n" * 59, "n" * 63, "n" * 64, "n" * 254, "", "A", "-a", "a-", "a_b", "a.b", "a\n", "ü", 1],
    ids=lambda name: ascii(name)[:20],
)
def test_a_name_that_is_too_long_is_refused_and_not_shortened(api: Api, name: Any) -> None:
    refused(api.post(POOLS, create_body(name=name)), "name")


@pytest.mark.parametrize(
    "name", ["A-B", "A.B", "ABC", "a", "_A", ".", "..A", "PATH", "HOME", "A" * 300]
)
def test_an_env_name_that_every_cluster_accepts_is_accepted(api: Api, name: str) -> None:
    answer = api.post(POOLS, create_body(template={"envs": [{"name": name, "value": "v"}]}))

    if name in {".", "..A"}:
        assert answer.status in {202, 400}
    else:
        accepted(answer)


@pytest.mark.parametrize(
    "name",
    ["", "1ABC", "A B", "A=B", "=", "ÄB", "A\t", "A\n", "UNIT_NAME", "NVIDIA_VISIBLE_DEVICES"],
)
def test_an_env_name_that_some_cluster_refuses_or_is_reserved_is_refused(
    api: Api, name: str
) -> None:
    envs = [{"name": "OK", "value": ""}, {"name": name, "value": "v"}]

    refused(api.post(POOLS, create_body(template={"envs": envs})), "template.envs[1].name")


def test_a_repeated_env_name_is_refused_at_the_second(api: Api) -> None:
    envs = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]

    refused(api.post(POOLS, create_body(template={"envs": envs})), "template.envs[1].name")


def from_secret(**changes: Any) -> dict[str, Any]:
    """Return a variable with a value from a Secret."""
    source = {"secretKeyRef": {"name": "hf", "key": "token"}}
    return {"name": "HF_TOKEN", "valueFrom": source, **changes}


def test_a_variable_from_a_secret_is_accepted_and_shown_unchanged(api: Api) -> None:
    body = create_body(template={"envs": [from_secret(), {"name": "A", "value": ""}]})

    accepted(api.post(POOLS, body))

    shown = api.get(f"{POOLS}/{body['name']}").data["template"]
    assert shown == {"envs": [from_secret(), {"name": "A"}]}
    assert api.post(POOLS, body).status == 200


def test_every_field_of_a_template_is_accepted_and_shown_unchanged(api: Api) -> None:
    body = create_body(template=FULL_TEMPLATE)

    accepted(api.post(POOLS, body))

    assert api.get(f"{POOLS}/{body['name']}").data["template"] == FULL_TEMPLATE


SOURCE = "template.envs[1].valueFrom"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"value": "plain"}, SOURCE),
        ({"value": ""}, SOURCE),
        ({"valueFrom": {}}, SOURCE),
        (
            {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            f"{SOURCE}.resourceFieldRef",
        ),
        (
            {"valueFrom": {"secretKeyRef": {"name": "HF", "key": "b"}}},
            f"{SOURCE}.secretKeyRef.name",
        ),
        ({"valueFrom": {"secretKeyRef": {"name": "hf", "key": ""}}}, f"{SOURCE}.secretKeyRef.key"),
        (
            {"valueFrom": {"secretKeyRef": {"name": "fn-1-queue", "key": "queue.creds"}}},
            f"{SOURCE}.secretKeyRef.name",
        ),
    ],
    ids=[
        "a value beside",
        "an empty value beside",
        "no source",
        "another source",
        "a name in upper case",
        "an empty key",
        "what is the platform's",
    ],
)
def test_an_invalid_source_of_a_value_is_refused_at_its_field(
    api: Api, change: dict[str, Any], field: str
) -> None:
    envs = [{"name": "OK"}, from_secret(**change)]

    refused(api.post(POOLS, create_body(template={"envs": envs})), field)


DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    "image",
    [
        "busybox",
        "busybox:latest",
        "registry:5000",
        "registry:5000/img",
        "Registry.Example.COM:5000/t/i:v1",
        f"busybox@{DIGEST}",
        f"busybox:1.0@{DIGEST}",
        "busybox:" + "t" * 128,
    ],
    ids=lambda text: text[:30],
)
def test_a_valid_image_is_accepted_unchanged(api: Api, image: str) -> None:
    body = create_body(image=image)

    accepted(api.post(POOLS, body))

    assert api.get(f"{POOLS}/{body['name']}").data["image"] == image


@pytest.mark.parametrize(
    "image",
    [
        "",
        "busybox:",
        "BusyBox",
        "docker.io/Library/busybox",
        "busybox@sha256:" + "a" * 63,
        "busybox@sha256:" + "A" * 64,
        " busybox",
        "busybox ",
        "busybox\n",
        "https://registry/x",
        "busybox:" + "t" * 129,
        "a" * 64,
        "img:v1+build",
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_an_invalid_image_is_refused(api: Api, image: str) -> None:
    refused(api.post(POOLS, create_body(image=image)), "image")


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ('"gpu":1,"gpu":8', "gpu"),
        ('"gpu":"1"', "gpu"),
        ('"gpu":1.0', "gpu"),
        ('"gpu":1.5', "gpu"),
        ('"gpu":true', "gpu"),
        ('"gpu":"1_0"', "gpu"),
        ('"gpu":"٣"', "gpu"),
        ('"gpu":1e400', "gpu"),
        ('"gpu":' + "1" + "0" * 30, "gpu"),
        ('"gpu":' + "9" * 5000, "gpu"),
        ('"gpu":null', "gpu"),
        ('"gpu":NaN', "gpu"),
        ('"gpu":-1', "gpu"),
        ('"gpuu":3', "gpuu"),
        ('"template":null', "template"),
        ('"template":{"envs":{"A":"b"}}', "template.envs"),
        ('"template":{"hostNetwork":true}', "template.hostNetwork"),
        ('"template":{"args":["\\u0000"]}', "template.args[0]"),
        ('"template":{"args":["\\ud800"]}', "template.args[0]"),
        ('"template":{"ports":[{"name":"a","port":1},{"name":"a","port":2}]}', None),
        ('"template":{"args":1,"args":2}', "template.args"),
        ('"\\u0000":1', None),
        ('"operationID":"twice"', "operationID"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_almost_valid_json_is_refused(api: Api, members: str, field: str | None) -> None:
    refused(api.send("POST", POOLS, raw(members)), field)


def test_minus_zero_is_zero(api: Api) -> None:
    accepted(api.send("POST", POOLS, raw('"gpu":-0')))


@pytest.mark.parametrize("change", [{"replicas": "2"}, {"replicas": None}, {"name": 1}])
def test_a_wrong_type_names_its_field(api: Api, change: dict[str, Any]) -> None:
    refused(api.post(POOLS, create_body(**change)), next(iter(change)))


@pytest.mark.parametrize("missing", ["operationID", "specName", "replicas"])
def test_a_missing_field_is_named(api: Api, missing: str) -> None:
    body = create_body()
    del body[missing]

    refused(api.post(POOLS, body), missing)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"[]",
        b"null",
        b'"x"',
        b"7",
        b"{",
        b"{}}",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe",
        '{"a":"\u00e4"}'.encode("latin-1"),
        json.dumps({"a": 1}).encode("utf-16"),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{'a':1}",
        b"operationID=1",
    ],
    ids=lambda body: ascii(body)[:30],
)
def test_anything_but_a_json_object_is_refused(api: Api, body: bytes) -> None:
    refused(api.send("POST", POOLS, body), None)


def test_trailing_garbage_is_refused(api: Api) -> None:
    refused(api.send("POST", POOLS, json.dumps(create_body()).encode() + b"x"), None)


@pytest.mark.parametrize(
    "type_",
    [
        *("text/plain", "", "application/xml", "multipart/form-data"),
        *("*/*", "application/*", "*/json", "application/jsonp"),
    ],
)
def test_another_media_type_is_a_415(api: Api, type_: str) -> None:
    answer = api.send("POST", POOLS, json.dumps(create_body()).encode(), type_)

    assert (answer.status, answer.code) == (415, "unsupported_media_type")
    assert not Operation.objects.exists()


def test_a_compressed_body_is_a_415(api: Api) -> None:
    body = gzip.compress(json.dumps(create_body()).encode())

    answer = api.send("POST", POOLS, body, HTTP_CONTENT_ENCODING="gzip")

    assert (answer.status, answer.code) == (415, "unsupported_media_type")


def test_a_body_of_more_than_a_mebibyte_is_a_413(api: Api) -> None:
    answer = api.send("POST", POOLS, raw('"image":"' + "x" * (1024 * 1024) + '"'))

    assert (answer.status, answer.code) == (413, "too_large")
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"operationID": "u"}, ""),
        ({"operationID": "u", "replicas": -1}, "replicas"),
        ({"operationID": "u", "memory": "1Gi"}, "memory"),
        ({"operationID": "u", "image": "BusyBox"}, "image"),
        ({"operationID": "u", "template": None}, "template"),
        ({"replicas": 1}, "operationID"),
    ],
)
def test_a_bad_change_leaves_the_pool_and_no_operation(
    api: Api, body: dict[str, Any], field: str
) -> None:
    created = create_body()
    api.post(POOLS, created)

    answer = api.patch(f"{POOLS}/{created['name']}", body)

    assert (answer.status, answer.code) == (400, "invalid_request")
    assert field in answer.fields
    assert Operation.objects.count() == 1


def test_a_change_that_exceeds_a_limit_with_the_rest_is_refused(api: Api) -> None:
    big = [{"name": f"A{n}", "value": "x" * 30_000} for n in range(9)]
    created = create_body()
    api.post(POOLS, created)

    answer = api.patch(
        f"{POOLS}/{created['name']}", {"operationID": "u", "template": {"envs": big}}
    )

    assert answer.status == 400
    assert Operation.objects.count() == 1


@pytest.mark.parametrize("operation_id", ["", "a b", "x" * 129, "\x00", "ä"])
def test_a_deletion_needs_a_valid_operation_id(api: Api, operation_id: str) -> None:
    created = create_body()
    api.post(POOLS, created)

    answer = api.delete(f"{POOLS}/{created['name']}", operationID=operation_id)

    assert (answer.status, answer.fields) == (400, ["operationID"])
    assert StockPool.objects.get().deletion_requested_at is None
