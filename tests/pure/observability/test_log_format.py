"""Lines of the log: fields of `extra`, the traceID of a request, tracebacks."""

import json
import logging
import sys
from typing import Any

import pytest

from gpuplatform.api.trace_id import tracing
from gpuplatform.observability.log_format import JsonFormatter, PlainFormatter


def record(message: str = "operation ended", *, error: bool = False, **extra: Any) -> Any:
    exc_info = None
    if error:
        try:
            int("broken")
        except ValueError:
            exc_info = sys.exc_info()
    logger = logging.getLogger("gpuplatform.test")
    return logger.makeRecord(
        logger.name, logging.INFO, "file.py", 1, message, (), exc_info, extra=extra
    )


def plain(record: logging.LogRecord) -> str:
    """Return the line after the time."""
    return PlainFormatter().format(record).partition(" INFO ")[2]


def parsed(record: logging.LogRecord) -> Any:
    text = JsonFormatter().format(record)
    assert "\n" not in text
    return json.loads(text)


def test_a_plain_line_ends_with_its_fields() -> None:
    line = plain(record(operationID="create-1", seconds=1.25, tenant="", code=None))

    assert line == "gpuplatform.test: operation ended operationID=create-1 seconds=1.25"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("token 'ci'", "\"token 'ci'\"", id="space"),
        pytest.param("a\nINFO forged", '"a\\nINFO forged"', id="line break"),
        pytest.param("a=b", '"a=b"', id="equals sign"),
        pytest.param("é", '"\\u00e9"', id="beyond ASCII"),
        pytest.param({"a": [1]}, '{"a": [1]}', id="structure"),
    ],
)
def test_a_value_cannot_imitate_another_field_or_line(value: Any, written: str) -> None:
    assert plain(record(field=value)).endswith(f" field={written}")


def test_a_json_line_has_its_fields_as_keys() -> None:
    line = parsed(record(operationID="create-1", seconds=1.25, tenant=""))

    time = line.pop("time")
    assert time.endswith("Z")
    assert line == {
        "level": "INFO",
        "logger": "gpuplatform.test",
        "message": "operation ended",
        "operationID": "create-1",
        "seconds": 1.25,
    }


def test_a_field_does_not_replace_the_time_or_the_level() -> None:
    assert parsed(record(level="forged", logger="forged"))["level"] == "INFO"


def test_a_traceback_is_one_field_of_the_line() -> None:
    line = parsed(record(error=True))

    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("'broken'")
    assert "Traceback" in PlainFormatter().format(record(error=True))


def test_what_json_cannot_represent_is_written_as_text() -> None:
    assert parsed(record(field=ValueError("broken")))["field"] == "broken"


def test_a_line_within_a_request_has_its_trace_id() -> None:
    with tracing("abc"):
        assert parsed(record())["traceID"] == "abc"
        assert plain(record()).endswith(" traceID=abc")
        assert parsed(record(traceID="own"))["traceID"] == "own"

    assert "traceID" not in parsed(record())
