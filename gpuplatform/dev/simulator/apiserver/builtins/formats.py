"""Validation of the formats of names and numbers, with the messages of apimachinery."""

import re
from collections.abc import Iterator

from gpuplatform.formats.names import DNS_1035_LABEL, DNS_LABEL, DNS_SUBDOMAIN

_KEY = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    f" alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    f" validation is '{_KEY}')"
)
_LABEL_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    f" '12345', regex used for validation is '({_KEY})?')"
)
_DNS_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex"
    f" used for validation is '{DNS_LABEL}')"
)
_DNS_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or"
    f" 'abc-123', regex used for validation is '{DNS_1035_LABEL}')"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex"
    f" used for validation is '{DNS_SUBDOMAIN}')"
)
_DNS_RULES = {
    DNS_LABEL: (63, _DNS_LABEL_MESSAGE),
    DNS_1035_LABEL: (63, _DNS_1035_MESSAGE),
    DNS_SUBDOMAIN: (253, _SUBDOMAIN_MESSAGE),
}
_PORT_RULES = (
    (r"[-a-z0-9]+", "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
    (r".*[a-z].*", "must contain at least one letter (a-z)"),
    (r"(?!.*--).*", "must not contain consecutive hyphens"),
    (r"(?!-)(.*[^-])?", "must not begin or end with a hyphen"),
)


def dns(text: str, pattern: str = DNS_LABEL) -> Iterator[str]:
    """Yield the error messages for a DNS name that must match `pattern`."""
    maximum, detail = _DNS_RULES[pattern]
    if len(text) > maximum:
        yield f"must be no more than {maximum} bytes"
    if not re.fullmatch(pattern, text):
        yield detail


def label_key(text: str) -> Iterator[str]:
    """Yield the error messages for a qualified name."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        prefix_rule = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        yield f"a valid label key {_KEY_MESSAGE} {prefix_rule}"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {detail}" for detail in dns(prefix, DNS_SUBDOMAIN))
    if not name:
        yield "name part must be non-empty"
    elif len(name) > 63:
        yield "name part must be no more than 63 bytes"
    if not re.fullmatch(_KEY, name):
        yield f"name part {_KEY_MESSAGE}"


def label_value(text: str) -> Iterator[str]:
    """Yield the error messages for a label value."""
    if len(text) > 63:
        yield "must be no more than 63 bytes"
    if not re.fullmatch(f"({_KEY})?", text):
        yield _LABEL_MESSAGE


def port_number(number: int) -> Iterator[str]:
    """Yield the error messages for a port number."""
    if not 1 <= number <= 65535:
        yield "must be between 1 and 65535, inclusive"


def port_name(text: str) -> Iterator[str]:
    """Yield the error messages for a port name."""
    if len(text) > 15:
        yield "must be no more than 15 characters"
    yield from (detail for pattern, detail in _PORT_RULES if not re.fullmatch(pattern, text))


def env_name(text: str) -> Iterator[str]:
    """Yield the error messages for the name of an environment variable."""
    if not re.fullmatch(r"[ -<>-~]+", text):
        yield (
            "a valid environment variable name must consist only of printable ASCII characters"
            " other than '='"
        )


def config_key(text: str) -> Iterator[str]:
    """Yield the error messages for a key of a ConfigMap."""
    if len(text) > 253:
        yield "must be no more than 253 bytes"
    if not re.fullmatch(r"[-._a-zA-Z0-9]+", text):
        yield (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
            " (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is"
            " '[-._a-zA-Z0-9]+')"
        )
    if text in {".", ".."} or text.startswith(".."):
        yield f"must not be '{text}'" if text in {".", ".."} else "must not start with '..'"
