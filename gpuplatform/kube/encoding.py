r"""Encodes the bodies of requests.

The API server decodes the body of a server-side apply with a YAML parser. This parser rejects a
surrogate pair (`\ud83d\ude00`), raw control characters and U+FFFE/U+FFFF, and it folds raw U+0085
and U+2028 as line breaks. Therefore, each non-ASCII character of the basic multilingual plane is
escaped as `\uXXXX`; characters of other planes are not escaped. The result is valid JSON and YAML.
"""

import json
import re
from typing import Any

APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"

_ESCAPED_BASIC = re.compile("[\x7f-\uffff]")


def json_bytes(value: Any) -> bytes:
    """Return the value as JSON."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def apply_bytes(value: Any) -> bytes:
    """Return the value as JSON that a YAML parser decodes to the same value.

    A lone surrogate remains an escape sequence, which the API server rejects.
    """
    # Keep the spaces of the separators: YAML requires one after the colon of a key.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _ESCAPED_BASIC.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode("utf-8")
