"""List requests: selectors, pagination and resource versions."""

import base64
import itertools
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.objects import to_bytes
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.selectors import (
    Predicate,
    field_selector,
    label_selector,
)
from gpuplatform.dev.simulator.apiserver.store import Entry, Store

_OPEN_LISTS = 64
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list at the resource version `version`."""

    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> dict[str, object]:
        """Return the ListMeta object."""
        metadata: dict[str, object] = {"resourceVersion": str(self.version)}
        if self.token:
            metadata["continue"] = self.token
            if self.remaining is not None:
                metadata["remainingItemCount"] = self.remaining
        return metadata

    def json(self, resource: Resource) -> bytes:
        """Return the list as JSON. As in Kubernetes, only custom resources have a `kind`."""
        head = to_bytes({"kind": resource.list_kind, "apiVersion": resource.api_version})[:-1]
        items = (e.json if resource.is_custom else b"{" + e.body for e in self.entries)
        meta = b',"metadata":' + to_bytes(self.metadata()) + b',"items":['
        return head + meta + b",".join(items) + b"]}"


class Lister:
    """The handler of list requests. All pages of a list contain the state of the first page."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: OrderedDict[str, Page] = OrderedDict()
        self._names = itertools.count(1)

    def list(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> Page:
        """Return one page of a list.

        Raises:
            ApiError: 400 or 422 if an option is invalid; 410 if the continue token has expired;
                504 if the resource version is in the future.
        """
        check_options(query)
        limit = max(0, number_of(query, "limit"))
        token = query.get("continue", "")
        if token:
            page = self._open.get(token)
            if page is None:
                raise (
                    errors.expired(_EXPIRED)
                    if _is_token(token)
                    else errors.bad_request("continue key is not valid")
                )
            return self._page(page, limit, counted=not _selects(query))
        self._check_version(query)
        matches = predicate_of(resource, query)
        entries = self._store.find(resource.key, namespace)
        if matches:
            entries = [e for e in entries if matches(e.object)]
        return self._page(Page(entries, self._store.version), limit, counted=not matches)

    def _page(self, whole: Page, limit: int, *, counted: bool) -> Page:
        rest = whole.entries[limit:] if limit else []
        if not rest:
            return Page(whole.entries, whole.version)
        name = f"{whole.version}/{next(self._names)}"
        token = base64.urlsafe_b64encode(name.encode()).decode()
        self._open[token] = Page(rest, whole.version)
        while len(self._open) > _OPEN_LISTS:
            self._open.popitem(last=False)
        remaining = len(rest) if counted else None
        return Page(whole.entries[:limit], whole.version, token, remaining)

    def _check_version(self, query: Mapping[str, str]) -> None:
        version, present = number_of(query, "resourceVersion"), self._store.version
        if version > present:
            raise _too_large(version, present)
        if query.get("resourceVersionMatch") == "Exact" and version != present:
            raise errors.expired(
                f"The resourceVersion for the provided list is too old: {version}"
            )


def check_options(query: Mapping[str, str], *, is_watch: bool = False) -> None:
    """Check that the options of a list or watch do not contradict each other.

    Raises:
        ApiError: 422 if options contradict each other.
    """
    field, match = "resourceVersionMatch", query.get("resourceVersionMatch", "")
    version, streams = query.get("resourceVersion", ""), query.get("sendInitialEvents")
    known = ("NotOlderThan",) if is_watch else ("Exact", "NotOlderThan")
    field_errors: list[errors.FieldError] = []
    if match and is_watch and streams is None:
        detail = f"{field} is forbidden for watch unless sendInitialEvents is provided"
        field_errors.append(errors.forbidden_value(field, detail))
    elif match and not is_watch and not version:
        detail = f"{field} is forbidden unless resourceVersion is provided"
        field_errors.append(errors.forbidden_value(field, detail))
    if match and match not in known:
        field_errors.append(errors.unsupported(field, match, (*known, "")))
    elif match == "Exact" and version == "0":
        detail = f'{field} "exact" is forbidden for resourceVersion "0"'
        field_errors.append(errors.forbidden_value(field, detail))
    if streams is not None and is_watch and not match:
        detail = f"sendInitialEvents requires setting {field} to NotOlderThan"
        field_errors.append(errors.forbidden_value(field, detail))
    if field_errors:
        raise errors.invalid("meta.k8s.io", "ListOptions", "", field_errors)


def _is_token(token: str) -> bool:
    """Return whether a continue token belongs to an expired list."""
    try:
        return bool(re.fullmatch(rb"\d+/\d+", base64.urlsafe_b64decode(token)))
    except ValueError:
        return False


def _too_large(version: int, present: int) -> errors.ApiError:
    detail = "Too large resource version"
    cause = {"reason": "ResourceVersionTooLarge", "message": detail}
    message = f"Timeout: {detail}: {version}, current: {present}"
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return errors.ApiError(504, "Timeout", message, details)


def _selects(query: Mapping[str, str]) -> bool:
    return bool(query.get("labelSelector") or query.get("fieldSelector"))


def predicate_of(resource: Resource, query: Mapping[str, str]) -> Predicate | None:
    """Return a predicate for the selectors in `query`, or `None` if `query` has no selectors.

    Raises:
        ApiError: 400 if a selector is invalid.
    """
    if not _selects(query):
        return None
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    by_label = label_selector(labels)
    by_field = field_selector(fields, resource.selectable)
    if labels and fields:
        return lambda obj: by_label(obj) and by_field(obj)
    return by_label if labels else by_field


def number_of(query: Mapping[str, str], name: str) -> int:
    """Return the integer parameter `name` of `query`, or 0 if it is absent.

    Raises:
        ApiError: 400 if the value is not an integer.
    """
    text = query.get(name) or "0"
    if not re.fullmatch(r"-?\d+" if name == "limit" else r"\d+", text):
        field_error = errors.invalid_value(name, text, "must be a number")
        raise errors.bad_request(f"{field_error.field}: {field_error.message}")
    return int(text)
