"""Loaded by schemathesis: odd headers with every request, and what has to hold of every answer.

None of these headers may change what an answer says, so each answer is checked as without them.
"""

import hashlib
import re
from typing import Any, Final

import schemathesis
from schemathesis.core.parameters import ParameterLocation

REQUEST_ID: Final = "X-Request-ID"
SOUND: Final = re.compile("[A-Za-z0-9._-]{1,128}")
REQUEST_IDS: Final = (
    "sound-1.a_B",
    "a" * 128,
    "a" * 129,
    "",
    "two words",
    "<b>",
    "\xfc",
    "a;b",
    "%00",
)
ODD: Final[tuple[dict[str, str], ...]] = (
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
    """Add headers that follow from the case, so that it can be sent again as it was.

    A case that is about headers keeps those that it has.
    """
    about = getattr(getattr(case.meta, "phase", None), "data", None)
    if getattr(about, "parameter_location", None) == ParameterLocation.HEADER:
        return
    words = repr((case.method, case.path_parameters, case.query, case.body))
    number = int.from_bytes(hashlib.sha256(words.encode(errors="replace")).digest()[:4])
    odd = {**ODD[number % len(ODD)], REQUEST_ID: REQUEST_IDS[number % len(REQUEST_IDS)]}
    for name, value in odd.items():
        case.headers.setdefault(name, value)


@schemathesis.check
def request_id_is_sound(_context: Any, response: Any, _case: Any) -> None:
    """Check that the answer has the caller's id where that is harmless, else one of ours."""
    sent = response.request.headers.get(REQUEST_ID, "")
    [told] = response.headers[REQUEST_ID.lower()]
    assert SOUND.fullmatch(told), f"unsound: {told!r}"
    assert told == sent or not SOUND.fullmatch(sent), f"{sent!r} became {told!r}"
