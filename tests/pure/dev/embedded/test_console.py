import io

import pytest
from typing_extensions import override

from gpuplatform.dev.embedded.console import Console, LineBuffer, has_colour


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


def test_lines_start_with_the_name_of_their_process_in_one_column() -> None:
    stream = io.StringIO()
    console = Console(("web", "controller"), stream)

    console.line("web", "hello")
    console.line("controller", "there")
    console.note("stopping")

    assert stream.getvalue().splitlines() == [
        "web        | hello",
        "controller | there",
        "run        | stopping",
    ]


def test_no_color_without_a_terminal() -> None:
    assert not has_colour(io.StringIO(), {})


def test_color_on_a_terminal_unless_no_color_is_set() -> None:
    assert has_colour(Terminal(), {})
    assert not has_colour(Terminal(), {"NO_COLOR": "1"})


def test_processes_have_different_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    console = Console(("web", "beat"), stream)

    console.line("web", "x")
    console.line("beat", "x")

    web, beat = stream.getvalue().splitlines()
    assert web.startswith("\x1b[36mweb")
    assert beat.startswith("\x1b[32mbeat")


def test_a_closed_stream_is_silent() -> None:
    stream = io.StringIO()
    console = Console(("web",), stream)
    stream.close()

    console.line("web", "nobody reads this")


def test_output_is_split_into_lines() -> None:
    buffer = LineBuffer()

    assert buffer.feed(b"one\ntw") == ["one"]
    assert buffer.feed(b"o\r\n") == ["two"]
    assert buffer.feed(b"rest") == []
    assert buffer.flush() == ["rest"]
    assert buffer.flush() == []


def test_invalid_utf8_is_displayed() -> None:
    assert LineBuffer().feed(b"\xff\n") == ["�"]


def test_a_line_without_end_is_split() -> None:
    buffer = LineBuffer()

    (line,) = buffer.feed(b"x" * (LineBuffer.LIMIT + 1))

    assert len(line) == LineBuffer.LIMIT + 1
    assert buffer.flush() == []
