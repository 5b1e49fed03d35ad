"""The error catalogue: every error can be created, printed and sent, and has a code."""

import json
from collections import defaultdict

import pytest
from django.test import Client

from gpuplatform.api.exceptions import envelope, headers
from gpuplatform.errors import PlatformError, Retry
from gpuplatform.kube.errors import ClusterError

SHARED = {
    "invalid_request": {"RequestError", "InvalidSpec"},
    "internal_error": {"PlatformError", "InvariantBroken"},
}
"""Codes of more than one class."""


def _all(kind: type[PlatformError]) -> list[type[PlatformError]]:
    return [kind, *(one for child in kind.__subclasses__() for one in _all(child))]


OURS = [kind for kind in _all(PlatformError) if kind.__module__.startswith("gpuplatform.")]
HTTP = [kind for kind in OURS if not issubclass(kind, ClusterError)]
each_error = pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)


@each_error
def test_each_has_an_example_that_is_a_sentence(kind: type[PlatformError]) -> None:
    example = kind.example()

    assert isinstance(example, kind)
    assert str(example) == example.message
    assert example.message[0].isupper() or example.details
    assert example.message.endswith(".")
    assert repr(example)


@each_error
def test_each_can_be_sent(kind: type[PlatformError]) -> None:
    error = kind.example()

    sent = json.loads(json.dumps(envelope(error)))["error"]

    assert set(sent) == {"code", "message", "details", "traceID"}
    assert sent["code"] == kind.code
    assert all(value.isascii() for value in headers(error).values())


@each_error
def test_each_has_a_status_that_fits_its_kind(kind: type[PlatformError]) -> None:
    assert 400 <= kind.http_status < 600
    assert kind.http_status != 422
    assert isinstance(kind.retry, Retry)


@pytest.mark.parametrize("kind", HTTP, ids=lambda kind: kind.__name__)
def test_a_temporary_error_has_retry_after(kind: type[PlatformError]) -> None:
    if kind.http_status in {429, 503}:
        assert headers(kind.example())["Retry-After"]


def test_a_code_belongs_to_one_class_except_the_documented_ones() -> None:
    classes = defaultdict(set)
    for kind in OURS:
        classes[kind.code].add(kind.__name__)

    shared = {code: names for code, names in classes.items() if len(names) > 1}
    assert {code: shared[code] for code in SHARED} == SHARED
    assert set(shared) - set(SHARED) <= {"cluster_error"}


def test_the_document_lists_every_code() -> None:
    document = Client().get("/swagger/doc.json").content.decode()

    assert [kind.code for kind in HTTP if f'"{kind.code}"' not in document] == []
