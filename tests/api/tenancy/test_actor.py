"""An operation and a log line name the actor of the request, which no decision reads."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.actor import MAX_ACTOR_LENGTH, acting_as, current_actor, set_actor
from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create
from tests.factories.inventory import accept_create
from tests.factories.unit_rows import spec_row
from tests.fakes.api import POOLS, Api
from tests.fakes.cluster import FakeCluster

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

BODY = {"operationID": "op", "name": "a", "specName": "g1.1", "replicas": 0}


def test_a_token_is_the_actor_and_another_token_may_replay(cluster: FakeCluster) -> None:
    api = Api()
    secrets = {
        name: token_create(tenant=tenant_by_name(), name=name, scopes=[Scope.OPERATOR])[1]
        for name in ("ci", "other")
    }

    for name, status in (("ci", 202), ("other", 200)):
        api.client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {secrets[name]}"
        assert api.post(POOLS, BODY).status == status

    assert Operation.objects.get().asked_by == "token 'ci'"


def test_a_local_caller_without_a_token_is_named_as_such(cluster: FakeCluster) -> None:
    Api().post(POOLS, BODY)

    assert Operation.objects.get().asked_by == "local caller without a token"


def test_a_user_of_the_admin_is_the_actor_and_is_shown(cluster: FakeCluster) -> None:
    person, client = User.objects.create_superuser("ada"), Client()
    client.force_login(person)
    row = spec_row(is_enabled=False)

    confirmed = {"_selected_action": row.pk, "key": f"admin-{'0' * 32}"}
    client.post(reverse("admin:inventory_gpuspec_do", args=["delete"]), confirmed)

    operation = Operation.objects.get()
    assert operation.asked_by == "admin user 'ada'"
    page = client.get(reverse("admin:operations_operation_change", args=[operation.pk]))
    assert "admin user &#x27;ada&#x27;" in page.content.decode()


def test_an_automatic_operation_has_no_actor(cluster: FakeCluster) -> None:
    Api().post(POOLS, BODY)

    accept_create(name="b", operationID="own")

    assert Operation.objects.get(operation_id="own").asked_by == ""


def test_the_actor_is_reset_after_the_block_and_fits_its_column() -> None:
    with acting_as("x" * 999):
        assert len(current_actor()) == MAX_ACTOR_LENGTH
        set_actor("y" * 999)
        assert current_actor() == "y" * MAX_ACTOR_LENGTH

    assert current_actor() == ""
