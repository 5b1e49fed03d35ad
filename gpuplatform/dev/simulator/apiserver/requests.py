"""Parsing of request paths and queries: resource, target and options."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.kubelets import EXEC, LOG
from gpuplatform.dev.simulator.apiserver.resources import Registry, Resource
from gpuplatform.dev.simulator.apiserver.targets import Options, Target

_NOT_SIMULATED = {
    "attach",
    "portforward",
    "proxy",
    "ephemeralcontainers",
    "resize",
    "token",
}
_OTHER_GROUPS = {
    *("authentication.k8s.io", "authorization.k8s.io", "autoscaling", "policy"),
    *("storage.k8s.io", "resource.k8s.io"),
    *("admissionregistration.k8s.io", "discovery.k8s.io", "node.k8s.io"),
}
_OTHER_KINDS = {
    *((("apps", plural)) for plural in ("statefulsets", "daemonsets", "controllerrevisions")),
    *(("", plural) for plural in ("persistentvolumes", "persistentvolumeclaims")),
    *(("", plural) for plural in ("replicationcontrollers", "podtemplates")),
    ("batch", "cronjobs"),
    *(
        ("rbac.authorization.k8s.io", plural)
        for plural in ("roles", "clusterroles", "clusterrolebindings")
    ),
    *(("networking.k8s.io", plural) for plural in ("ingresses", "ingressclasses")),
}
"""Kubernetes resources that are not simulated. Requests for them get 501."""
_MANAGER_BYTES = 128
_VALIDATIONS = ("Ignore", "Strict", "Warn")


@dataclass(frozen=True, slots=True)
class Address:
    """The object, collection or subresource that a path identifies."""

    resource: Resource
    namespace: str
    name: str
    subresource: str

    @property
    def target(self) -> Target:
        """The target of a write, without the subresource."""
        return Target(self.resource, self.namespace, self.name)


def parse_path(registry: Registry, raw_path: str) -> Address | None:
    """Parse a path. Returns `None` for paths of documents and for unknown paths.

    Raises:
        ApiError: 404 if the resource does not exist; 501 if it is not simulated.
    """
    root, *rest = [unquote(part) for part in raw_path.strip("/").split("/")]
    if root == "api":
        rest = ["", *rest]
    if root not in {"api", "apis"} or len(rest) < 3:
        return None
    group, version, *rest = rest
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    if not _is_served(registry, group, version, rest[0]):
        return None
    resource = registry.find(group, rest[0])
    if resource is None or len(rest) > 3:
        raise errors.no_such_path()
    name, subresource = [*rest[1:], "", ""][:2]
    if bool(namespace) != resource.namespaced and (namespace or name):
        raise errors.no_such_path()
    is_forwarded = resource.kind == "Pod" and subresource in {LOG, EXEC}
    if subresource not in {"", *resource.subresources} and not is_forwarded:
        known = subresource in _NOT_SIMULATED
        raise (
            errors.not_simulated(f"{resource.plural}/{subresource}")
            if known
            else errors.no_such_path()
        )
    return Address(resource, namespace, name, subresource)


def _is_served(registry: Registry, group: str, version: str, plural: str) -> bool:
    if (group, plural) in _OTHER_KINDS or group in _OTHER_GROUPS:
        raise errors.not_simulated(f"{plural}.{group}" if group else plural)
    return any((r.group, r.version) == (group, version) for r in registry)


def options_of(
    query: Mapping[str, str], user_agent: str, subresource: str, kind: str, *, is_apply: bool
) -> Options:
    """Read the options of a write. `kind` is the kind of the options, such as `PatchOptions`.

    Raises:
        ApiError: 422 if a value is invalid.
    """
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        raise _unsupported(kind, "fieldValidation", validation, ("", *_VALIDATIONS))
    _check_manager(query, kind, is_apply=is_apply)
    dry_run = query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        raise _unsupported(kind, "dryRun", [dry_run], ("All",))
    return Options(
        manager=query.get("fieldManager") or user_agent.partition("/")[0][:128] or "unknown",
        dry_run=bool(dry_run),
        force=query.get("force") in {"true", "1"},
        validation=validation,
        subresource=subresource,
    )


def _unsupported(
    kind: str, name: str, value: object, possible: tuple[str, ...]
) -> errors.ApiError:
    field_error = errors.unsupported(name, value, possible)
    return errors.invalid("meta.k8s.io", kind, "", [field_error])


def _check_manager(query: Mapping[str, str], kind: str, *, is_apply: bool) -> None:
    manager, field_errors = query.get("fieldManager", ""), []
    if is_apply and not manager:
        field_errors.append(errors.required("fieldManager", "is required for apply patch"))
    if kind == "PatchOptions" and not is_apply and "force" in query:
        detail = "may not be specified for non-apply patch"
        field_errors.append(errors.forbidden_value("force", detail))
    if len(manager.encode()) > _MANAGER_BYTES:
        detail = f"Too long: may not be more than {_MANAGER_BYTES} bytes"
        field_errors.append(errors.FieldError("FieldValueTooLong", "fieldManager", detail))
    if not manager.isprintable():
        field_errors.append(errors.invalid_value("fieldManager", manager, "invalid character"))
    if field_errors:
        raise errors.invalid("meta.k8s.io", kind, "", field_errors)
