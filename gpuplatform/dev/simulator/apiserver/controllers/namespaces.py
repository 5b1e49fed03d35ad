"""The namespace controller: creates ServiceAccounts, and empties terminating namespaces."""

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.loop import MANAGER, Controller
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.resources import GroupPlural
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key
from gpuplatform.dev.simulator.apiserver.subresources import finalize
from gpuplatform.dev.simulator.apiserver.targets import Options, Target

_KIND: GroupPlural = ("", "namespaces")


class Namespaces(Controller):
    """The controller that creates `default` ServiceAccounts and empties terminating namespaces."""

    @override
    def observe(self, change: Change) -> None:
        key = change.entry.key
        if key[:2] == _KIND:
            self.add(key)
        elif change.type == "DELETED" and key[2]:
            self.add((*_KIND, "", key[2]))

    @override
    def sync(self, key: Key) -> None:
        entry = self.store.get(key)
        if entry is None:
            return
        if "deletionTimestamp" in entry.object["metadata"]:
            self._empty(entry)
            return
        accounts = self.writer.registry.require("serviceaccounts")
        target = Target(accounts, key[3], "default")
        if self.store.get(target.key) is None:
            body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            self.writer.create(target, body, Options(manager=MANAGER))

    def _empty(self, entry: Entry) -> None:
        left = 0
        for resource in list(self.writer.registry):
            if not resource.namespaced:
                continue
            for content in self.store.find(resource.key, entry.key[3]):
                if "deletionTimestamp" not in content.object["metadata"]:
                    delete(self.store, Target(resource, *content.key[2:]), DeleteOptions())
                left += self.store.get(content.key) is not None
        if left == 0:
            target = Target(self.writer.registry.require("namespaces"), "", entry.key[3])
            finalize(self.writer, target, {"spec": {"finalizers": []}})
