"""The rules of withheld stock: its text, and the number of its replacements. Pure."""

from collections.abc import Mapping

from gpuplatform.workloads.causes import NODE_CAUSES


def withheld_text(causes: Mapping[str, int]) -> str:
    """Return the sentence about withheld stock, which begins with a space, or an empty string.

    `causes` has the number of withheld stock units by the cause of their nodes.
    """
    if not causes:
        return ""
    number = sum(causes.values())
    what = "1 stock unit is" if number == 1 else f"{number} stock units are"
    titles = {cause: known.title for cause, known in NODE_CAUSES.items()}
    listed = ", ".join(
        f"{count} \u00d7 {titles.get(cause) or cause or 'unknown'}"
        for cause, count in sorted(causes.items(), key=lambda pair: (-pair[1], pair[0]))
    )
    return f" {what} withheld because of the nodes: {listed}."


def units_missing(target: int, held: int, withheld: int, room: int | None) -> int:
    """Return the number of stock units that a top-up creates.

    Withheld stock does not count as ready. It is replaced only as far as nodes can run
    further stock units now, and the number of all stock units never exceeds twice the target.

    Args:
        target: The warm target.
        held: The number of stock units that are neither claimed nor failed, including withheld.
        withheld: The number of withheld stock units among `held`.
        room: The number of stock units that the nodes would accept, or `None` if it is not known.
            Stock units that are starting without a node are part of it.
    """
    missing = target - (held - withheld)
    if missing <= 0:
        return 0
    replacing = min(missing, withheld)
    wanted = missing - replacing + min(replacing, max(room or 0, 0))
    return min(wanted, max(2 * target - held, 0))
