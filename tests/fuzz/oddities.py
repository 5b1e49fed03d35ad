"""Loaded by schemathesis: unusual headers for every request, and a check of every response.

None of these headers may change a response, so each response is checked as without them.
"""

import hashlib
import re
from typing import Any, Final

import schemathesis
from schemathesis.core.parameters import ParameterLocation

REQUEST_ID: Final = "X-Request-ID"
MAX_REQUEST_LINE: Final = 4000
"""Below the limit of gunicorn, 4094."""
SAFE: Final = re.compile("[A-Za-z0-9._-]{1,128}")
TRACE_IDS: Final = (
    "safe-1.a_B",
    "a" * 128,
    "a" * 129,
    "",
    "two words",
    "<b>",
    "\xfc",
    "a;b",
    "%00",
)
UNUSUAL: Final[tuple[dict[str, str], ...]] = (
    {},
    {"X-Forwarded-For": "127.0.0.1, ::1, nobody"},
    {"X-Forwarded-Host": "elsewhere.example"},
    {"X-HTTP-Method-Override": "DELETE"},
    {"X-Original-URL": "/admin/"},
    {"Forwarded": "for=127.0.0.1;host=elsewhere.example;proto=ftp"},
    {"Cookie": "sessionid=nobodys; csrftoken=\xff; =; ;;"},
    {"Origin": "null", "Referer": "gopher://elsewhere.example/\xfc"},
    {"Range": "bytes=5-1,-0,x"},
    {"Accept-Encoding": "gzip;q=banana, *;q=0"},
    {"Accept-Language": "x" * 4000},
    {"If-Modified-Since": "yesterday"},
    {"X-" + "n" * 200: "v" * 2000},
)


@schemathesis.hook
def before_call(_context: Any, case: Any, **_further: Any) -> None:
    """Add headers that are derived from the case, so that it can be repeated exactly.

    A case that tests headers keeps its own.
    """
    about = getattr(getattr(case.meta, "phase", None), "data", None)
    if getattr(about, "parameter_location", None) == ParameterLocation.HEADER:
        return
    text = repr((case.method, case.path_parameters, case.query, case.body))
    number = int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:4])
    headers = {**UNUSUAL[number % len(UNUSUAL)], REQUEST_ID: TRACE_IDS[number % len(TRACE_IDS)]}
    for name, value in headers.items():
        case.headers.setdefault(name, value)


@schemathesis.check
def trace_id_is_safe(_context: Any, response: Any, _case: Any) -> None:
    """Check that the response has the caller's traceID if it is safe, otherwise a new one.

    Headers behind a request line that is too long are not read.
    """
    sent = response.request.headers.get(REQUEST_ID, "")
    [received] = response.headers[REQUEST_ID.lower()]
    assert SAFE.fullmatch(received), f"unsafe: {received!r}"
    if len(response.request.url) < MAX_REQUEST_LINE:
        assert received == sent or not SAFE.fullmatch(sent), f"{sent!r} became {received!r}"
