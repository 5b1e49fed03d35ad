"""Generated specs: valid ones, unusual ones, and ones with a single invalid value.

A seeded generator makes every run try the same specs. The rules of the platform decide which
specs are accepted.
"""

import random
import string
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

LETTERS: Final = string.ascii_lowercase
WORD: Final = LETTERS + string.digits
LABEL: Final = string.ascii_letters + string.digits
ODD_TEXTS: Final[Sequence[str]] = (
    *(
        "",
        " ",
        "-",
        ".",
        "..",
        "...a",
        "a-",
        "-a",
        "a--b",
        "a..b",
        "A",
        "ä",
        "a b",
        "a_b",
        "1",
        "0",
    ),
    *(
        "a/b",
        "a:b",
        "\t",
        "a\n",
        "\u202e",
        "x" * 63,
        "x" * 64,
        "x" * 253,
        "x" * 300,
        "$(HOME)",
        "9a",
    ),
    *("\x1b[31m", "\x01", "\x7f", "\x85", "\u2028", "\ufffe", "\uffff", "a$$b$(C)"),
    *("a.b", "a" * 15, "a" * 16, "123", "http-", "http2", "xn--a", "null", "true", "~"),
)
IMAGES: Final[Sequence[str]] = (
    *("busybox", "busybox:1.36", "library/busybox:latest", "registry.example.com/a/b:1"),
    *("localhost:5000/a", "[::1]:5000/a:1", "a.b/c__d:1", "a/b-c.d_e:T.a-g_1", "quay.io/a/b"),
    "registry.example.com/a@sha256:" + "0a" * 32,
    "registry.example.com/a:1@sha256:" + "ff" * 32,
)
ODD_IMAGES: Final[Sequence[str]] = (
    *(
        "",
        " ",
        "A",
        "a:",
        "a@",
        "a:b:c",
        "a//b",
        "/a",
        "a/",
        "http://a/b",
        "a:" + "t" * 129,
        "a b",
    ),
    *("a@sha256:12", "-a", "a-", "a:-b", "x" * 300, "a:1 ", "UPPER/case:1"),
)
AMOUNTS: Final = ("1", "7", "128", "1000", "1024", "1.5", "0.5", "3.", ".25", "+2", "12e3", "1E2")
UNITS: Final = ("", "", "Ki", "Mi", "Gi", "Ti", "k", "M", "G", "m", "u", "n")
ODD_QUANTITIES: Final = (
    *(
        "",
        "0",
        "-1",
        "1 Gi",
        "1gi",
        "1GB",
        "1e",
        "1e999999",
        "e3",
        "Ki",
        ".",
        "--1",
        "1Gi ",
        "NaN",
    ),
    *("99999999999999999999", "1Ei", "9Ei", "0.0001", "1n", "1.1n", "1m", "1,5", "0x10", "\u0661"),
)
ENV_NAMES: Final = ("MODEL", "a", "_", "a.b", "a-b", "-a", ".a", "A1", "x" * 64)
SECRETS: Final = ("hf", "a.b-c.9", "0", "x" * 63, ".".join(["y" * 63] * 3), "fn-queue")
SECRET_KEYS: Final = ("token", "A_b-c.9", ".netrc", "-", "a..b", "k" * 253)
FIELD_PATHS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName"),
    *("spec.serviceAccountName", "status.hostIP", "status.podIP", "status.podIPs"),
    *("metadata.labels['a.b/C_d']", "metadata.annotations['a']", "metadata.labels['x']"),
)
ENV_PREFIXES: Final = ("HF_", "a", "_", "A.b-", "x" * 64)
PATHS: Final = ("/scratch", "/a/b.c/_d-e", "/data", "/mnt/" + "x" * 200)
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
RESOURCES: Final = (
    *("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu", "rdma/hca", "a.b/C_d.e"),
    f"{'a.' * 121}aa/{'x' * 63}",
)
KEYS: Final = ("a", "example.com/a", "nvidia.com/gpu.product", "a.b/c_d", "A", "kubernetes.io/os")


class Specs:
    """Generates specs from one seeded random stream."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def name(self) -> str:
        """Return a name of a resource, usually valid."""
        return self._random.choice(
            (self._text(WORD, 1, 58), f"{self._text(LETTERS, 1, 20)}-{self._text(WORD, 1, 20)}")
        )

    def odd_name(self) -> str:
        """Return a name that can be invalid."""
        return self._random.choice((*ODD_TEXTS, self._text(WORD, 55, 70)))

    def pool(self) -> dict[str, Any]:
        """Return the spec of a pool."""
        replicas = self._random.choice((0, 1, 3, 10_000))
        placement = self._maybe("placement", self._placement)
        return {**self._common(), "replicas": replicas, **placement}

    def unit(self) -> dict[str, Any]:
        """Return the spec of a unit."""
        spec = {**self._common(), **self._maybe("cpu", self._quantity)}
        ports = spec.get("template", {}).get("ports") or []
        access = self._maybe("scheme", lambda: self._one(("http", "https")))
        if ports:
            access |= self._maybe("primaryPort", lambda: self._one(ports)["name"])
        return {**spec, "access": access, **self._maybe("placement", self._placement)}

    def with_one_thing_changed(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a copy with a single value replaced by an unusual one."""
        places = _places(spec, ())
        changed: dict[str, Any] = _replaced(spec, self._one(places), self._odd)
        return changed

    def _common(self) -> dict[str, Any]:
        return {
            "specName": self._text(WORD, 1, 1) + self._maybe_text(LABEL + "-_.", LABEL),
            **self._maybe("image", lambda: self._one(IMAGES)),
            **self._maybe("memory", self._quantity),
            **self._maybe("gpu", lambda: self._one((0, 1, 2, 8, 1000, 1024))),
            **self._maybe("resourceName", lambda: self._one(RESOURCES)),
            **self._maybe("resources", self._resources),
            **self._maybe("template", self._template),
        }

    def _resources(self) -> dict[str, str]:
        names = self._random.sample(RESOURCES, self._random.randint(0, len(RESOURCES)))
        return {name: self._one(("1", "4000", "1Ki", "2M")) for name in names}

    def _template(self) -> dict[str, Any]:
        return {
            **self._maybe("command", lambda: self._texts(1)),
            **self._maybe("args", lambda: self._texts(0)),
            **self._maybe("envs", self._envs),
            **self._maybe("envFrom", self._env_from),
            **self._maybe("ports", self._ports),
            **self._maybe("imagePullSecrets", lambda: [{"name": self._one(SECRETS)}]),
            **self._maybe("shmSize", self._quantity),
            **self._maybe("ephemeralStorage", self._quantity),
            **self._maybe("scratch", self._scratch),
            **self._maybe("workingDir", lambda: self._one(PATHS)),
            **self._maybe("annotations", lambda: {self._one(KEYS): self._value()}),
            **self._maybe("terminationGracePeriodSeconds", lambda: self._one((1, 30, 3600))),
            **self._maybe("securityContext", self._security_context),
            **self._maybe("readiness", self._probe),
            **self._maybe("startup", self._probe),
            **self._maybe("liveness", self._probe),
        }

    def _security_context(self) -> dict[str, Any]:
        ids = ("runAsUser", "runAsGroup", "fsGroup")
        chosen = {name: self._one((0, 1000, 2**31 - 1)) for name in ids if self._one((0, 1))}
        return {**chosen, **self._maybe("readOnlyRoot", lambda: self._one((True, False)))}

    def _probe(self) -> dict[str, Any]:
        port = self._one((1, 8000, 65535))
        handlers = (
            {"httpGet": {"port": port, **self._maybe("path", lambda: "/health?a=%20")}},
            {"httpGet": {"port": port, "scheme": "HTTPS"}},
            {"tcpSocket": {"port": port}},
            {"exec": {"command": ["sh", "-c", self._value()]}},
            {"none": True},
        )
        return {**self._one(handlers), **self._maybe("seconds", lambda: self._one((1, 7, 86400)))}

    def _scratch(self) -> dict[str, Any]:
        return {"size": self._quantity(), **self._maybe("mountPath", lambda: self._one(PATHS))}

    def _envs(self) -> list[dict[str, Any]]:
        names = self._random.sample(ENV_NAMES, self._random.randint(0, len(ENV_NAMES)))
        return [{"name": name, **self._env_value()} for name in names]

    def _env_value(self) -> dict[str, Any]:
        if self._random.random() < 0.6:
            return self._maybe("value", self._value)
        reference = {"name": self._one(SECRETS), "key": self._one(SECRET_KEYS)}
        # In addition to a value, which may be rejected.
        beside = self._maybe("value", self._value) if self._one((0, 0, 0, 0, 1)) else {}
        further = {"optional": self._one((True, False))} if self._one((0, 1)) else {}
        sources = (
            {"secretKeyRef": {**reference, **further}},
            {"configMapKeyRef": {**reference, **further}},
            {"fieldRef": {"fieldPath": self._one(FIELD_PATHS)}},
        )
        return {**beside, "valueFrom": self._one(sources)}

    def _env_from(self) -> list[dict[str, Any]]:
        kinds = ("secretRef", "configMapRef")
        return [
            {
                **self._maybe("prefix", lambda: self._one(ENV_PREFIXES)),
                self._one(kinds): {"name": self._one(SECRETS), **self._maybe("optional", bool)},
            }
            for _ in range(self._random.randint(0, 3))
        ]

    def _ports(self) -> list[dict[str, Any]]:
        ports = []
        for _ in range(self._random.randint(0, 5)):
            name = self._text(LETTERS, 1, 1) + self._text(WORD, 0, 14)
            number = self._one((1, 80, 443, 8080, 65535, self._random.randint(1, 65535)))
            protocol = self._maybe("protocol", lambda: self._one(PROTOCOLS))
            ports.append({"name": name, "port": number, **protocol})
        return ports

    def _placement(self) -> dict[str, Any]:
        selector = {self._one(KEYS): self._maybe_text(LABEL, LABEL) for _ in range(2)}
        equal = {"key": self._one(KEYS), "operator": "Equal", "value": self._text(LABEL, 1, 9)}
        exists = {"key": self._one(KEYS), "operator": "Exists"}
        effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
        tolerations: list[dict[str, Any]] = [
            {**self._one((equal, exists)), **self._maybe("effect", lambda: self._one(effects))},
            {
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": self._one((0, 300)),
            },
        ]
        return {
            **self._maybe("nodeSelector", lambda: selector),
            **self._maybe("tolerations", lambda: tolerations),
        }

    def _quantity(self) -> str:
        return self._one(AMOUNTS) + self._one(UNITS)

    def _texts(self, least: int) -> list[str]:
        return [self._value() or "x" for _ in range(self._random.randint(least, 4))]

    def _value(self) -> str:
        return self._one((*ODD_TEXTS, "{}", '{"a": "b"}', "$$(A)", "é" * 100, "y" * 4096))

    def _odd(self, present: object) -> object:
        if isinstance(present, bool):
            return not present
        if isinstance(present, int):
            return self._one((-1, 0, 1, 65536, 2**31, 2**63, "1", 1.5, None))
        others: tuple[object, ...] = ("x" * 40_000, 1, None, [])
        return self._one((*ODD_TEXTS, *ODD_QUANTITIES, *ODD_IMAGES, *others))

    def _maybe(self, key: str, make: Callable[[], Any]) -> dict[str, Any]:
        return {key: make()} if self._random.random() < 0.6 else {}

    def _maybe_text(self, middle: str, end: str) -> str:
        return self._text(middle, 0, 61) + self._text(end, 1, 1) if self._one((0, 1)) else ""

    def _text(self, letters: str, least: int, most: int) -> str:
        return "".join(self._random.choices(letters, k=self._random.randint(least, most)))

    def _one(self, values: Sequence[T]) -> T:
        return self._random.choice(values)


def _places(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return the paths of all values that hold no others."""
    if isinstance(value, dict):
        return [place for key, one in value.items() for place in _places(one, (*path, key))]
    if isinstance(value, list):
        return [place for key, one in enumerate(value) for place in _places(one, (*path, key))]
    return [path]


def _replaced(value: Any, path: tuple[Any, ...], make: Callable[[Any], Any]) -> Any:
    if not path:
        return make(value)
    key, *rest = path
    if isinstance(value, dict):
        return {k: _replaced(v, tuple(rest), make) if k == key else v for k, v in value.items()}
    return [_replaced(v, tuple(rest), make) if k == key else v for k, v in enumerate(value)]
