"""The media type of a reply: a page for browsers, JSON for every other client."""

from collections.abc import Iterable

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from typing_extensions import override


class Negotiation(DefaultContentNegotiation):
    """Never replies 406 and ignores `?format=`, so that every error can be read."""

    @override
    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer whose media type the client accepts, otherwise the first."""
        accepted = request.META.get("HTTP_ACCEPT", "")
        offered = list(renderers)
        named = (one for one in offered if str(one.media_type) in accepted)
        chosen = next(named, offered[0])
        return chosen, str(chosen.media_type)
