"""Names as Kubernetes takes them, and names that the platform makes itself.

Called by the spec models and by `core/names.py` of the apps. Each check returns its argument or
raises ValueError with one sentence; nothing is trimmed, lowered or cut, since two components that
repair a name differently no longer mean the same object. Patterns are exported for schemas.
"""

import hashlib
import json
import re

from gpuplatform.formats.text import quoted
from gpuplatform.formats.validations import cel

LABEL_MAX = 63
SUBDOMAIN_MAX = 253
OWN_NAME_MAX = 58
"""User-visible names: `pool-` or `unit-` in front still fits a label."""

DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_1035_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
SPEC_NAME = r"[a-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
ENV_NAME = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
PORT_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
CONFIG_KEY = r"[-._a-zA-Z0-9]+"
OPERATION_ID = r"[A-Za-z0-9._:-]{1,128}"

NAME_RULE = cel(
    f"size(self.metadata.name) <= {OWN_NAME_MAX} && self.metadata.name.matches('^{DNS_LABEL}$')",
    f"metadata.name must be a DNS label of at most {OWN_NAME_MAX} characters.",
)
"""The rule on the names of custom resources."""

ENV_NAME_MAX = 1024
_PORT_NAME_MAX = 15
_DIGEST_LENGTH = 16


def dns_label(text: str, *, max_length: int = LABEL_MAX) -> str:
    """Return `text` if it is a DNS-1123 label of at most `max_length` characters.

    Raises:
        ValueError: it is not.
    """
    rule = "lower-case letters, digits and '-', with a letter or digit at both ends"
    return _checked(text, DNS_LABEL, max_length, f"Use {rule}")


def dns_1035_label(text: str, *, max_length: int = LABEL_MAX) -> str:
    """Return `text` if it is a DNS-1035 label: what every cluster takes as the name of a Service.

    Raises:
        ValueError: it is not.
    """
    rule = "lower-case letters, digits and '-', starting with a letter, not ending with '-'"
    return _checked(text, DNS_1035_LABEL, max_length, f"Use {rule}")


def dns_subdomain(text: str, *, max_length: int = SUBDOMAIN_MAX) -> str:
    """Return `text` if it is a DNS-1123 subdomain: labels with dots between them.

    Raises:
        ValueError: it is not.
    """
    rule = (
        "lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    )
    return _checked(text, DNS_SUBDOMAIN, max_length, f"Use {rule}")


def label_value(text: str) -> str:
    """Return `text` if it can be the value of a label and is not empty.

    Raises:
        ValueError: it cannot.
    """
    rule = "letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return _checked(text, LABEL_VALUE, LABEL_MAX, f"Use {rule}")


def label_key(text: str) -> str:
    """Return `text` if it can be the key of a label or taint: `name`, or `dns.subdomain/name`.

    Raises:
        ValueError: it cannot.
    """
    prefix, slash, name = text.rpartition("/")
    if slash:
        dns_subdomain(prefix)
    label_value(name)
    return text


def spec_name(text: str) -> str:
    """Return `text` if it can name a GPU spec: a label value that starts in lower case.

    Raises:
        ValueError: it cannot.
    """
    rule = (
        "letters, digits, '-', '_' and '.', starting with a lower-case letter or a digit"
        " and ending with a letter or digit"
    )
    return _checked(text, SPEC_NAME, LABEL_MAX, f"Use {rule}")


def env_name(text: str) -> str:
    """Return `text` if every supported cluster takes it as the name of an environment variable.

    Newer clusters take more (KEP-4369); a rule that depends on the cluster would be no rule.

    Raises:
        ValueError: it is not such a name.
    """
    rule = "Use letters, digits, '-', '_' and '.', not starting with a digit"
    _checked(text, ENV_NAME, ENV_NAME_MAX, rule)
    if text == "." or text.startswith(".."):
        msg = f"{quoted(text)} is not possible: '.' and names that start with '..' are paths."
        raise ValueError(msg)
    return text


def config_key(text: str) -> str:
    """Return `text` if a Secret or ConfigMap can have it as a key (IsConfigMapKey).

    Raises:
        ValueError: none can.
    """
    rule = "Use letters, digits, '-', '_' and '.'"
    _checked(text, CONFIG_KEY, SUBDOMAIN_MAX, rule)
    if text == "." or text.startswith(".."):
        msg = f"{quoted(text)} is not possible: '.' and keys that start with '..' are paths."
        raise ValueError(msg)
    return text


def port_name(text: str) -> str:
    """Return `text` if it can name a port of a container and of a Service (IsValidPortName).

    Raises:
        ValueError: it cannot.
    """
    rule = (
        "Use lower-case letters, digits and single '-', with at least one letter and"
        " a letter or digit at both ends"
    )
    _checked(text, PORT_NAME, _PORT_NAME_MAX, rule)
    if "--" in text or not re.search("[a-z]", text):
        msg = f"{quoted(text)} is not possible. {rule}."
        raise ValueError(msg)
    return text


def operation_id(text: str) -> str:
    """Return `text` if it can identify an operation, also as a part of its address.

    Raises:
        ValueError: it cannot.
    """
    _checked(text, OPERATION_ID, 128, "Use letters, digits, '.', '_', ':' and '-'")
    if text in {".", ".."}:
        msg = f"{quoted(text)} is not possible: no address can end with it."
        raise ValueError(msg)
    return text


def generated_name(
    prefix: str,
    readable: str,
    *,
    tenant: str,
    operation_id: str,
    max_length: int = OWN_NAME_MAX,
) -> str:
    """Return the name that a request without one gets: the same for each try of it.

    `<prefix>-<readable>-<16 hex>`, a DNS label of at most `max_length` characters. The hex digits
    are of SHA-256 over a JSON array, so that no two pairs (tenant, operationID) run together; only
    the readable part is shortened, and left out when nothing of it is left.
    """
    identity = json.dumps([tenant, operation_id], separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_DIGEST_LENGTH]
    slug = re.sub("[^a-z0-9]+", "-", readable.lower())
    room = max_length - len(prefix) - len(digest) - 2
    parts = (prefix, slug.strip("-")[:room].strip("-"), digest)
    return "-".join(part for part in parts if part)


def _checked(text: str, pattern: str, max_length: int, rule: str) -> str:
    if not text:
        msg = f"Must not be empty. {rule}."
        raise ValueError(msg)
    if len(text) > max_length:
        msg = f"{quoted(text)} is too long: {len(text)} characters, at most {max_length}."
        raise ValueError(msg)
    if not re.fullmatch(pattern, text):
        msg = f"{quoted(text)} is not possible. {rule}."
        raise ValueError(msg)
    return text
