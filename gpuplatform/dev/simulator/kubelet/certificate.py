"""The self-signed certificate of the kubelets' HTTPS endpoint, as a real kubelet creates one.

API servers do not verify it unless `--kubelet-certificate-authority` is set.
"""

import secrets
import ssl
import tempfile
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from gpuplatform import clock

_YEARS: Final = timedelta(days=3650)
_ED25519: Final = bytes.fromhex("300506032b6570")
_COMMON_NAME: Final = bytes.fromhex("0603550403")
_SUBJECT_ALT_NAME: Final = bytes.fromhex("0603551d11")
_PRIVATE_KEY: Final = bytes.fromhex("302e020100300506032b657004220420")
_INTEGER, _BITS, _OCTETS, _TEXT, _TIME = 0x02, 0x03, 0x04, 0x0C, 0x17
_SEQUENCE, _SET = 0x30, 0x31
_VERSION, _EXTENSIONS, _IP_ADDRESS = 0xA0, 0xA3, 0x87


def server_context(name: str, address: bytes) -> ssl.SSLContext:
    """Return a TLS context with a new certificate for `name` and the IPv4 `address`."""
    key = SigningKey.generate()
    certificate = _pem("CERTIFICATE", _certificate(key, name, address))
    private = _pem("PRIVATE KEY", _PRIVATE_KEY + bytes(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kubelet.pem")
        path.touch(mode=0o600)
        path.write_text(certificate + private, "ascii")
        context.load_cert_chain(path)
    return context


def _certificate(key: SigningKey, name: str, address: bytes) -> bytes:
    common_name = _der(_SEQUENCE, _COMMON_NAME, _der(_TEXT, name.encode()))
    subject = _der(_SEQUENCE, _der(_SET, common_name))
    begin = clock.now().astimezone(UTC)
    names = _der(_OCTETS, _der(_SEQUENCE, _der(_IP_ADDRESS, address)))
    extension = _der(_SEQUENCE, _SUBJECT_ALT_NAME, names)
    public = _der(_BITS, b"\0", bytes(key.verify_key))
    body = _der(
        _SEQUENCE,
        _der(_VERSION, _der(_INTEGER, b"\x02")),
        _der(_INTEGER, secrets.randbits(63).to_bytes(8)),
        _ED25519,
        subject,
        _der(_SEQUENCE, _time(begin), _time(begin + _YEARS)),
        subject,
        _der(_SEQUENCE, _ED25519, public),
        _der(_EXTENSIONS, _der(_SEQUENCE, extension)),
    )
    signature = key.sign(body).signature
    return _der(_SEQUENCE, body, _ED25519, _der(_BITS, b"\0", signature))


def _der(tag: int, *parts: bytes) -> bytes:
    """Return a value of less than 64 KiB in the DER encoding."""
    content = b"".join(parts)
    size = len(content)
    if size < 128:
        length = bytes([size])
    elif size < 256:
        length = bytes([0x81, size])
    else:
        length = b"\x82" + size.to_bytes(2)
    return bytes([tag]) + length + content


def _time(moment: datetime) -> bytes:
    return _der(_TIME, moment.strftime("%y%m%d%H%M%SZ").encode())


def _pem(title: str, content: bytes) -> str:
    return f"-----BEGIN {title}-----\n{b64encode(content).decode()}\n-----END {title}-----\n"
