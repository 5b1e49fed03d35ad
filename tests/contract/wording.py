"""Texts of the project and the phrases that they avoid (docs/glossary.md).

`python -m tests.contract.wording [PATH …]` lists the findings below the paths, one per line.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.contract.source_files import ROOT, is_test, name_of, python_files, text_files

BANNED: Final = {
    r"so many|so long as that|for so long|that many": "name the number: 'the number of', 'exactly N'",
    r"\b(whoever|(?<!`)nobody(?!`)|somebody|anybody|everybody|no one)\b": "name the subject: the caller, the user, a process",
    r"\b(goes|go|going|went|gone) on\b": "continue",
    r"\bby (itself|themselves|himself)\b": "automatically",
    r"\bat once\b": "immediately, or at the same time",
    r"\bbeside\b": "next to, in addition to, with",
    r"\bof (its|their|one's|his|our|your) own\b|\bof ours\b": "its own X, dedicated, custom",
    r"\bmade anew\b|\banew\b": "again, recreated",
    r"\bput(s)? (right|up with|out)\b|\bput(s)? in order\b": "repair, tolerate, evict",
    r"\btak(e|es|en|ing) (back|away|over|up again)\b|\btook (back|over|away)\b": "revoke, delete, claim, adopt",
    r"\b(give|gives|given|gave|giving) (up|back)\b": "release, return",
    r"\bset(s)? aside\b": "reserve, claim",
    r"\b(is|are|was|were|be) (told|said)\b|\b(tells|says|said|told) (that|what|why|whether|so|of|how)\b": "report, state, show",
    r"\b(no|any|is|are) news\b|\bfarewell\b|\bsign(s)? of life\b|\bin the way\b|\bin its way\b": "change, deletion event, heartbeat, conflicting",
    r"\bwhat (is|was|has|are|were|had) [a-z]+ed\b": "name the thing: 'the desired …', 'the observed …'",
    r"\bever (more|less) (often|seldom)\b|\bmore seldom\b": "with increasing delays",
    r"\bis ((?-i:none)|no such)\b|\b(is|are) no (?!longer)[a-z]+\b": "is not a X, has no X, does not exist",
    r"\bfit to be\b|\bto be (had|told|said|seen)\b": "available, visible",
    r"\bmeanwhile\b": "concurrently, in the meantime",
    r"\b(look|looks|looking) after\b": "maintain",
    r"\b(lies|lie) (in|on|below|at)\b": "is in, is stored in",
    r"\b(stands|stand) (in|on|for|at|above|below)\b": "is in, represents",
    r"\bgoes by\b|\bgo by\b": "uses, depends on",
    r"\bcome(s)? to nothing\b|\bcame to nothing\b|\bin vain\b": "fail, has no effect",
    r"\bto the eye\b|\bover a shoulder\b": "in the display",
    r"\bnumber(s)? of (its|the|a|those|their) (row|rows)\b": "id",
    r"\bwords? of (the|its|our|Kubernetes)\b|\bcluster's (own )?words\b|\bin words\b": "message of",
    r"\bdoes not (tell|say)\b|\bSay whether\b|\bsays? no more\b": "does not report; 'Return whether'",
    r"\b(is|are) (well|not well|unwell)\b": "healthy, unhealthy",
    r"\bplayed (node|nodes|pod|pods|kubelet|container)s?\b|\bplays (nodes|a node|pods)\b": "simulated",
    r"\b(tries|tried) in vain\b|\bof late\b|\bas yet\b": "failed attempts, recently",
    r"\bmay be lost\b.*\beye\b": "best effort",
    r"\bbelongs? into\b": "belongs in",
    r"\bneither\.$": "either",
    r"(?<!connection )\brefus(e|es|ed|ing|als?)\b(?!:)": "reject, rejection",
    r"\banswer(s|ed|ing)?\b": "respond, response, handle, return",
    r"(?<!/)\brights\b(?!\.py)": "permissions",
    r"(?<!`)\bfaults?\b(?! (injection|proxy))": "error, failure",
    r"\bfor (people|humans)\b": "human-readable",
    r"\bin place of\b": "instead of",
    r"(?-i:\bgone\b)": "deleted, no longer exists, not found",
    r"\b(stay|stays|stayed)\b": "remains, is unchanged",
    r"\banymore\b|\bany more\b": "no longer",
    r"\b(in|at|each|every|one|per|next|this) pass\b": "process, reconciliation, time",
    r"\bhow many\b": "the number of",
    r"\b(return|returns|yield|yields) (what|how|why|who|where)\b": "name the thing: 'the reason …', 'the number of …'",
    r"\b(that|those) of\b": "repeat the noun",
    r"\bNone for (none|any|one)\b|; (`?None`?|empty) (for|if|when|without)\b": "a sentence: 'Returns `None` if …'",
    r"Error: \d{3}[,;]": "Raises: 'ApiError: 400 `code` if …'",
    r"\b(just|exactly) when\b": "if and only if",
    r"\bcounts? to (a|the|no|its)\b": "count toward",
    r", also (if|when|with|without|while|of|those)\b": "even if, including",
    r"\bfor ever\b|\ball the same\b": "indefinitely, permanently",
    r"\blast in line\b|\bgives? way\b|\bline of defense\b": "served last, is stopped for, an additional check",
    r"\bof (yours|mine)\b": "one of your X",
    r"\b(stops|starts|restarts|rejects|plans|leaves|holds|sees) nothing\b": "does not stop anything",
    r"\bprevents that\b": "prevents X from",
    r"\bforgets? the\b|\bhas got\b|\bsame holds\b": "delete, has, the same applies",
    r"\bended well\b|\bvanish(es|ed)?\b|\bthe life of\b": "succeeded, is deleted, the life cycle of",
    r"\bpeople\b": "users",
    r"\b(would|not|longer) takes? (the|a|its) (pod|unit)\b": "accept",
}
"""Patterns and their replacements, in any letter case. A finding is a place to review."""

_SKIPPED_FILES: Final = {"docs/glossary.md", "tests/contract/wording.py", "LICENSE"}
_TEXT_SUFFIXES: Final = {".md", ".html", ".yaml", ".yml", ".in", ".toml"}
_PATTERN: Final = re.compile("|".join(f"({pattern})" for pattern in BANNED), re.IGNORECASE)


def findings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the phrase of each finding in one file."""
    for line, text in _texts(path):
        for match in _PATTERN.finditer(" ".join(text.split())):
            yield line, match[0]


def sources() -> Iterator[Path]:
    """Yield every file with text for readers, except tests."""
    found = {path for path in python_files() if not is_test(path)}
    found |= {path for path in text_files() if path.suffix in _TEXT_SUFFIXES and not is_test(path)}
    yield from sorted(path for path in found if name_of(path) not in _SKIPPED_FILES)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield strings and comments of Python, paragraphs of other files, by first line."""
    text = path.read_text()
    if path.suffix == ".py":
        yield from _strings(text)
        yield from _comments(text)
    elif path.suffix == ".html":  # Tags of the template language are code.
        yield from _paragraphs(re.sub(r"\{%.*?%\}", "", text))
    else:
        yield from _paragraphs(text)


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    start = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        yield start, paragraph
        start += paragraph.count("\n")


def _strings(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        # A string without a space is an identifier, such as the name of a system account.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield each block of comments on consecutive lines as one text."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != last + 1:
            yield first, " ".join(block)
            block = []
        first = first if block else token.start[0]
        last = token.start[0]
        block.append(token.string.lstrip("# "))
    if block:
        yield first, " ".join(block)


def main(wanted: list[str]) -> int:
    """Print the findings below the given paths, and their number."""
    roots = [(ROOT / one).resolve() for one in wanted] or [ROOT]
    count = 0
    for path in sources():
        if any(path == root or root in path.parents for root in roots):
            for line, phrase in findings(path):
                print(f"{name_of(path)}:{line}: {phrase}")
                count += 1
    print(f"{count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
