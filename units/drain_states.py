"""The states of the drain of a node."""

from gpuplatform.lifecycle.explanations import ExplainedReason, Explanation, explanations


class DrainState(ExplainedReason):
    """The states of the drain of a node, which the node and what is left on it determine."""

    CORDONING = (
        "Cordoning",
        Explanation(
            "The drain is accepted, and the node is not cordoned yet.",
            "Wait. If the state remains, check the operation of the drain.",
        ),
    )
    MOVING_STOCK = (
        "MovingStock",
        Explanation(
            "Stock units on the node are being removed. Other nodes replace them.",
            "Wait. Stock that an operation has claimed leaves when the operation ends.",
        ),
    )
    NOTICE_GIVEN = (
        "NoticeGiven",
        Explanation(
            "The owners of the units have received a notice. The units are stopped when it"
            " expires.",
            "Wait, or cancel the drain to keep the units.",
        ),
    )
    WAITING_FOR_UNITS = (
        "WaitingForUnits",
        Explanation(
            "Only units are left on the node, and the drain does not stop them.",
            "Wait until their owners stop them, or drain the node again with a notice.",
        ),
    )
    STOPPING_UNITS = (
        "StoppingUnits",
        Explanation(
            "The notice has expired, and the units on the node are being stopped.",
            "Wait. If a unit remains, check its operations and its pods.",
        ),
    )
    NODE_MISSING = (
        "NodeMissing",
        Explanation(
            "The node does not exist, but pods are bound to it, so that nothing is changed.",
            "Wait. The drain ends with the last pod, and continues if the node returns cordoned.",
        ),
    )
    DRAINED = (
        "Drained",
        Explanation(
            "No unit is left on the node, which remains cordoned.",
            "Maintain the node. Uncordon it afterwards, which ends the drain.",
            is_well=True,
        ),
    )


DRAIN_STATES = explanations(DrainState)
"""The explanation and the next step of each state."""
