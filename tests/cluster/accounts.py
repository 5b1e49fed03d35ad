"""The accounts of the platform's processes on a control plane, and their audit log."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuplatform.deployment.permissions import (
    ACCOUNTS,
    NAMESPACES,
    PREFIX,
    Account,
    Permission,
    Place,
)
from gpuplatform.kube.kinds import GROUP, SERVICE_ACCOUNT
from tests.cluster.controlplane.flags import AUDIT_LOG
from tests.cluster.world import Http

SYSTEM_NAMESPACE = "gpu-platform"
USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:"
GROUPS = {"stockpools": GROUP, "deployments": "apps"}
REFUSED = {401, 403}
NOT_WALKED = {"secrets"}
"""Functions require a queue, which this platform does not have."""
NEVER_LOGGED = {"finalizers", "bind"}
"""Admission checks these permissions within other requests."""
WALKED_TENANTS = ("tenant-walk", "team-walk")
"""The namespaces of the tenants that the platform creates."""


def kubectl(kubeconfig: Path, *arguments: str, text: str | None = None) -> str:
    """Run kubectl; the assertion of a failure contains its output."""
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(kubeconfig), *arguments],
        capture_output=True,
        text=True,
        input=text,
        check=False,
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def account_kubeconfigs(admin: Path, folder: Path) -> dict[str, Path]:
    """Write a kubeconfig with the ServiceAccount's token for each process."""
    written, http = {}, Http(admin)
    for account in ACCOUNTS:
        path = SERVICE_ACCOUNT.path(SYSTEM_NAMESPACE, account.name, "token")
        reply = http("POST", path, {"spec": {}})
        assert reply.status == 201, reply.message
        config = yaml.safe_load(admin.read_text())
        config["users"][0]["user"] = {"token": reply.body["status"]["token"]}
        written[account.process] = folder / f"kubeconfig-{account.process}"
        written[account.process].write_text(json.dumps(config))
    http.close()
    return written


@dataclass(frozen=True, slots=True)
class Use:
    """One request of an account, as a rule allows it."""

    process: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str

    def is_of(self, permission: Permission) -> bool:
        """Return whether the request uses the permission."""
        namespaces = {
            **NAMESPACES,
            Place.CLUSTER: ("",),
            Place.SYSTEM: (SYSTEM_NAMESPACE,),
            Place.TENANTS: (*NAMESPACES[Place.TENANTS], *WALKED_TENANTS),
            Place.TENANCY: ("", *WALKED_TENANTS),
        }[permission.place]
        return (
            (self.group, self.resource) == (permission.kind.group, permission.resource)
            and self.verb in permission.verbs
            and self.namespace in namespaces
            and (not permission.name or self.name == permission.name)
        )


class AuditLog:
    """The requests of accounts to a control plane since the creation of this object."""

    def __init__(self, kubeconfig: Path) -> None:
        self._path = kubeconfig.parent / AUDIT_LOG
        self._begin = self._path.stat().st_size

    def refused(self) -> list[str]:
        """Return the requests for which an account had no permission."""
        return sorted({_words(e) for e in self._events() if _code(e) in REFUSED})

    def unused(self, account: Account) -> list[str]:
        """Return the unused verbs of the permissions of an account."""
        uses = set(self._uses())
        return [
            f"{account.process}: {verb} {permission.resource} ({permission.place})"
            for permission in account.permissions
            if permission.subresource not in NEVER_LOGGED and permission.resource not in NOT_WALKED
            for verb in permission.verbs
            if verb not in NEVER_LOGGED
            and not any(
                use.process == account.process and use.verb == verb and use.is_of(permission)
                for use in uses
            )
        ]

    def processes(self) -> set[str]:
        """Return the processes that sent requests to the API server."""
        return {_process(event) for event in self._events()}

    def _uses(self) -> Iterator[Use]:
        for event in self._events():
            if _code(event) in REFUSED:
                continue
            verbs = [event["verb"]]
            if event["verb"] == "patch" and _code(event) == 201:
                verbs.append("create")  # An apply that creates needs both verbs.
            about = event.get("objectRef") or {}
            parts = (about.get("resource", ""), about.get("subresource", ""))
            for verb in verbs:
                yield Use(
                    process=_process(event),
                    verb=verb,
                    group=about.get("apiGroup", ""),
                    resource="/".join(part for part in parts if part),
                    namespace=about.get("namespace", ""),
                    name=about.get("name", ""),
                )

    def _events(self) -> Iterator[dict[str, Any]]:
        with self._path.open() as log:
            log.seek(self._begin)
            for line in log:
                event = json.loads(line)
                if event["user"]["username"].startswith(USER):
                    yield event


def _process(event: dict[str, Any]) -> str:
    return str(event["user"]["username"]).removeprefix(f"{USER}{PREFIX}-")


def _code(event: dict[str, Any]) -> int:
    return int((event.get("responseStatus") or {}).get("code") or 0)


def _words(event: dict[str, Any]) -> str:
    return f"{event['user']['username'].removeprefix(USER)}: {event['verb']} {event['requestURI']}"


def may(plane: Path, process: str, verb: str, resource: str, namespace: str) -> bool:
    """Return whether the API server allows the account of a process a request."""
    http = Http(plane)
    reply = http(
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{SYSTEM_NAMESPACE}:gpu-platform-{process}",
                "resourceAttributes": {
                    "verb": verb,
                    "group": GROUPS.get(resource, ""),
                    "resource": resource,
                    "namespace": namespace,
                },
            },
        },
    )
    http.close()
    assert reply.status == 201, reply.message
    return bool(reply.body["status"]["allowed"])
