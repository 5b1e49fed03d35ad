"""The process of a container (directory, user, end), and the annotations of its pod. Pure."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.text import container_text, quoted
from gpuplatform.formats.validations import keys_match, matches, validated
from gpuplatform.kube.kinds import GROUP, Manifest

MAX_ANNOTATIONS: Final = 100
MAX_ANNOTATION_BYTES: Final = 64 * 1024
MAX_GRACE_SECONDS: Final = 3600
MAX_ID: Final = 2**31 - 1

_DIRECTORY: Final = r"/[^\x00]*"
_DIRECTORY_MAX: Final = 1024

DOMAINS_OF_THE_PLATFORM: Final = (GROUP, "kubectl.kubernetes.io")
DOMAINS_THAT_GRANT: Final = (
    *("cdi.k8s.io", "crio.io", "nri.io", "noderesource.dev"),
    *("apparmor.security.beta.kubernetes.io", "seccomp.security.alpha.kubernetes.io"),
    *("k8s.v1.cni.cncf.io", "v1.multus-cni.io", "cni.projectcalico.org"),
    *("ovn.kubernetes.io", "k8s.ovn.org"),
)
"""Domains of annotations by which a container runtime or a network plugin gives the pod devices,
privileges or networks."""
_PREFIXES_THAT_GRANT: Final = (
    "io.kubernetes.",
    "io.containerd.",
    "io.katacontainers.",
    "run.oci.",
)


_DOMAINS: Final = "|".join(map(re.escape, (*DOMAINS_OF_THE_PLATFORM, *DOMAINS_THAT_GRANT)))
_REJECTED: Final = (
    rf"([^/]*\.)?({_DOMAINS})(/[^/]*)?|({'|'.join(map(re.escape, _PREFIXES_THAT_GRANT))}).*"
)
"""The regular expression of the keys that `_annotation_key` rejects, for the CRD."""


def _working_directory(path: str) -> str:
    container_text(path)
    if len(path) > _DIRECTORY_MAX or not re.fullmatch(_DIRECTORY, path, re.DOTALL):
        msg = (
            f"{quoted(path)} is not an absolute path of at most {_DIRECTORY_MAX} characters. Start"
            " with '/'."
        )
        raise ValueError(msg)
    return path


def _annotation_key(key: str) -> str:
    names.label_key(key)
    domain = key.rpartition("/")[0] or key
    if _is_below(domain, DOMAINS_OF_THE_PLATFORM):
        msg = f"{quoted(key)} is an annotation of the platform or of kubectl. Use another key."
    elif _is_below(domain, DOMAINS_THAT_GRANT) or key.startswith(_PREFIXES_THAT_GRANT):
        msg = f"{quoted(key)} would give the pod devices, privileges or networks. Remove it."
    else:
        return key
    raise ValueError(msg)


def _is_below(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == one or domain.endswith(f".{one}") for one in domains)


def _annotations(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Reject annotations that are too large, and sort them, so that equal ones have equal JSON."""
    if sum(len(f"{key}{value}".encode()) for key, value in annotations.items()) > (
        MAX_ANNOTATION_BYTES
    ):
        msg = f"Must not have more than {MAX_ANNOTATION_BYTES} bytes in total."
        raise ValueError(msg)
    return dict(sorted(annotations.items()))


WorkingDirectory = Annotated[
    str,
    AfterValidator(_working_directory),
    Field(
        json_schema_extra={"pattern": "^/"},
        max_length=_DIRECTORY_MAX,
        description="Working directory of the process, as an absolute path. Defaults to the"
        " working directory of the image.",
        examples=["/workspace"],
    ),
]
Annotations = Annotated[
    Mapping[
        Annotated[str, AfterValidator(_annotation_key)],
        Annotated[str, AfterValidator(container_text), Field(max_length=32 * 1024)],
    ],
    Field(
        max_length=MAX_ANNOTATIONS,
        json_schema_extra=validated(
            keys_match(
                names.LABEL_KEY,
                names.LABEL_KEY_MAX,
                "Must have permitted keys of annotations as keys.",
                f"!{matches('key', _REJECTED)}",
            )
        ),
        description="Annotations of the pod, at most 64 KiB in total. Rejected are annotations of"
        " the platform and of kubectl, and annotations by which container runtimes and network"
        " plugins give a pod devices, privileges or networks.",
        examples=[{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}],
    ),
    AfterValidator(_annotations),
]
GraceSeconds = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_GRACE_SECONDS,
        description="Time in seconds between SIGTERM and SIGKILL when the pod is stopped, for"
        " example to write a checkpoint. A worker of a function has at least the timeout of an"
        " invocation and 15 seconds. Defaults to 30.",
        examples=[300],
    ),
]
Id = Annotated[int, Field(ge=0, le=MAX_ID)]


class SecurityContext(SpecModel):
    """The user, the groups and the file system of the container."""

    run_as_user: Annotated[Id, Field(description="User ID of the process.")] | None = Field(
        default=None, alias="runAsUser"
    )
    run_as_group: Annotated[Id, Field(description="Group ID of the process.")] | None = Field(
        default=None, alias="runAsGroup"
    )
    fs_group: (
        Annotated[Id, Field(description="Group ID that owns the volumes of the pod.")] | None
    ) = Field(default=None, alias="fsGroup", examples=[1000])
    read_only_root: bool = Field(
        default=False,
        alias="readOnlyRoot",
        description="Whether the container can write only to /dev/shm and `scratch`. Defaults to"
        " false.",
    )

    def of_container(self) -> Manifest:
        """Return the fields in the security context of the container."""
        found: dict[str, Any] = {"runAsUser": self.run_as_user, "runAsGroup": self.run_as_group}
        found["readOnlyRootFilesystem"] = self.read_only_root or None
        return {key: value for key, value in found.items() if value is not None}

    def of_pod(self) -> Manifest:
        """Return the fields in the security context of the pod."""
        return {} if self.fs_group is None else {"fsGroup": self.fs_group}
