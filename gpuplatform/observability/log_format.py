"""The log formats `plain` and `json`, which `GPUPLATFORM_LOG_FORMAT` selects.

Both formats contain the fields in `extra` and the traceID of the current HTTP request.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from typing_extensions import override

from gpuplatform.api.trace_id import request_trace_id

TRACE_ID: Final = "traceID"
_STANDARD: Final = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName", "request"}
)
"""Attributes of all records, and the request object that Django adds to some records."""


class PlainFormatter(logging.Formatter):
    """A formatter of lines with time, level, logger, message, and each field as `name=value`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = (f" {name}={quoted(value)}" for name, value in fields_of(record).items())
        return super().formatMessage(record) + "".join(fields)


class JsonFormatter(logging.Formatter):
    """A formatter of JSON objects with `time`, `level`, `logger`, `message` and the fields.

    `exception` contains the traceback. A value that JSON cannot represent is converted to a
    string.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in fields_of(record).items() if name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


FORMATTERS: Final[Mapping[str, type[logging.Formatter]]] = {
    "plain": PlainFormatter,
    "json": JsonFormatter,
}
"""The formatters by the value of `GPUPLATFORM_LOG_FORMAT`."""


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """Return the non-empty fields in `extra`, and the traceID."""
    fields = {
        name: value
        for name, value in record.__dict__.items()
        if name not in _STANDARD and value not in ("", None)
    }
    if TRACE_ID not in fields and (trace_id := request_trace_id()):
        fields[TRACE_ID] = trace_id
    return fields


def quoted(value: object) -> str:
    """Return a value for the plain format. A string with special characters is returned as JSON.

    Therefore, a value that a caller chose cannot start a new line or imitate a field.
    """
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    is_plain = text.isprintable() and text.isascii() and not set(text) & {" ", '"', "\\", "="}
    return text if is_plain or not isinstance(value, str) else json.dumps(text)
