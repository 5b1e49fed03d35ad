import pytest

from gpuplatform.dev.simulator.kubelet.scripts import Exit, Run, run_of


@pytest.mark.parametrize(
    ("command", "end"),
    [
        pytest.param([], None, id="nothing runs for ever"),
        pytest.param(["nginx", "-g"], None, id="an unknown program runs for ever"),
        pytest.param(["true"], Exit(0), id="true"),
        pytest.param(["/bin/false"], Exit(1), id="false with a path"),
        pytest.param(["exit", "3"], Exit(3), id="exit"),
        pytest.param(["exit", "9" * 5000], None, id="no exit code"),
        pytest.param(["sleep", "infinity"], None, id="sleep for ever"),
        pytest.param(["sleep", "2"], Exit(0, 2.0), id="sleep"),
        pytest.param(["sh", "-c", "exit 3"], Exit(3), id="a script"),
        pytest.param(["sh", "-c", "sleep 2; exit 3"], Exit(3, 2.0), id="a script that sleeps"),
        pytest.param(["sh", "-c", "echo hi && false"], Exit(1), id="the last word counts"),
        pytest.param(["sh", "-c", "exit 1; sleep 9"], Exit(1), id="exit ends a script"),
        pytest.param(["sh", "-c", "serve --port 80"], None, id="a script with a server"),
        pytest.param(["sh", "-c", "echo 'unclosed"], None, id="a script that is none"),
    ],
)
def test_a_command_determines_the_exit(command: list[str], end: Exit | None) -> None:
    assert run_of(command).exit == end


@pytest.mark.parametrize(
    ("script", "run"),
    [
        pytest.param("echo a  b; echo c", Run(Exit(0), "a b\nc\n", is_known=True), id="lines"),
        pytest.param("echo a >&2; false", Run(Exit(1), "a\n", is_known=True), id="errors"),
        pytest.param("echo a > /tmp/x", Run(Exit(0), is_known=True), id="a file"),
        pytest.param(
            "echo a > /dev/termination-log; exit 3",
            Run(Exit(3), "", "a\n", is_known=True),
            id="the termination log",
        ),
        pytest.param("echo a; exec sleep infinity", Run(None, "a\n", is_known=True), id="sleep"),
        pytest.param("echo a && serve", Run(None, "a\n"), id="an unknown program"),
    ],
)
def test_a_script_determines_the_output(script: str, run: Run) -> None:
    assert run_of(["sh", "-c", script]) == run
