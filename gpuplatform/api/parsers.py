"""The one parser of the API: JSON in UTF-8, at most 1 MiB, nothing compressed."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser
from rest_framework.utils.mediatypes import _MediaType
from typing_extensions import override

from gpuplatform.api import strict_json
from gpuplatform.errors import TooLarge, UnsupportedMediaType

MAX_BODY_BYTES = 1024 * 1024


class StrictJSONParser(BaseParser):
    """Reads a body; every way in which it can be wrong has its own answer."""

    media_type = "application/json"

    @override
    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return what the body says.

        Raises:
            UnsupportedMediaType: it is compressed, or declared in another charset.
            TooLarge: it passes 1 MiB.
            RequestError: it is not the JSON that we take.
        """
        headers: Mapping[str, Any] = (parser_context or {})["request"].META
        refuse_encodings(headers.get("HTTP_CONTENT_ENCODING", ""), media_type or "")
        body = stream.read(MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            raise TooLarge("The body is larger than 1 MiB. Send less in one request.")
        return strict_json.loads(body)


def refuse_encodings(content_encoding: str, media_type: str) -> None:
    """Take a body only as it is, in UTF-8.

    Raises:
        UnsupportedMediaType: it is declared as something else.
    """
    if content_encoding.strip().lower() not in {"", "identity"}:
        raise UnsupportedMediaType("The body must not be compressed.")
    charset = str(_MediaType(media_type).params.get("charset", "utf-8"))
    if charset.strip("\"'").lower() not in {"utf-8", "utf8"}:
        raise UnsupportedMediaType("The body must be UTF-8; leave the charset out.")
