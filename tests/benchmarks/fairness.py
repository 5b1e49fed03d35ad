"""`make bench-fairness`: a tenant beside the burst of another one, and the cost of rates.

Runs on the simulated cluster, with all servers on the machine of the callers. Without arguments
all parts run; `make bench-fairness PARTS="pick rates"` runs some.
"""

import argparse
import http.client
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.acceptance.platform import UNLIMITED, RunningPlatform
from tests.benchmarks.bench import SPEC, at_once, describe_machine, load_words, say
from tests.benchmarks.many_rows import OPERATIONS, copy_row
from tests.benchmarks.pools import cpu_seconds, percentiles

FUNCTIONS: Final = "/api/v1/serverless/functions"
TENANTS: Final = "/api/v1/operator/tenants"
ME: Final = "/api/v1/me"
BURST: Final = 200
CALLERS: Final = 8
ROUNDS: Final = 3
WAITING: Final = 5_000
REQUESTS: Final = 1_000
PICK_MS: Final = 2.0


class Caller:
    """A caller with a token and a persistent connection."""

    def __init__(self, platform: RunningPlatform, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", platform.port, timeout=60)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request; return the content of the response."""
        text = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, text, self._headers)
            answer = self._connection.getresponse()
        except ConnectionError:  # The server closes idle connections.
            self._connection.close()
            self._connection.request(method, path, text, self._headers)
            answer = self._connection.getresponse()
        content = json.loads(answer.read())
        if answer.status not in {200, 202}:
            raise SystemExit(f"{method} {path} returned {answer.status}: {content}")
        return content["data"]


def tenant(platform: RunningPlatform, name: str) -> None:
    """Create a tenant."""
    answer = platform.request("POST", TENANTS, {"operationID": f"create-{name}", "name": name})
    assert answer.status == 202, answer.body
    platform.wait_for_job(f"create-{name}")


def burst(platform: RunningPlatform) -> None:
    """The time from a PUT of one tenant to its success, beside deletions of another tenant."""
    for name in ("acme", "beta"):
        tenant(platform, name)
    beta = Caller(platform, platform.token("beta", "user"))
    acme = platform.token("acme", "user")
    function(beta, "alone")
    ended(platform)
    alone = [changed(beta, f"alone-{number}") for number in range(ROUNDS * 3)]
    say(f"  alone: {percentiles(alone)}")
    callers = [Caller(platform, acme) for _ in range(CALLERS)]
    beside = [one for number in range(ROUNDS) for one in _beside(platform, callers, beta, number)]
    say(
        f"  beside {BURST} deletions: p50 {statistics.median(beside):.2f} s,"
        f" most {max(beside):.2f} s; {load_words()}"
    )


def _beside(
    platform: RunningPlatform, callers: Sequence[Caller], beta: Caller, number: int
) -> list[float]:
    """Delete the functions of acme; return the times of changes of beta meanwhile."""
    names = [f"burst-{number}-{one}" for one in range(BURST)]
    at_once([partial(_all, callers[n], names[n::CALLERS], function) for n in range(CALLERS)], 8)
    ended(platform)
    at_once([partial(_all, callers[n], names[n::CALLERS], deleted) for n in range(CALLERS)], 8)
    took: list[float] = []
    while open_operations(platform):
        took.append(changed(beta, f"beside-{number}-{len(took)}"))
    say(f"  round {number + 1}: {' '.join(f'{one:.2f}' for one in took)} s")
    return took


def _all(caller: Caller, names: Sequence[str], call: Callable[[Caller, str], None]) -> None:
    for name in names:
        call(caller, name)


def function(caller: Caller, name: str) -> None:
    """Request a function."""
    body = {"operationID": f"create-{name}", "requestID": name, "specName": SPEC}
    caller("POST", FUNCTIONS, {**body, "image": "busybox:1.36"})


def deleted(caller: Caller, name: str) -> None:
    """Request the deletion of a function."""
    caller("DELETE", f"{FUNCTIONS}/{name}?operationID=delete-{name}")


def changed(caller: Caller, operation: str) -> float:
    """Change the function of beta; return the seconds until the operation has succeeded."""
    begun = time.perf_counter()
    caller("PUT", f"{FUNCTIONS}/alone", {"operationID": operation, "image": f"a:{operation}"})
    while caller("GET", f"/api/v1/operations/{operation}")["phase"] != "Succeeded":
        time.sleep(0.01)
    return time.perf_counter() - begun


def open_operations(platform: RunningPlatform) -> int:
    """Return the number of operations that have not ended."""
    query = f"SELECT count(*) FROM {OPERATIONS} WHERE phase IN ('Pending', 'Running')"
    return int(platform.sql(query)[0][0])


def ended(platform: RunningPlatform) -> None:
    """Wait until all operations have ended."""
    platform.wait(lambda: not open_operations(platform), "operations to end", 300)


def pick(platform: RunningPlatform) -> None:
    """The choice of the next operation among 5,000 that wait, of 1 to 50 tenants."""
    os.environ.update(platform.environment())
    import django  # noqa: PLC0415 - after the environment

    django.setup()
    from gpuplatform.operations.fair_order import CANDIDATES  # noqa: PLC0415 - needs the apps
    from gpuplatform.operations.registry import kind_names  # noqa: PLC0415 - needs the apps

    tenant(platform, "pattern")
    ended(platform)
    platform.kill("operations")
    platform.kill("periodic")
    sql = platform.sql
    ((row,),) = sql("SELECT id FROM tenancy_tenant WHERE name = 'pattern'")
    names = {"name": "'t' || n - 1", "namespace": "'tenant-t' || n - 1"}
    copy_row(platform, "tenancy_tenant", row, 50, names)
    ((pattern,),) = sql(f"SELECT max(id) FROM {OPERATIONS}")
    for tenants in (1, 2, 50):
        for words, name in (("objects", "'copy-' || n"), ("one object", "'copy'")):
            owner = (
                "(SELECT id FROM tenancy_tenant WHERE name = 't' ||"
                f" (CASE WHEN mod(n, 5) > 0 THEN 0 ELSE mod(n / 5, {tenants}) END))"
            )
            is_free = {"phase": "'Pending'", "ended_at": "NULL", "due_at": "now()"}
            unique = {"operation_id": "'copy-' || n", "object_name": name, "tenant_id": owner}
            copy_row(platform, OPERATIONS, pattern, WAITING, {**is_free, **unique})
            sql(f"VACUUM ANALYZE {OPERATIONS}")
            ((hinted,),) = sql(f"SELECT max(id) FROM {OPERATIONS}")
            values = {"hinted": hinted, "kinds": kind_names(), "without": []}
            plans = [
                [line for (line,) in _explained(platform, CANDIDATES, values)] for _ in range(21)
            ]
            took = sorted(float(plan[-1].split()[2]) for plan in plans)
            say(
                f"  {WAITING} on {words}, {tenants} tenants: execution p50"
                f" {statistics.median(took):.2f} ms, most {took[-1]:.2f} ms, limit {PICK_MS} ms"
            )
            if tenants == 2 and words == "objects":
                say("\n".join(f"    {line}" for line in plans[-1]))
            sql(f"DELETE FROM {OPERATIONS} WHERE operation_id LIKE 'copy-%%'")


def _explained(
    platform: RunningPlatform, statement: str, values: Mapping[str, object]
) -> list[tuple[str]]:
    url = platform.environment()["DATABASE_URL"]
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as session:
        cursor = session.execute(f"EXPLAIN (ANALYZE, BUFFERS) {statement}", values)
        return cursor.fetchall()


def rates(platform: RunningPlatform) -> None:
    """The time of a read with unlimited and with limited rates, and of the call to the broker."""
    tenant(platform, "acme")
    token = platform.token("acme", "user")
    for words in ("unlimited", "limited", "unlimited", "limited"):
        platform.kill("web")
        large = dict.fromkeys(UNLIMITED, "1000000") if words == "limited" else UNLIMITED
        platform.start("web", further=large)
        caller = Caller(platform, token)
        spent = _spent(platform)
        took = [_timed(caller) for _ in range(REQUESTS)]
        web, broker = (
            after - before for after, before in zip(_spent(platform), spent, strict=True)
        )
        say(
            f"  {words}: {percentiles(took)}; processor time per request: web"
            f" {web / REQUESTS * 1e6:.0f} µs, broker {broker / REQUESTS * 1e6:.0f} µs"
        )


def _spent(platform: RunningPlatform) -> tuple[float, float]:
    def of(part: str) -> float:
        leader = platform.pid_of(part)
        return cpu_seconds([pid for pid in platform.processes() if os.getpgid(pid) == leader])

    return of("web"), of("valkey")


def _timed(caller: Caller) -> float:
    begun = time.perf_counter()
    caller("GET", ME)
    return time.perf_counter() - begun


PARTS: Final[Mapping[str, Callable[[RunningPlatform], None]]] = {
    "burst": burst,
    "pick": pick,
    "rates": rates,
}


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(prog="make bench-fairness", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    options = parser.parse_args()
    describe_machine("simulated nodes")
    for name, part in PARTS.items():
        if options.parts and name not in options.parts:
            continue
        with tempfile.TemporaryDirectory(prefix="bench-fairness-") as folder:
            Path(folder).chmod(0o755)
            platform = RunningPlatform(Path(folder), is_like_production=True)
            try:
                platform.start_all()
                platform.add_spec(SPEC, cpu="100m", memory="64Mi")
                say(f"{name}: {part.__doc__} [{load_words()}]")
                part(platform)
            finally:
                platform.stop_all()


if __name__ == "__main__":
    main()
