"""Pagination skips and repeats no row while rows are inserted and deleted."""

import pytest
from django.contrib.auth.models import Group
from pytest_django import DjangoAssertNumQueries

from gpuplatform.api.pagination import Page, mapped, paginate
from gpuplatform.api.query import PageQuery

pytestmark = pytest.mark.django_db


def page(limit: int, cursor: str | None = None) -> Page[str]:
    rows = Group.objects.filter(name__in="abcdef")  # Excludes the groups of the platform.
    found = paginate(rows, PageQuery(limit=limit, cursor=cursor))
    return mapped(found, [group.name for group in found.rows])


def add(*names: str) -> None:
    for name in names:
        Group.objects.create(name=name)


def test_newest_first_and_no_cursor_on_the_last_page() -> None:
    add("a", "b", "c")

    assert (page(3).rows, page(3).next) == (["c", "b", "a"], None)
    assert page(2).rows == ["c", "b"]
    last = page(2, page(2).next)
    assert (last.rows, last.next) == (["a"], None)


def test_an_empty_list_is_a_last_page() -> None:
    assert page(50) == Page([], [])


def test_rows_that_come_and_go_disturb_no_walk() -> None:
    add("a", "b", "c", "d", "e")

    first = page(2)
    add("f")
    Group.objects.filter(name__in=["d", "c"]).delete()
    second = page(2, first.next)

    assert first.rows == ["e", "d"]
    assert (second.rows, second.next) == (["b", "a"], None)


def test_a_page_is_one_query_however_deep(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    add(*"abcdef")
    cursor = page(4).next

    with django_assert_num_queries(1):
        page(2, cursor)
