"""The parts of the list and the page of nodes: squares, states, pods and sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from gpuplatform.adminkit.detail.panels import Panel, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.squares import GpuGroup, squares, swatch
from gpuplatform.adminkit.display.text import all_gpus_text, gpus_text, visible
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.adminkit.overview.capacity import USES
from gpuplatform.samples.capacity import ProductCapacity
from gpuplatform.workloads.causes import NODE_CAUSES, StartupCause
from gpuplatform.workloads.nodes import NodeState, PodRequirements, Taint, node_rejection
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import StockPool
from units.admin.detail import MODELS
from units.admin.drain_parts import drain_badge, drain_note, drain_panel
from units.core.capacity import backing_order
from units.node_capacity import NodeCapacity, PodOnNode, PodOwner
from units.phases import UnitRole

FREE, UNAVAILABLE = "free", "unavailable"
"""The uses of squares without a pod. Unavailable GPUs are not allocatable."""
_KINDS: Final[Mapping[UnitRole | None, str]] = {
    None: "Stock pool",
    UnitRole.STOCK: "Stock unit",
    UnitRole.ACTIVE: "GPU unit",
}
_BY_KUBERNETES: Final = "node.kubernetes.io/"
"""The prefix of taints that represent a state of the node."""


def node_badge(state: NodeState) -> SafeString:
    """Return the badge of a node."""
    if not state.is_present:
        return shape_badge(Shape.OFF, "Deleted")
    if not state.is_ready:
        return shape_badge(Shape.FAILED, "Not ready")
    if not state.is_schedulable:
        return shape_badge(Shape.WAITING, "Cordoned")
    if state.pressures:
        return shape_badge(Shape.WAITING, "Under pressure")
    return shape_badge(Shape.READY, "Ready")


def capacity_badge(node: NodeCapacity) -> SafeString:
    """Return the badge of a node, or of its drain if the node has no worse state."""
    state = node.record.state
    if node.drain is not None and state.is_present and state.is_ready:
        return drain_badge(node.drain)
    return node_badge(state)


def node_note(node: NodeCapacity) -> str:
    """Return further states, taints and shortages of a node, which its badge does not show."""
    state = node.record.state
    notes = [
        "cordoned" if state.is_present and not (state.is_ready or state.is_schedulable) else "",
        drain_note(node.drain) if node.drain else "",
        *state.pressures,
        *(str(taint) for taint in own_taints(state)),
        *(_excess_text(one) for one in node.resources),
        *(_unavailable_text(one) for one in node.resources),
    ]
    return visible(" · ".join(note for note in notes if note))


def own_taints(state: NodeState) -> list[Taint]:
    """Return the taints that do not represent a state of the node."""
    return [taint for taint in state.taints if not taint.key.startswith(_BY_KUBERNETES)]


def offered(node: NodeCapacity) -> list[ProductCapacity]:
    """Return the resources that a node has or that its pods hold, GPUs first."""
    shown = [one for one in node.resources if one.total or one.excess]
    return sorted(shown, key=lambda one: (one.resource_name != GPU_RESOURCE, one.resource_name))


def node_squares(node: NodeCapacity, resource: ProductCapacity, *, links: bool) -> SafeString:
    """Return the units of a resource of a node as squares, with links to their holders."""
    groups = list(_groups(node, resource, links=links))
    text = f"{gpus_text(resource.total, resource.resource_name)}: {use_text(resource)}"
    return squares(groups, text)


def all_squares(node: NodeCapacity) -> SafeString:
    """Return the squares of all resources of a node for a list."""
    shown = offered(node)
    lines = ((_short(one), node_squares(node, one, links=False)) for one in shown)
    if [one.resource_name for one in shown] == [GPU_RESOURCE]:
        return node_squares(node, shown[0], links=False)
    return format_html_join("", '<span class="line"><small>{}</small>{}</span>', lines)


def use_text(resource: ProductCapacity) -> str:
    """Return the numbers of a resource by use, such as `3 in units, 5 free`."""
    numbers = {**resource.gpus, FREE: resource.free}
    parts = [f"{numbers[use]} {label}" for use, label in USES.items() if numbers.get(use)]
    return ", ".join([*parts, _unavailable_text(resource), _excess_text(resource)]).strip(", ")


def node_legend(resource: ProductCapacity) -> SafeString:
    """Return the numbers of a resource by use, with the colors of the squares."""
    numbers = {**resource.gpus, FREE: resource.free}
    parts = [(use, f"{numbers[use]} {label}") for use, label in USES.items() if numbers.get(use)]
    if unavailable := _unavailable_text(resource):
        parts.append((UNAVAILABLE, unavailable))
    return format_html_join(" ", "{}", ((swatch(use, text),) for use, text in parts))


def free_text(resource: ProductCapacity) -> str:
    """Return the number of free units of a resource, of all allocatable ones."""
    return f"{resource.free} of {resource.allocatable}"


def pod_lines(node: NodeCapacity) -> Iterator[RelatedRow]:
    """Yield the pods that hold resources of a node, in the order of the squares."""
    for pod in sorted(node.pods, key=_order):
        owner, holder = pod.owner, pod.holder
        parts = [
            " and ".join(gpus_text(number, name) for name, number in holder.gpus.items()),
            f"tenant {owner.tenant}" if owner and owner.tenant else "",
            f"GPU spec {holder.spec_name}" if owner and holder.spec_name else "",
            f"pod {holder.namespace}/{holder.name}" if owner else "",
        ]
        yield RelatedRow(
            badge=swatch(pod.use, USES.get(pod.use, pod.use)),
            name=visible(owner.name if owner else f"{holder.namespace}/{holder.name}"),
            url=_url(owner),
            text=visible(" · ".join(part for part in parts if part)),
            since=SafeString(""),
        )


def node_panel(node: NodeCapacity) -> Panel | None:
    """Return the state of the drain, the reason why a node takes no pods, or missing GPUs."""
    state = node.record.state
    if node.drain is not None and (state.is_ready or not state.is_present):
        return drain_panel(node.drain)
    rejection = node_rejection(state, PodRequirements(), {})
    cause = rejection.cause if rejection else ""
    if cause in {"", StartupCause.NODE_TAINTED}:  # GPU specs tolerate the taints of GPU nodes.
        if not any(one.excess for one in node.resources):
            return None
        cause = StartupCause.GPUS_MISSING
    explanation = NODE_CAUSES[cause]
    closed = [(one.resource_name, one.free_unschedulable) for one in node.resources]
    lines = [
        explanation.meaning,
        *(f"{_excess_text(one)}." for one in node.resources if one.excess),
        f"Reported: {', '.join(state.pressures)}." if state.pressures else "",
        f"Free, but not usable: {all_gpus_text(closed)}." if any(n for _, n in closed) else "",
    ]
    failed = cause in {StartupCause.NODE_NOT_READY, StartupCause.GPUS_MISSING}
    return Panel(
        shape=Shape.FAILED if failed else Shape.WAITING,
        title=explanation.title,
        text=visible(" ".join(line for line in lines if line)),
        since=age_html(node.row.changed_at),
        next_step=explanation.next_step,
    )


def _groups(node: NodeCapacity, resource: ProductCapacity, *, links: bool) -> Iterator[GpuGroup]:
    name, left = resource.resource_name, resource.allocatable
    for pod in sorted(node.pods, key=_order):
        number = pod.holder.gpus.get(name, 0)
        backed = min(number, left)
        left -= backed
        url, title = _url(pod.owner) if links else "", pod_title(pod)
        yield GpuGroup(pod.use, backed, title, url)
        yield GpuGroup(pod.use, number - backed, f"{title}, missing", url, is_missing=True)
    closed = ", not usable" if resource.free_unschedulable else ""
    yield GpuGroup(FREE, left, f"{left} free{closed}")
    unavailable = resource.total - resource.allocatable
    yield GpuGroup(UNAVAILABLE, unavailable, _unavailable_text(resource))


def pod_title(pod: PodOnNode) -> str:
    """Return the owner of a pod, its tenant and the use of its GPUs."""
    owner, use = pod.owner, USES.get(pod.use, pod.use)
    if owner is None:
        return visible(f"Pod {pod.holder.namespace}/{pod.holder.name}, {use}")
    tenant = f" of tenant {owner.tenant}" if owner.tenant else ""
    return visible(f"{_KINDS[owner.role]} {owner.name}{tenant}, {use}")


def _order(pod: PodOnNode) -> tuple[bool, str, str, str]:
    return *backing_order(pod.use), pod.holder.namespace, pod.holder.name


def _url(owner: PodOwner | None) -> str:
    if owner is None:
        return ""
    model = StockPool if owner.role is None else MODELS[owner.role]
    return page_url(model(pk=owner.row_id))


def _excess_text(resource: ProductCapacity) -> str:
    if not resource.excess:
        return ""
    return f"{gpus_text(resource.excess, resource.resource_name)} missing"


def _unavailable_text(resource: ProductCapacity) -> str:
    number = resource.total - resource.allocatable
    return f"{gpus_text(number, resource.resource_name)} not allocatable" if number > 0 else ""


def _short(resource: ProductCapacity) -> str:
    name = resource.resource_name
    return "GPUs" if name == GPU_RESOURCE else visible(name.rpartition("/")[2])


def sums(nodes: Sequence[NodeCapacity], use: str) -> list[tuple[str, int]]:
    """Return the numbers of a use on nodes by resource; `FREE` counts GPUs without a pod."""
    return [
        (one.resource_name, one.free if use == FREE else one.gpus.get(use, 0))
        for node in nodes
        for one in node.resources
    ]
