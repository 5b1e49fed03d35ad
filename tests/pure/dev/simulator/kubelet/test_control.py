import pytest

from gpuplatform.dev.simulator.kubelet.control import Control, NodeControl, parse_control


def test_no_control_object_changes_nothing() -> None:
    assert parse_control({}) == Control()


def test_a_control_object_is_parsed() -> None:
    text = """{"startDelaySeconds": 5, "holdTerminating": true,
                "nodes": {"gpu-node-1": {"failed": true, "gpus": 3},
                          "gpu-node-3": {"pressures": ["DiskPressure"]}}}"""

    control = parse_control({"data": {"control": text}})

    nodes = {
        "gpu-node-1": NodeControl(failed=True, gpus=3),
        "gpu-node-3": NodeControl(pressures=frozenset({"DiskPressure"})),
    }
    assert control == Control(5.0, hold_terminating=True, nodes=nodes)
    assert control.node("gpu-node-2") == NodeControl()


@pytest.mark.parametrize(
    "text",
    ["nonsense", "[]", '{"nodes": []}', '{"startdelay": 1}', '{"nodes": {"a": {"gpu": 1}}}'],
)
def test_an_invalid_control_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_control({"data": {"control": text}})
