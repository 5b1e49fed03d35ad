"""The steps of an action in the admin, taken as a browser would take them."""

import re
from html import unescape
from typing import Any

from django.db.models import Model
from django.test import Client
from django.urls import reverse


def address(row: Model, page: str, *args: Any) -> str:
    """Return the address of a page of a row's model."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{page}", args=args)


def choose(client: Client, action: str, *rows: Model) -> str:
    """Choose an action for rows of the list, and return the page that follows."""
    body = {"action": action, "_selected_action": [row.pk for row in rows]}
    return _text(client, address(rows[0], "changelist"), body)


def press(client: Client, action: str, row: Model, **fields: Any) -> str:
    """Press a button of a row's page; with `fields`, its form is filled in already."""
    asked = {"asked": "1", **fields} if fields else {}
    return _text(client, address(row, "do", action), {"_selected_action": row.pk, **asked})


def confirm(client: Client, page: str, **fields: Any) -> str:
    """Send the form of a page on, with what was filled in; return the page that follows."""
    (target,) = re.findall(r'<form method="post" action="([^"]+)"', page)
    body: dict[str, Any] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page):
        body.setdefault(name, []).append(unescape(value))
    for key in re.findall(r'name="key" value="([^"]+)"', page):
        body["key"] = key
    return _text(client, target, {**body, **fields})


def told(page: str) -> str:
    """Return what a page says, without its tags."""
    return unescape(re.sub(r"<[^>]+>", "", page))


def _text(client: Client, url: str, body: dict[str, Any]) -> str:
    answer = client.post(url, body, follow=True)
    assert answer.status_code == 200, answer
    return answer.content.decode()
