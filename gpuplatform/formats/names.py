"""Grammars of names in Kubernetes, and generated names. Pure.

Names are never trimmed, lowercased or shortened: two components that correct a name differently
would refer to different objects. The patterns are exported for schemas.
"""

import hashlib
import json
import re
from dataclasses import dataclass

from gpuplatform.formats.text import quoted

LABEL_MAX = 63
SUBDOMAIN_MAX = 253
OWN_NAME_MAX = 58
"""Maximum length of user-visible names. With the prefix `pool-` or `unit-` they are labels."""

DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_1035_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
SPEC_NAME = r"[a-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
ENV_NAME = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
PORT_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
CONFIG_KEY = r"[-._a-zA-Z0-9]+"
OPERATION_ID = r"[A-Za-z0-9._:-]{1,128}"
EXTENDED_RESOURCE = rf"{DNS_SUBDOMAIN}/{LABEL_VALUE}"
LABEL_KEY = rf"({DNS_SUBDOMAIN}/)?{LABEL_VALUE}"

KUBERNETES_DOMAIN = "kubernetes.io/"
QUOTA_PREFIX = "requests."
RESOURCE_DOMAIN_MAX = SUBDOMAIN_MAX - len(QUOTA_PREFIX)
EXTENDED_RESOURCE_MAX = RESOURCE_DOMAIN_MAX + 1 + LABEL_MAX
"""A ResourceQuota of an extended resource has the prefix `requests.` in its name."""
LABEL_KEY_MAX = SUBDOMAIN_MAX + 1 + LABEL_MAX

ENV_NAME_MAX = 1024
_PORT_NAME_MAX = 15
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Grammar:
    """A validator of names: a callable that returns a valid name unchanged."""

    pattern: str
    rule: str
    """Description of the pattern for messages; it follows the word "Use"."""
    max_length: int = LABEL_MAX

    def __call__(self, text: str, *, max_length: int | None = None) -> str:
        """Return `text` if it is valid.

        Raises:
            ValueError: If `text` is empty, too long or does not match the pattern.
        """
        maximum = max_length or self.max_length
        if not text:
            msg = f"Must not be empty. Use {self.rule}."
        elif len(text) > maximum:
            msg = f"{quoted(text)} has {len(text)} characters. The maximum is {maximum}."
        elif not re.fullmatch(self.pattern, text):
            msg = f"{quoted(text)} is not valid. Use {self.rule}."
        else:
            return text
        raise ValueError(msg)


_NOT_A_PATH = r"(?!\.\Z|\.\.)"

dns_label = Grammar(
    DNS_LABEL, "lowercase letters, digits and '-', with a letter or digit at both ends"
)
"""A DNS-1123 label."""
dns_subdomain = Grammar(
    DNS_SUBDOMAIN,
    "lowercase letters, digits, '-' and '.', with a letter or digit at both ends of each part",
    SUBDOMAIN_MAX,
)
"""A DNS-1123 subdomain."""
label_value = Grammar(
    LABEL_VALUE, "letters, digits, '-', '_' and '.', with a letter or digit at both ends"
)
"""A non-empty value of a label."""
spec_name = Grammar(
    SPEC_NAME,
    "letters, digits, '-', '_' and '.', starting with a lowercase letter or a digit and ending"
    " with a letter or digit",
)
"""The name of a GPU spec, which is also the value of a label."""
env_name = Grammar(
    _NOT_A_PATH + ENV_NAME,
    "letters, digits, '-', '_' and '.', not starting with a digit or '..', and not '.' alone",
    ENV_NAME_MAX,
)
"""The name of an environment variable in every supported Kubernetes version.

Newer versions accept more characters (KEP-4369).
"""
config_key = Grammar(
    _NOT_A_PATH + CONFIG_KEY,
    "letters, digits, '-', '_' and '.', not starting with '..', and not '.' alone",
    SUBDOMAIN_MAX,
)
"""A key of a Secret or ConfigMap (IsConfigMapKey in Kubernetes)."""
port_name = Grammar(
    r"(?!.*--)(?=.*[a-z])" + PORT_NAME,
    "lowercase letters, digits and single '-', with at least one letter and a letter or digit at"
    " both ends",
    _PORT_NAME_MAX,
)
"""The name of a port (IsValidPortName in Kubernetes)."""
operation_id = Grammar(
    r"(?!\.{1,2}\Z)" + OPERATION_ID,
    "letters, digits, '.', '_', ':' and '-', and neither '.' nor '..'",
    128,
)
"""An operationID. It is a segment of a URL path, so it is neither `.` nor `..`."""


def label_key(text: str) -> str:
    """Return `text` if it is a valid key of a label or taint: `name` or `dns.subdomain/name`.

    Raises:
        ValueError: If the key is not valid.
    """
    prefix, slash, name = text.rpartition("/")
    if slash:
        dns_subdomain(prefix)
    label_value(name)
    return text


def extended_resource(text: str) -> str:
    """Return `text` if it is the name of an extended resource: `dns.subdomain/name`.

    Source: IsExtendedResourceName in Kubernetes.

    Raises:
        ValueError: If the name is not valid, or is the name of a resource of Kubernetes.
    """
    domain, slash, name = text.rpartition("/")
    if not slash or KUBERNETES_DOMAIN in text or text.startswith(QUOTA_PREFIX):
        msg = (
            f"{quoted(text)} is not an extended resource. Use the name that the device plugin"
            " reports, such as nvidia.com/gpu."
        )
        raise ValueError(msg)
    dns_subdomain(domain, max_length=RESOURCE_DOMAIN_MAX)
    label_value(name)
    return text


def is_extended_resource(name: str) -> bool:
    """Return whether a resource of a node or a pod is an extended resource."""
    return "/" in name and KUBERNETES_DOMAIN not in name and not name.startswith(QUOTA_PREFIX)


def generated_name(
    prefix: str,
    readable: str,
    *,
    tenant: str,
    operation_id: str,
    max_length: int = OWN_NAME_MAX,
) -> str:
    """Return the name for a request without a name. A repeated request has the same name.

    The name `<prefix>-<readable>-<digest>` is a DNS label of at most `max_length` characters. The
    digest consists of 16 hexadecimal digits of the SHA-256 of tenant and operationID. Only the
    readable part is shortened. It is omitted if it is empty.
    """
    identity = json.dumps([tenant, operation_id], separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_DIGEST_LENGTH]
    slug = re.sub("[^a-z0-9]+", "-", readable.lower())
    room = max_length - len(prefix) - len(digest) - 2
    parts = (prefix, slug.strip("-")[:room].strip("-"), digest)
    return "-".join(part for part in parts if part)
