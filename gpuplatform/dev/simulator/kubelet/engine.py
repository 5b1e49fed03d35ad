"""The kubelets of one process: informers, a work queue, and the processing of single pods."""

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass, field

from gpuplatform.dev.simulator.kubelet.client import ApiClient, Manifest
from gpuplatform.dev.simulator.kubelet.containers import Timing
from gpuplatform.dev.simulator.kubelet.control import NAME, NAMESPACE, Control, parse_control
from gpuplatform.dev.simulator.kubelet.echo import EchoServers
from gpuplatform.dev.simulator.kubelet.endpoint import Endpoint
from gpuplatform.dev.simulator.kubelet.events import EventWriter
from gpuplatform.dev.simulator.kubelet.informer import Informer, Listener
from gpuplatform.dev.simulator.kubelet.nodes import Nodes, host_ip
from gpuplatform.dev.simulator.kubelet.options import Options
from gpuplatform.dev.simulator.kubelet.pods import NodeContext, PodHistory, devices_of, step
from gpuplatform.dev.simulator.kubelet.processes import Processes
from gpuplatform.dev.simulator.kubelet.secrets import SecretReader, StartErrors
from gpuplatform.dev.simulator.kubelet.statuses import ENDED, container_statuses, phase_of
from gpuplatform.dev.simulator.kubelet.work_queue import WorkQueue
from gpuplatform.kube.errors import ClusterConflict, ClusterError, ClusterRejected
from gpuplatform.kube.fields import text

log = logging.getLogger(__name__)

WORKERS = 24
RETRY_SECONDS = 1.0
UNEXPECTED_RETRY_SECONDS = 10.0
UNUSED_METADATA = ("managedFields", "annotations", "labels", "ownerReferences")


@dataclass(slots=True)
class PodRecord:
    """A pod on a simulated node."""

    pod: Manifest
    history: PodHistory = field(default_factory=PodHistory)
    is_removed: bool = False
    """Whether the kubelet has requested the final deletion. A finalizer can delay the deletion."""

    @property
    def version(self) -> int:
        """The resource version as an integer, which only increases."""
        return int(self.pod["metadata"]["resourceVersion"])

    @property
    def holds_gpus(self) -> bool:
        """Whether the kubelet has admitted the pod, and the pod has not ended."""
        is_admitted = bool(self.history.containers or container_statuses(self.pod))
        return is_admitted and phase_of(self.pod) not in ENDED


class NodeState:
    """The pods and pod addresses of a node."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.records: dict[str, PodRecord] = {}
        self.images: set[str] = set()
        """Full references of the images on the node."""
        self._addresses: dict[str, str] = {}

    def address(self, uid: str, known: str) -> str:
        """Return the address of a pod: its assigned address, `known`, or a free address.

        An address `known` that does not belong to the node is ignored.
        """
        address = self._addresses.get(uid)
        if address is None:
            known = known if known.startswith(f"{self._subnet}.") else ""
            free = (f"{self._subnet}.{last}" for last in range(1, 255))
            taken = set(self._addresses.values())
            address = known or next((address for address in free if address not in taken), "")
            self._addresses[uid] = address
        return address

    def used_devices(self) -> Counter[str]:
        """Return the number of units of each extended resource that the admitted pods hold."""
        used = Counter[str]()
        for record in self.records.values():
            if record.holds_gpus:
                used.update(devices_of(record.pod))
        return used

    def forget(self, uid: str) -> None:
        """Release the GPUs and the address of a deleted pod."""
        self.records.pop(uid, None)
        self._addresses.pop(uid, None)

    @property
    def _subnet(self) -> str:
        return f"10.{200 + self.number // 250}.{self.number % 250}"


class Kubelets:
    """The simulated kubelets of `options.nodes` nodes."""

    def __init__(self, client: ApiClient, options: Options) -> None:
        self._client = client
        self._options = options
        self._node_states = {
            name: NodeState(number) for number, name in enumerate(options.node_names())
        }
        self._records: dict[str, PodRecord] = {}
        self._queue = WorkQueue()
        self._events = EventWriter(client, options.events_per_second)
        self._echoes = EchoServers(client)
        self._secrets = SecretReader(client)
        self._processes = Processes(client, self._queue.add)
        self._endpoint = Endpoint(self._find, self._processes.log, client.shared)
        self._nodes = Nodes(client, options, self._endpoint)
        self._control = Control()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Failed requests are retried."""
        pods = Informer(self._client, "/api/v1/pods", Listener(self._on_pods, self._on_pod))
        nodes = Informer(
            self._client, "/api/v1/nodes", Listener(self._nodes.on_list, self._nodes.on_event)
        )
        control = Informer(
            self._client,
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            Listener(self._on_controls, self._on_control),
            field_selector=f"metadata.name={NAME}",
        )
        await self._endpoint.start(self._options.prefix)
        try:
            await self._run([control, nodes, pods], stop)
        finally:
            await self._endpoint.stop()
            self._echoes.stop_all()
            self._processes.stop_all()

    async def _run(self, informers: list[Informer], stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informer.run(stop)) for informer in informers]
            tasks += [group.create_task(self._work()) for _ in range(WORKERS)]
            tasks += [
                group.create_task(self._nodes.run(name, node_state.number, stop))
                for name, node_state in self._node_states.items()
            ]
            tasks.append(group.create_task(self._events.run()))
            await stop.wait()
            for task in tasks:
                task.cancel()

    def _find(self, namespace: str, name: str) -> Manifest | None:
        """Return a pod of these nodes, or `None`."""
        for record in self._records.values():
            metadata = record.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                return record.pod
        return None

    # Callbacks of the informers

    def _on_pods(self, items: list[Manifest]) -> None:
        found = {pod["metadata"]["uid"] for pod in items}
        for uid in self._records.keys() - found:
            self._forget(uid)
        for pod in items:
            # A recreated server restarts its versions, so a list replaces all earlier state.
            record = self._records.get(pod["metadata"]["uid"])
            if record is not None:
                record.pod["metadata"]["resourceVersion"] = "0"
            self._store(pod)

    def _on_pod(self, event: str, pod: Manifest) -> None:
        if event == "DELETED":
            self._forget(pod["metadata"]["uid"])
        else:
            self._store(pod)

    def _store(self, pod: Manifest) -> None:
        node_state = self._node_states.get(pod["spec"].get("nodeName"))
        if node_state is None:
            return
        for key in UNUSED_METADATA:
            pod["metadata"].pop(key, None)
        uid = pod["metadata"]["uid"]
        record = self._records.get(uid)
        if record is None:
            self._records[uid] = node_state.records[uid] = PodRecord(pod)
            statuses = container_statuses(pod).values()
            node_state.images |= {one["image"] for one in statuses if one["imageID"]}
        elif int(pod["metadata"]["resourceVersion"]) <= record.version:
            return
        else:
            record.pod = pod
        self._nodes.add_images(pod["spec"]["nodeName"], _images_of(pod))
        self._queue.add(uid)

    def _forget(self, uid: str) -> None:
        record = self._records.pop(uid, None)
        if record is not None:
            self._node_states[record.pod["spec"]["nodeName"]].forget(uid)
        self._queue.forget(uid)
        self._echoes.stop(uid)
        self._processes.forget(uid)

    def _on_controls(self, items: list[Manifest]) -> None:
        self._set_control(items[0] if items else {})

    def _on_control(self, event: str, config_map: Manifest) -> None:
        self._set_control({} if event == "DELETED" else config_map)

    def _set_control(self, config_map: Manifest) -> None:
        try:
            control = parse_control(config_map)
        except ValueError as error:
            log.warning("ConfigMap %s/%s: %s", NAMESPACE, NAME, error)
            return
        if control != self._control:
            self._control = self._nodes.control = control
            self._nodes.wake()
            for uid in self._records:
                self._queue.add(uid)

    # Processing of pods

    async def _work(self) -> None:
        while True:
            uid = await self._queue.get()
            try:
                await self._sync_pod(uid)
            except (ClusterConflict, ClusterRejected) as error:
                # The pod was changed or deleted concurrently. A watch event follows.
                log.debug("Pod %s: %s", uid, error)
            except ClusterError as error:
                log.debug("Pod %s: %s", uid, error)
                self._queue.add_after(uid, RETRY_SECONDS)
            except Exception:  # One odd pod must not end the kubelet.
                log.exception("Pod %s: unexpected error", uid)
                self._queue.add_after(uid, UNEXPECTED_RETRY_SECONDS)
            finally:
                self._queue.done(uid)

    async def _sync_pod(self, uid: str) -> None:
        record = self._records.get(uid)
        if record is None or record.is_removed:
            return
        if self._control.node(record.pod["spec"]["nodeName"]).failed:
            return
        errors = await self._secrets.errors(record.pod)
        pod, now = record.pod, time.time()
        history = record.history.copy()
        desired = step(pod, history, self._context(record, errors), now)
        if desired.status is not None:
            await self._write(record, desired.status)
        record.history = history
        self._events.add(pod, desired.events, now)
        await self._echoes.sync(record.pod)
        await self._sync_processes(record)
        if desired.remove:
            await self._remove(record)
        elif desired.due is not None:
            self._queue.add_after(uid, desired.due - time.time())

    async def _sync_processes(self, record: PodRecord) -> None:
        is_held = self._control.hold_terminating and "deletionTimestamp" in record.pod["metadata"]
        if is_held:
            return
        try:
            await self._processes.sync(record.pod)
        except ClusterRejected as error:
            # A Secret does not exist. A real kubelet records an Event and waits, too.
            log.info("Pod %s is waiting: %s", record.pod["metadata"]["name"], error)
            self._queue.add_after(record.pod["metadata"]["uid"], RETRY_SECONDS)

    def _context(self, record: PodRecord, errors: StartErrors) -> NodeContext:
        node = record.pod["spec"]["nodeName"]
        node_state, control = self._node_states[node], self._control.node(node)
        known = text(record.pod, "status", "podIP")
        delay = self._control.start_delay_seconds
        if delay is None:
            delay = self._options.start_delay_seconds
        used = node_state.used_devices()
        free = {name: n - used[name] for name, n in control.devices(self._options).items()}
        return NodeContext(
            host_ip=host_ip(node_state.number),
            pod_ip=node_state.address(record.pod["metadata"]["uid"], known),
            timing=Timing(delay, self._options.back_off_seconds),
            free_devices=free,
            evict=control.evict,
            hold_terminating=self._control.hold_terminating,
            images=node_state.images,
            reports=self._processes.reports(record.pod),
            config_errors=errors.of_containers,
            mount_error=errors.of_volumes,
        )

    async def _write(self, record: PodRecord, status: Manifest) -> None:
        metadata = record.pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._store(await self._client.merge_patch(path, patch))

    async def _remove(self, record: PodRecord) -> None:
        metadata = record.pod["metadata"]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": metadata["uid"]},
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        await self._client.request("DELETE", path, body=options)
        record.is_removed = True


def _images_of(pod: Manifest) -> set[str]:
    """Return the images of the containers that were created."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return {status["image"] for status in statuses if status.get("containerID")}
