r"""Encoding of objects in requests.

Server-side apply accepts YAML only, and the API server reads even JSON sent there with a YAML
parser that is stricter than JSON: it rejects a surrogate pair (`\ud83d\ude00`), raw control
characters and U+FFFE/U+FFFF, and folds raw U+0085 and U+2028 as line breaks. Therefore every
character of the basic plane beyond ASCII is escaped as `\uXXXX`, which that parser accepts for any
character but a surrogate; characters of the other planes stay raw. The result is also valid JSON.
"""

import json
import re
from typing import Any

APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"

_ESCAPED_BASIC = re.compile("[\x7f-\uffff]")


def json_bytes(value: Any) -> bytes:
    """Encode a body that is read as JSON."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def apply_bytes(value: Any) -> bytes:
    """Encode for server-side apply: JSON that a YAML parser reads to the same value.

    A lone surrogate stays an escape, which the API server rejects with a clear error.
    """
    # The separators keep their spaces: YAML requires one after the colon of a key.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _ESCAPED_BASIC.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode("utf-8")
