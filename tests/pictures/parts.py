"""Draws the processes of the platform in docs/pictures/parts.svg.

The image follows the color scheme of the reader, even in an `<img>`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final, Literal

Side = Literal["left", "right", "top", "bottom"]
WIDTH: Final = 1120
HEIGHT: Final = 520
ROW: Final = 46
GAP: Final = 14


@dataclass(frozen=True, slots=True)
class Box:
    """A box with the name, purpose and position of a part."""

    title: str
    text: str
    x: int
    y: int
    width: int = 180
    height: int = ROW
    kind: Literal["person", "process", "store", "cluster"] = "process"

    def at(self, side: Side, share: float = 0.5) -> tuple[float, float]:
        """Return the point at the fraction `share` of an edge."""
        match side:
            case "left":
                return self.x, self.y + self.height * share
            case "right":
                return self.x + self.width, self.y + self.height * share
            case "top":
                return self.x + self.width * share, self.y
            case _:
                return self.x + self.width * share, self.y + self.height


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from the caller to the called part."""

    start: tuple[str, Side, float]
    end: tuple[str, Side, float]
    label: str = ""
    lift: int = -6
    """Vertical offset of the label from the middle of the arrow."""


def _row(number: float) -> int:
    return int(112 + number * (ROW + GAP))


BOXES: Final[Mapping[str, Box]] = {
    "programs": Box("Programs", "HTTP API, tokens", 20, _row(0.5), 150, kind="person"),
    "operators": Box("Operators", "admin", 20, _row(1.5), 150, kind="person"),
    "kubectl": Box("kubectl", "custom resources", 940, 16, 160, kind="person"),
    "web": Box("web", "API, admin, Swagger", 236, _row(1), 150),
    "postgres": Box("PostgreSQL", "operations, mirror", 452, _row(1.5), 160, 106, "store"),
    "valkey": Box("Valkey", "messages (hints)", 452, _row(0), 160, kind="store"),
    "nats": Box("NATS", "invocations, results", 452, _row(4.5), 160, kind="store"),
    "operations": Box("operations", "executes operations", 686, _row(0)),
    "reconcile": Box("reconcile", "plan, apply, status", 686, _row(1)),
    "periodic": Box("beat, periodic", "sweeps, comparisons", 686, _row(2)),
    "controller": Box("controller", "watches, updates mirror", 686, _row(3)),
    "activator": Box("activator", "starts and stops workers", 686, _row(4)),
    "results": Box("results", "relays, stores results", 686, _row(5)),
    "cluster": Box("Kubernetes API", "desired, observed state", 940, _row(0), 160, 226, "cluster"),
    "nodes": Box("GPU nodes", "stock, units, workers", 940, _row(4.5), 160, 76, "cluster"),
}
ARROWS: Final = (
    Arrow(("programs", "right", 0.5), ("web", "left", 0.35)),
    Arrow(("operators", "right", 0.5), ("web", "left", 0.65)),
    Arrow(("web", "right", 0.7), ("postgres", "left", 0.3), "rows", 32),
    Arrow(("web", "right", 0.3), ("valkey", "left", 0.5), "hint", -24),
    Arrow(("valkey", "right", 0.3), ("operations", "left", 0.5)),
    Arrow(("valkey", "right", 0.5), ("reconcile", "left", 0.5)),
    Arrow(("valkey", "right", 0.7), ("periodic", "left", 0.5)),
    Arrow(("controller", "left", 0.5), ("postgres", "right", 0.8), "mirror", 30),
    Arrow(("operations", "right", 0.5), ("cluster", "left", 0.1), "resources"),
    Arrow(("reconcile", "right", 0.5), ("cluster", "left", 0.37), "status"),
    Arrow(("cluster", "left", 0.9), ("controller", "right", 0.5), "watch"),
    Arrow(("cluster", "bottom", 0.5), ("nodes", "top", 0.5)),
    Arrow(("activator", "left", 0.4), ("nats", "right", 0.3), "", 0),
    Arrow(("results", "left", 0.5), ("nats", "right", 0.7)),
    Arrow(("nodes", "bottom", 0.3), ("nats", "bottom", 0.5), "sidecar of a worker", 34),
    Arrow(("kubectl", "bottom", 0.5), ("cluster", "top", 0.5)),
)
_STYLE: Final = """
  svg { color-scheme: light dark; font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }
  .ground { fill: #ffffff; }
  .title { font-size: 14px; font-weight: 600; fill: #16202b; }
  .text, .label { font-size: 12px; fill: #4a5866; }
  .head { font-size: 12px; font-weight: 600; fill: #4a5866; }
  rect { rx: 8px; stroke-width: 1.25; }
  .person { fill: #f3f5f7; stroke: #9aa6b2; }
  .process { fill: #e8f1fd; stroke: #2f6fc9; }
  .store { fill: #eaf6ee; stroke: #2c8a52; }
  .cluster { fill: #f3edfc; stroke: #7a4cc2; }
  path { fill: none; stroke: #6b7885; stroke-width: 1.5; }
  marker path { fill: #6b7885; stroke: none; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0f151b; }
    .title { fill: #e8edf2; }
    .text, .label, .head { fill: #a9b6c2; }
    .person { fill: #1c242c; stroke: #5c6975; }
    .process { fill: #14263d; stroke: #5b96e6; }
    .store { fill: #12291c; stroke: #4fb377; }
    .cluster { fill: #241a38; stroke: #a27fe0; }
    path { stroke: #8896a3; }
    marker path { fill: #8896a3; }
  }
"""
_HEADS: Final = ((95, "clients"), (311, "web server"), (532, "stores"), (776, "processes"))
_ALT: Final = (
    "Programs and operators call the web process, which writes rows to PostgreSQL and sends hints"
    " through Valkey. Workers call the Kubernetes API, and the controller watches the cluster."
    " NATS transports invocations to function workers on GPU nodes."
)


def drawing() -> str:
    """Return the image as SVG."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(_ALT)}">'
    )
    yield f"<style>{_STYLE}</style>"
    yield '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
    yield '  markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    yield f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>'
    for x, text in _HEADS:
        yield f'<text class="head" x="{x}" y="92" text-anchor="middle">{text}</text>'
    for arrow in ARROWS:
        yield from _arrow(arrow)
    for box in BOXES.values():
        yield from _box(box)
    yield "</svg>"


def _box(box: Box) -> Iterator[str]:
    middle, x = box.y + box.height / 2, box.x + box.width / 2
    yield (
        f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" width="{box.width}"'
        f' height="{box.height}"/>'
    )
    for kind, text, y in (("title", box.title, middle - 4), ("text", box.text, middle + 14)):
        yield f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="middle">{text}</text>'


def _arrow(arrow: Arrow) -> Iterator[str]:
    (begin, side, share), (end, at, where) = arrow.start, arrow.end
    x, y = BOXES[begin].at(side, share)
    to_x, to_y = BOXES[end].at(at, where)
    bend = max(abs(to_x - x) / 2, 24.0)
    first, second = _pulled(x, y, side, bend), _pulled(to_x, to_y, at, bend)
    yield f'<path d="M{x:g} {y:g} C{first} {second} {to_x:g} {to_y:g}" marker-end="url(#tip)"/>'
    if arrow.label:
        middle_x, middle_y = (x + to_x) / 2, (y + to_y) / 2 + arrow.lift
        yield (
            f'<text class="label" x="{middle_x:g}" y="{middle_y:g}" text-anchor="middle">'
            f"{arrow.label}</text>"
        )


def _pulled(x: float, y: float, side: Side, bend: float) -> str:
    """Return the control point of a curve at an edge."""
    match side:
        case "left":
            return f"{x - bend:g} {y:g}"
        case "right":
            return f"{x + bend:g} {y:g}"
        case "top":
            return f"{x:g} {y - min(bend, 60):g}"
        case _:
            return f"{x:g} {y + min(bend, 60):g}"
