"""The Endpoints controller: maintains the addresses of the pods that a Service selects."""

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.loop import MANAGER, Controller
from gpuplatform.dev.simulator.apiserver.controllers.replicas import PODS, is_ready
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.resources import GroupPlural
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key
from gpuplatform.dev.simulator.apiserver.targets import Options, Target

_SERVICES: GroupPlural = ("", "services")


class Endpoints(Controller):
    """The controller that maintains an Endpoints object for each Service that has a selector."""

    @override
    def observe(self, change: Change) -> None:
        kind, entry = change.entry.key[:2], change.entry
        if kind == _SERVICES:
            self.add(entry.key)
        elif kind == PODS:
            states = [entry.object] + ([change.before.object] if change.before else [])
            for service in self.store.find(_SERVICES, entry.key[2]):
                if any(_selects(service.object, pod) for pod in states):
                    self.add(service.key)

    @override
    def sync(self, key: Key) -> None:
        service = self.store.get(key)
        resource = self.writer.registry.require("endpoints")
        target = Target(resource, *key[2:])
        old = self.store.get(target.key)
        if service is None:
            if old:
                delete(self.store, target, DeleteOptions())
            return
        if not service.object["spec"].get("selector"):
            return
        pods = [e for e in self.store.find(PODS, key[2]) if _selects(service.object, e.object)]
        subsets = _subsets(service.object, pods)
        if old is None:
            labels = service.object["metadata"].get("labels", {})
            body = {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": {"name": key[3], "namespace": key[2], "labels": labels},
                "subsets": subsets,
            }
            self.writer.create(target, body, Options(manager=MANAGER))
        elif old.object.get("subsets", []) != subsets:
            self.writer.change(
                old, lambda obj: obj.update(subsets=subsets), Options(manager=MANAGER)
            )


def _selects(service: Manifest, pod: Manifest) -> bool:
    selector = service["spec"].get("selector") or {}
    return bool(selector) and selector.items() <= pod["metadata"].get("labels", {}).items()


def _subsets(service: Manifest, pods: list[Entry]) -> list[Manifest]:
    groups: dict[str, list[Manifest]] = {"addresses": [], "notReadyAddresses": []}
    for pod in pods:
        status, metadata = pod.object.get("status", {}), pod.object["metadata"]
        if "podIP" not in status or "deletionTimestamp" in metadata:
            continue
        if status.get("phase") in {"Succeeded", "Failed"}:
            continue
        reference = {
            "kind": "Pod",
            "namespace": pod.key[2],
            "name": pod.key[3],
            "uid": metadata["uid"],
        }
        address = {
            "ip": status["podIP"],
            "nodeName": pod.object["spec"].get("nodeName"),
            "targetRef": reference,
        }
        groups["addresses" if is_ready(pod.object) else "notReadyAddresses"].append(address)
    found: Manifest = {name: addresses for name, addresses in groups.items() if addresses}
    if not found:
        return []
    ports = [_port(port, pods) for port in service["spec"].get("ports", ())]
    return [found | ({"ports": ports} if ports else {})]


def _port(port: Manifest, pods: list[Entry]) -> Manifest:
    number = port["targetPort"]
    if isinstance(number, str):
        declared = (
            p["containerPort"]
            for pod in pods
            for container in pod.object["spec"]["containers"]
            for p in container.get("ports", ())
            if p.get("name") == number
        )
        number = next(declared, port["port"])
    name = {"name": port["name"]} if port.get("name") else {}
    return {**name, "port": number, "protocol": port["protocol"]}
