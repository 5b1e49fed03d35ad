"""Clusters in all states that a process can find at its start, by kubeconfig."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from tests.fakes.scripted_server import Exchange, scripted, unused_address

Answer = Callable[[Exchange], None]


def _version(exchange: Exchange) -> None:
    exchange.json({"gitVersion": "v1.36.3"})


def _silent(exchange: Exchange) -> None:
    exchange.hold()


def _refused(code: int, reason: str) -> Answer:
    def answer(exchange: Exchange) -> None:
        exchange.json({"kind": "Status", "reason": reason, "message": f"{reason}."}, code)

    return answer


SERVERS: dict[str, Answer] = {
    "there": _version,
    "slow": _silent,
    "refusing with 401": _refused(401, "Unauthorized"),
    "refusing with 403": _refused(403, "Forbidden"),
    "with a wrong TLS": _version,
}
BROKEN = "with a broken kubeconfig"
NOWHERE = "nowhere"


@contextmanager
def cluster_in(state: str, folder: Path) -> Iterator[str]:
    """Yield the path of the kubeconfig of a cluster in `state`; empty without one."""
    if state == NOWHERE:
        yield ""
        return
    file = folder / "kubeconfig"
    with ExitStack() as stack:
        url = unused_address()
        if state in SERVERS:
            url = stack.enter_context(scripted(SERVERS[state])).url
        if state == "with a wrong TLS":
            url = url.replace("http://", "https://")
        file.write_text("clusters: 5" if state == BROKEN else _config(url))
        yield str(file)


def _config(url: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )
