"""A parser for the commands in a shell block."""

import re
import shlex
from collections.abc import Iterator, Sequence

_COMMENT = re.compile(r"(^|\s)#.*$", re.MULTILINE)
_REDIRECTION = re.compile(r"^\d?[<>]")
_ENDS = {"&&", "||", "|", ";", "&", "(", ")", ";;"}
_KEYWORDS = {"until", "while", "if", "then", "do", "else", "done", "fi", "!", "{", "}"}
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")


def commands(text: str) -> Iterator[list[str]]:
    """Yield each command as a list of words, including commands in `$(…)`.

    Assignments and keywords before the name of the command are omitted.
    """
    for inner in re.findall(r"\$\(([^()]*)\)", text):
        yield from commands(inner)
    lexer = shlex.shlex(
        _COMMENT.sub("", text.replace("\\\n", " ")), posix=True, punctuation_chars=";&|()\n"
    )
    lexer.whitespace = " \t"
    lexer.commenters = ""  # Comments would include the end of the line.
    words: list[str] = []
    for word in lexer:
        if set(word) <= set(";&|()\n"):
            yield from _command(words)
            words = []
        else:
            words.append(word)
    yield from _command(words)


def words_after(command: Sequence[str], name: str) -> list[str] | None:
    """Return the words after `name` up to a redirection, or `None` if `name` is missing."""
    if name not in command:
        return None
    following = list(command[list(command).index(name) + 1 :])
    end = next((n for n, word in enumerate(following) if _REDIRECTION.match(word)), len(following))
    return following[:end]


def _command(words: list[str]) -> Iterator[list[str]]:
    while words and (words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if words:
        yield words
