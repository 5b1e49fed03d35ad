"""Permissions of viewer, operator and admin on every page and action."""

import re
from typing import Any

import pytest
from django.contrib.admin.sites import site
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.lists.model_admin import ModelAdmin, ReadOnlyAdmin
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import ApiToken, Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import address
from tests.factories.node_rows import node_row
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import group_row, spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.models import ActiveUnit, StockUnit

__all__ = ["cluster"]

PAGES = {model._meta.label_lower: page for model, page in site._registry.items()}
ACTING = {label: page for label, page in PAGES.items() if isinstance(page, ActionAdmin)}
ACTIONS = [
    (label, action.name) for label, page in sorted(ACTING.items()) for action in page.row_actions
]
OF_ADMINS = {"auth.user", "auth.group"}
OF_OPERATORS = {"audit.auditentry"}
TOKENS = "tenancy.apitoken"
MEMBERS = "tenancy.membership"
KEY = f"admin-{'0' * 32}"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]


def member(group: str) -> Client:
    person = User.objects.create_user(group, is_staff=True)
    person.groups.add(Group.objects.get(name=group))
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def viewer(db: None) -> Client:
    return member("viewer")


@pytest.fixture
def in_operators(db: None) -> Client:
    return member("operator")


@pytest.fixture
def in_admins(db: None) -> Client:
    return member("admin")


def made_token() -> ApiToken:
    return token_create(tenant=tenant_by_name(), name="ci", scopes=(Scope.USER,))[0]


def shown(label: str) -> Model:
    """Create a row of a model on which all of its actions are possible."""
    rows = Rows()
    makers: dict[str, Any] = {
        "inventory.stockpool": rows.pool,
        "inventory.gpuspec": spec_row,
        "inventory.node": node_row,
        "operations.operation": lambda: rows.operation("Pending"),
        "units.activeunit": lambda: ActiveUnit.objects.get(pk=unit_row().pk),
        "units.capacityrequest": rows.capacity_request,
        "units.unitgroup": group_row,
        "units.stockunit": lambda: StockUnit.objects.get(pk=stock_row().pk),
        "serverless.function": function_row,
        "serverless.invocation": lambda: accept(function_row()),
        "tenancy.tenant": tenant_by_name,
        TOKENS: made_token,
    }
    row: Model = makers[label]()
    return row


def path_of(page: ModelAdmin, view: str) -> str:
    return reverse(f"admin:{page.opts.app_label}_{page.opts.model_name}_{view}")


def test_every_page_with_actions_has_a_row_here() -> None:
    for label, page in ACTING.items():
        if page.row_actions:
            assert shown(label).pk


@pytest.mark.parametrize("label", sorted(PAGES))
def test_a_viewer_views_every_list_but_people_and_audit_and_creates_nothing(
    viewer: Client, label: str
) -> None:
    page = PAGES[label]

    seen = viewer.get(path_of(page, "changelist"))
    made = viewer.get(path_of(page, "add"))

    assert seen.status_code == (403 if label in OF_ADMINS | OF_OPERATORS else 200)
    assert made.status_code == 403
    assert 'class="addlink"' not in seen.content.decode()
    assert 'name="_selected_action"' not in seen.content.decode()


@pytest.mark.parametrize(("label", "action"), ACTIONS)
def test_a_viewer_who_posts_an_action_is_rejected(
    viewer: Client, cluster: FakeCluster, label: str, action: str
) -> None:
    row = shown(label)
    before = Operation.objects.count()
    body = {"_selected_action": row.pk, "key": KEY, "submitted": "1"}

    responses = [
        viewer.post(address(row, "do", action), body),
        viewer.post(address(row, "changelist"), {**body, "action": action}),
    ]

    assert [response.status_code for response in responses] == [403, 403]
    assert Operation.objects.count() == before


@pytest.mark.parametrize("label", sorted({label for label, _ in ACTIONS}))
def test_a_viewer_has_no_button_on_a_page(viewer: Client, label: str) -> None:
    row = shown(label)

    page = viewer.get(address(row, "change", row.pk), follow=True)

    assert page.status_code == 200
    assert "formaction" not in page.content.decode()


@pytest.mark.parametrize(
    "label", sorted(label for label, page in PAGES.items() if page.actions or label in ACTING)
)
def test_actions_of_django_itself_are_rejected_as_well(viewer: Client, label: str) -> None:
    names = ["delete_selected", *(PAGES[label].actions or ())]
    for name in names:
        body = {"action": name, "_selected_action": "1", "post": "yes"}

        response = viewer.post(path_of(PAGES[label], "changelist"), body)

        assert response.status_code == 403, name


@pytest.mark.parametrize(("label", "action"), [one for one in ACTIONS if one[0] != TOKENS])
def test_an_operator_has_every_action_but_those_on_tokens(
    in_operators: Client, cluster: FakeCluster, label: str, action: str
) -> None:
    row = shown(label)

    body = {"action": action, "_selected_action": row.pk}
    response = in_operators.post(address(row, "changelist"), body)

    assert response.status_code == 200
    assert f'action="{address(row, "do", action)}"' in response.content.decode()


@pytest.mark.parametrize("label", sorted(PAGES))
def test_an_operator_creates_everything_but_tokens_and_people(
    in_operators: Client, label: str
) -> None:
    page = PAGES[label]
    can_be_made = not isinstance(page, ReadOnlyAdmin) or (
        isinstance(page, ActionAdmin) and page.creation is not None
    )

    response = in_operators.get(path_of(page, "add"))

    is_open = can_be_made and label not in {*OF_ADMINS, TOKENS, MEMBERS}
    assert response.status_code == (200 if is_open else 403)


def test_an_operator_changes_schedules_and_revokes_no_token(in_operators: Client) -> None:
    token = made_token()

    body = {"action": "revoke", "_selected_action": token.pk}
    response = in_operators.post(path_of(PAGES[TOKENS], "changelist"), body)
    schedules = in_operators.get(path_of(PAGES["django_celery_beat.periodictask"], "changelist"))

    assert response.status_code == 403
    assert ApiToken.objects.get().revoked_at is None
    assert "Disable" in schedules.content.decode()


def test_an_admin_manages_people_groups_and_tokens(in_admins: Client) -> None:
    for label in (*OF_ADMINS, TOKENS, MEMBERS, "inventory.stockpool"):
        assert in_admins.get(path_of(PAGES[label], "add")).status_code == 200


@pytest.mark.parametrize("row", ["viewer", "operator", "admin"])
def test_no_token_is_shown_again(row: str) -> None:
    client = member(row)
    token, secret = token_create(tenant=tenant_by_name(), name="ci", scopes=(Scope.USER,))

    page = client.get(address(token, "change", token.pk)).content.decode()

    assert token.name in page
    assert secret not in page
    assert token.digest not in page


def test_higher_groups_have_the_permissions_of_lower_ones() -> None:
    def rights(name: str) -> set[str]:
        found = Group.objects.get(name=name).permissions
        return set(found.values_list("codename", flat=True))

    assert rights("viewer") < rights("operator") < rights("admin")
    assert all(right.startswith("view_") for right in rights("viewer"))


def test_a_viewer_has_overview_and_navigation(viewer: Client) -> None:
    page = viewer.get(reverse("admin:index")).content.decode()

    links = set(re.findall(r'<a href="(/admin/[a-z_]+/[a-z]+/)"', page))
    assert {path_of(page, "changelist") for page in PAGES.values()} - links == {
        path_of(PAGES[label], "changelist") for label in OF_ADMINS | OF_OPERATORS
    }
