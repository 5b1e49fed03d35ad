"""Writes an OCI image archive from files, for `ctr images import`. Same files, same bytes."""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
KIND = "application/vnd.oci.image."
MANIFEST = f"{KIND}manifest.v1+json"
PASSWD = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
FOLDERS = {"bin": 0o755, "etc": 0o755, "tmp": 0o1777}


@dataclass(frozen=True, slots=True)
class Image:
    """An image of one layer."""

    name: str
    """The full name with registry and tag."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    """The path in the image of each executable file."""
    links: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    folder: str = "/"
    """The working directory."""
    level: int = 6
    """The level of compression."""


def write(image: Image, path: Path) -> None:
    """Write the archive of an image."""
    layer = _layer(image)
    blobs = _Blobs()
    machine = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    run = {
        "Entrypoint": list(image.entrypoint),
        "Cmd": list(image.command),
        "User": image.user,
        "WorkingDir": image.folder,
    }
    config = {
        **machine,
        "config": {**run, "Env": _environment(image)},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blobs.add("config.v1+json", _json(config)),
        "layers": [blobs.add("layer.v1.tar+gzip", gzip.compress(layer, image.level, mtime=0))],
    }
    entry = {
        **blobs.add("manifest.v1+json", _json(manifest)),
        "platform": machine,
        "annotations": {
            "io.containerd.image.name": image.name,
            "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
        },
    }
    index = {"schemaVersion": 2, "mediaType": f"{KIND}index.v1+json", "manifests": [entry]}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": _json(index)}
    with tarfile.open(path, "w") as tar:
        for name, data in {**files, **blobs.files}.items():
            _add(tar, tarfile.TarInfo(name), data)


class _Blobs:
    """The blobs of an archive, by path."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def add(self, kind: str, data: bytes) -> dict[str, Any]:
        """Add a blob; return its descriptor."""
        digest = _digest(data)
        self.files["blobs/" + digest.replace(":", "/")] = data
        return {"mediaType": KIND + kind, "digest": digest, "size": len(data)}


def _environment(image: Image) -> list[str]:
    """Return the variables of an image; a later one replaces an earlier one."""
    named = {text.partition("=")[0]: text for text in (PATH, *image.environment)}
    return list(named.values())


def _layer(image: Image) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, mode in FOLDERS.items():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            tar.addfile(folder)
        _add(tar, tarfile.TarInfo("etc/passwd"), PASSWD)
        for name, source in sorted(image.files.items()):
            executable = tarfile.TarInfo(name)
            executable.mode = 0o755
            _add(tar, executable, source.read_bytes())
        for name, target in sorted(image.links.items()):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    return output.getvalue()


def _add(tar: tarfile.TarFile, info: tarfile.TarInfo, data: bytes) -> None:
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
