"""Functions that violate HTTP: each invocation ends, and the next one is served."""

from tests.sidecar.rig import SECONDS, Rig

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FAILED, EXPIRED, SUCCEEDED = "Failed", "Expired", "Succeeded"
OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = b"Content-Length: 0\r\n\r\n"
ANSWERS = {
    "nothing": (b"", FAILED),
    "no HTTP": (b"hello\r\n\r\n", FAILED),
    "an unknown version": (b"HTTP/9.9 200 OK\r\n\r\n", FAILED),
    "no status": (b"HTTP/1.1 \r\n\r\n", FAILED),
    "a status that there is not": (b"HTTP/1.1 999 Odd\r\n" + EMPTY, FAILED),
    "a status of 0": (b"HTTP/1.1 000 Odd\r\n" + EMPTY, FAILED),
    "two lengths": (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nok", FAILED),
    "a negative length": (OK + b"Content-Length: -1\r\n\r\nok", FAILED),
    "less than it promised": (OK + b"Content-Length: 9\r\n\r\nok", FAILED),
    "a broken chunk": (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nok", FAILED),
    "half of a chunk": (OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nok", FAILED),
    "a folded type": (OK + b"Content-Type: a/b\r\n c\r\n" + EMPTY, SUCCEEDED),
    "a type with a return": (OK + b"Content-Type: a/b\rc\r\n" + EMPTY, FAILED),
    "a type of no text": (OK + b"Content-Type: \xff\xfe\r\n" + EMPTY, SUCCEEDED),
    "a NUL in a header": (OK + b"X-A: a\0b\r\n" + EMPTY, FAILED),
    "a huge header": (OK + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n", FAILED),
    "ten thousand headers": (OK + b"X-A: a\r\n" * 10_000 + b"\r\n", FAILED),
    "an upgrade": (b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\n\r\n", SUCCEEDED),
    "interim answers for ever": (b"endless HTTP/1.1 102 Processing\r\n\r\n", EXPIRED),
    "headers for ever": (b"endless X-A: a\r\n", FAILED),
    "no gzip": (OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", SUCCEEDED),
}
ADDRESS = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"


def test_every_response_ends_its_invocation(rig: Rig) -> None:
    rig.raw_function()
    rig.sidecar(CONCURRENCY="8", MAX_DELIVER="1").until_ready()
    numbers = dict(enumerate(ANSWERS, start=1))

    for number, name in numbers.items():
        answer, state = ANSWERS[name]
        # An endless response uses the processor that the others need, until its timeout.
        rig.put(number, answer, timeout=2 if state == EXPIRED else int(SECONDS))
    rig.put(1000, GOOD)
    ends = {name: rig.finished(number) for number, name in numbers.items()}

    assert {name: end.state for name, end in ends.items()} == {
        name: state for name, (_, state) in ANSWERS.items()
    }
    assert all("\n" not in end.error and len(end.error) < 300 for end in ends.values())
    assert rig.finished(1000).body == b"ok"


def test_redirect_is_not_followed(rig: Rig) -> None:
    rig.raw_function()
    rig.sidecar().until_ready()

    rig.put(1, ADDRESS)

    found = rig.finished(1)
    assert (found.state, found.status_code) == ("Succeeded", 302)
