"""Rows and clients for the tests of the admin."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

import gpuplatform.urls  # noqa: F401 - registers the pages of the admin
from tests.factories.admin_rows import Rows

PASSWORD = "correct horse battery"
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> \u202egpj.exe \x07 </pre>"
    + 10_000 * "y"
)


@pytest.fixture
def rows(db: None) -> Rows:
    return Rows()


@pytest.fixture
def operator(db: None) -> User:
    """A superuser."""
    return User.objects.create_superuser("operator")


@pytest.fixture
def operator_client(operator: User) -> Client:
    client = Client()
    client.force_login(operator)
    return client


@pytest.fixture
def viewer_client(db: None) -> Client:
    """A client with the permission to view stock pools only."""
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_stockpool"))
    client = Client()
    client.force_login(viewer)
    return client


@pytest.fixture
def hostile_text() -> str:
    return HOSTILE


@pytest.fixture
def password(operator: User) -> str:
    """The password of the operator; few tests use this fixture, because hashing is slow."""
    operator.set_password(PASSWORD)
    operator.save()
    return PASSWORD
