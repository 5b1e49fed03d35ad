"""Names as Kubernetes accepts them, and generated names. Pure.

Each check returns its argument or raises ValueError with a message. Nothing is trimmed, lowered or
shortened: two components that repair a name differently would mean different objects. Patterns are
exported for schemas.
"""

import hashlib
import json
import re

from gpuplatform.formats.text import quoted

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
        ValueError: it is not.
    """
    rule = "Use letters, digits, '-', '_' and '.', not starting with a digit"
    _checked(text, ENV_NAME, ENV_NAME_MAX, rule)
    if text == "." or text.startswith(".."):
        msg = f"{quoted(text)} is not a valid name: '.' and names that start with '..' are paths."
        raise ValueError(msg)
    return text


def config_key(text: str) -> str:
    """Return `text` if it is a valid key of a Secret or ConfigMap (IsConfigMapKey).

    Raises:
        ValueError: it is not.
    """
    rule = "Use letters, digits, '-', '_' and '.'"
    _checked(text, CONFIG_KEY, SUBDOMAIN_MAX, rule)
    if text == "." or text.startswith(".."):
        msg = f"{quoted(text)} is not a valid key: '.' and keys that start with '..' are paths."
        raise ValueError(msg)
    return text


def port_name(text: str) -> str:
    """Return `text` if it is a valid name of a port (IsValidPortName).

    Raises:
        ValueError: it is not.
    """
    rule = (
        "Use lower-case letters, digits and single '-', with at least one letter and"
        " a letter or digit at both ends"
    )
    _checked(text, PORT_NAME, _PORT_NAME_MAX, rule)
    if "--" in text or not re.search("[a-z]", text):
        msg = f"{quoted(text)} is not a valid name. {rule}."
        raise ValueError(msg)
    return text


def operation_id(text: str) -> str:
    """Return `text` if it is a valid operationID, which is also a part of an address.

    Raises:
        ValueError: it is not.
    """
    _checked(text, OPERATION_ID, 128, "Use letters, digits, '.', '_', ':' and '-'")
    if text in {".", ".."}:
        msg = f"{quoted(text)} is not valid: an address cannot end with it."
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
    """Return the name for a request without one: the same for each repetition of it.

    `<prefix>-<readable>-<16 hex>`, a DNS label of at most `max_length` characters. The hex digits
    are of SHA-256 over a JSON array of tenant and operationID; only the readable part is
    shortened, and omitted if it is empty.
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
        msg = f"{quoted(text)} has {len(text)} characters. The maximum is {max_length}."
        raise ValueError(msg)
    if not re.fullmatch(pattern, text):
        msg = f"{quoted(text)} is not valid. {rule}."
        raise ValueError(msg)
    return text
