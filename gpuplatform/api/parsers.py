"""The parser of request bodies: JSON in UTF-8, at most 1 MiB, uncompressed."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser
from rest_framework.utils.mediatypes import _MediaType
from typing_extensions import override

from gpuplatform.api import strict_json
from gpuplatform.errors import TooLarge, UnsupportedMediaType

MAX_BODY_BYTES = 1024 * 1024


class StrictJSONParser(BaseParser):
    """The parser of request bodies in strict JSON."""

    media_type = "application/json"

    @override
    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the parsed body.

        Raises:
            UnsupportedMediaType: If the body is compressed or its charset is not UTF-8.
            TooLarge: If the body is larger than 1 MiB.
            RequestError: If the body is not strict JSON.
        """
        headers: Mapping[str, Any] = (parser_context or {})["request"].META
        reject_encodings(headers.get("HTTP_CONTENT_ENCODING", ""), media_type or "")
        body = stream.read(MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            raise TooLarge(TooLarge.example_message)
        return strict_json.loads(body)


def reject_encodings(content_encoding: str, media_type: str) -> None:
    """Reject a body that is declared as compressed or with a charset other than UTF-8.

    Raises:
        UnsupportedMediaType: If the body has such a declaration.
    """
    if content_encoding.strip().lower() not in {"", "identity"}:
        raise UnsupportedMediaType("The body must not be compressed. Omit the Content-Encoding.")
    charset = str(_MediaType(media_type).params.get("charset", "utf-8"))
    if charset.strip("\"'").lower() not in {"utf-8", "utf8"}:
        raise UnsupportedMediaType("The body must be UTF-8. Omit the charset.")
