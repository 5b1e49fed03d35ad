"""Image references in the grammar of the kubelet (distribution/reference).

The API server accepts any string as an image, so an invalid one fails only on the node. References
that match the grammar but that no registry can serve (a port above 65535, an uppercase name
without a host) are rejected too.
"""

import re

from gpuplatform.formats.text import quoted

MAX_LENGTH = 1024
_NAME_MAX = 255

_ALPHANUMERIC = "[a-z0-9]+"
_PATH_PART = rf"{_ALPHANUMERIC}(?:(?:[._]|__|-+){_ALPHANUMERIC})*"
_PATH = re.compile(rf"{_PATH_PART}(?:/{_PATH_PART})*")
_HOST_PART = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = re.compile(
    rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::(?P<port>[0-9]{{1,5}}))?"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile("sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_DEFAULT_DOMAIN = "docker.io"
_OLD_DEFAULT_DOMAIN = "index.docker.io"


def image_reference(text: str) -> str:
    """Return `text` if it is a valid image reference.

    Raises:
        ValueError: If it is not valid. The message names the invalid part.
    """
    error = _error(text)
    if error:
        msg = f"{quoted(text)} is not a valid image reference: {error}."
        raise ValueError(msg)
    return text


def canonical(reference: str) -> str:
    """Return the complete name of an image, as nodes report it.

    The registry and the tag are added, and a tag before a digest is removed. Other text, such as
    an entry that a node reports without a name, is returned unchanged.
    """
    name, at, digest = reference.partition("@")
    domain, path = _split_domain(name)
    path, _, tag = path.partition(":")
    if domain in {"", _OLD_DEFAULT_DOMAIN}:
        domain, path = _DEFAULT_DOMAIN, path if "/" in path else f"library/{path}"
    elif domain == _DEFAULT_DOMAIN and "/" not in path:
        path = f"library/{path}"
    version = f"@{digest}" if at else f":{tag or 'latest'}"
    return f"{domain}/{path}{version}"


def _error(text: str) -> str:
    if not text or len(text) > MAX_LENGTH:
        return f"it must have 1 to {MAX_LENGTH} characters"
    if re.search(r"\s", text):
        return "it contains whitespace"
    if "://" in text:
        return "it starts with a scheme; use only the host, such as registry.example.com/image"
    if _IDENTIFIER.fullmatch(text):
        return "64 hexadecimal digits are an image ID; use name@sha256:<digits>"
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return "the digest must be sha256:<64 lowercase hexadecimal digits> (or sha384, sha512)"
    return _name_error(name)


def _name_error(name: str) -> str:
    domain, path = _split_domain(name)
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        return (
            "the tag must be 1 to 128 letters, digits, '_', '.' or '-', and must not start with"
            " '.' or '-'"
        )
    if domain and (error := _domain_error(domain)):
        return error
    if path != path.lower():
        return "the name must be lowercase"
    if not _PATH.fullmatch(path):
        return "the name must be lowercase letters and digits, separated by '.', '_', '__' or '-'"
    if len(f"{domain or 'docker.io/library'}/{path}") > _NAME_MAX:
        return f"host and name together have more than {_NAME_MAX} characters"
    return ""


def _domain_error(domain: str) -> str:
    match = _DOMAIN.fullmatch(domain)
    if match is None or not 0 < int(match["port"] or 443) < 65536:
        return "the host must be a DNS name or an IP address, with an optional port"
    return ""


def _split_domain(name: str) -> tuple[str, str]:
    """Return the registry and the path, split as Docker does. The registry may be empty."""
    first, slash, rest = name.partition("/")
    is_domain = slash and ("." in first or ":" in first or first == "localhost")
    return (first, rest) if is_domain else ("", name)
