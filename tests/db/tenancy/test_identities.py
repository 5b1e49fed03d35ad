"""Concurrent logins and changes of members write each row once."""

from functools import partial

import pytest
from django.contrib.auth.models import User

from gpuplatform.tenancy.identities import identity_login
from gpuplatform.tenancy.models import Identity, Membership
from gpuplatform.tenancy.oidc import Claims
from gpuplatform.tenancy.permissions import Role
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import member_set
from tests.fakes.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def claims(subject: str) -> Claims:
    return Claims("https://idp.example.com", subject, "ada", "ada@example.com", ("ml",))


def test_concurrent_first_logins_create_one_user_for_each_subject() -> None:
    subjects = ["a", "b"] * 4

    users = at_once([partial(identity_login, claims(one), ()) for one in subjects])

    assert [type(user) for user in users] == [User] * 8
    assert len({user.pk for user in users if isinstance(user, User)}) == 2
    assert User.objects.count() == Identity.objects.count() == 2
    assert sorted(Identity.objects.values_list("subject", flat=True)) == ["a", "b"]


def test_concurrent_changes_of_a_member_leave_one_membership() -> None:
    tenant, ada = tenant_by_name(), User.objects.create_user("ada")

    def change(role: Role) -> Membership:
        return member_set(tenant=tenant, user=ada, group="", role=role)

    results = at_once([partial(change, role) for role in [*Role, *Role]])

    assert [type(one) for one in results] == [Membership] * 6
    assert Membership.objects.count() == 1
