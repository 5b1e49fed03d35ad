r"""How objects are written into requests.

Server-side apply takes YAML only, and the API server reads even JSON sent there with a YAML
parser that is stricter than JSON: a surrogate pair (`\ud83d\ude00`) is refused, raw control
characters and U+FFFE/U+FFFF are refused, raw U+0085 and U+2028 are line breaks and get folded. So
everything of the basic plane beyond ASCII is escaped as `\uXXXX`, which that parser takes for any
character but a surrogate, and the planes above, which it takes raw, stay raw. The result is valid
JSON as well.
"""

import json
import re
from typing import Any

APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"

_ESCAPED_BASIC = re.compile("[\x7f-\uffff]")


def json_bytes(value: Any) -> bytes:
    """Encode for every request that is read as JSON."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def apply_bytes(value: Any) -> bytes:
    """Encode for server-side apply: JSON that a YAML parser reads to the same value.

    A lone surrogate stays an escape, which the API server refuses by name.
    """
    # ": " and ", " are kept: in YAML the colon after a key wants a blank.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _ESCAPED_BASIC.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode("utf-8")
