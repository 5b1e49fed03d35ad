"""The steps of an action in the admin, as a browser performs them."""

import re
from html import unescape
from typing import Any, Self

from django.contrib.messages import get_messages
from django.db.models import Model
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse


class Page(str):
    """The HTML of a page, with its template context and its messages."""

    context: Any
    messages: list[str]

    def __new__(cls, response: Any) -> Self:
        page = super().__new__(cls, response.content.decode())
        page.context = response.context
        page.messages = [str(message) for message in _messages(response)]
        return page


def address(row: Model, page: str, *args: Any) -> str:
    """Return the URL of a page of a row's model."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{page}", args=args)


def choose(client: Client, action: str, *rows: Model) -> Page:
    """Select an action for rows of the list, and return the next page."""
    body = {"action": action, "_selected_action": [row.pk for row in rows]}
    return _post(client, address(rows[0], "changelist"), body)


def press(client: Client, action: str, row: Model, **fields: Any) -> Page:
    """Click a button of a row's page, with a completed form if there are `fields`."""
    submitted = {"submitted": "1", **fields} if fields else {}
    return _post(client, address(row, "do", action), {"_selected_action": row.pk, **submitted})


def confirm(client: Client, page: str, **fields: Any) -> Page:
    """Submit the form of a page with further fields, and return the next page."""
    (target,) = re.findall(r'<form method="post" action="([^"]+)"', page)
    body: dict[str, Any] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page):
        body.setdefault(name, []).append(unescape(value))
    for key in re.findall(r'name="key" value="([^"]+)"', page):
        body["key"] = key
    return _post(client, target, {**body, **fields})


def text_of(html: str) -> str:
    """Return the text of a page without its tags."""
    return unescape(re.sub(r"<[^>]+>", "", html))


def numbers(text: object) -> list[int]:
    """Return the numbers of a sentence, in order."""
    return [int(one) for one in re.findall(r"[-+]?\b\d+\b", text_of(str(text)))]


def _post(client: Client, url: str, body: dict[str, Any]) -> Page:
    answer = client.post(url, body, follow=True)
    assert answer.status_code == 200, answer
    return Page(answer)


def _messages(response: HttpResponse) -> Any:
    context = getattr(response, "context", None)
    return (context or {}).get("messages") or get_messages(response.wsgi_request)  # type: ignore[attr-defined]
