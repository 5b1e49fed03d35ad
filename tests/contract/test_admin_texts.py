"""Texts of the admin that no declaration renders, reviewed in tests/golden/admin.

`messages.txt` has the sentences of the code, with `{}` for each inserted value; `templates.txt`
has the text of the templates. tests/admin/test_texts.py checks `pages.txt`: the texts that the
pages render from their declarations.
"""

import ast
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from tests.conftest import GoldenFiles
from tests.contract.source_files import ROOT, name_of, parse

FOLDERS = (
    *("gpuplatform/adminkit", "gpuplatform/operations", "gpuplatform/tenancy"),
    *("gpuplatform/audit", "gpuplatform/usage"),
    *("inventory", "units/admin", "serverless/admin"),
)
MODULES = re.compile(r"(adminkit/.*|admin/\w+|admin\w*)\.py$")
_TAG = re.compile(r"<[^>]+>|\{[%#].*?[%#]\}|\{\{.*?\}\}", re.DOTALL)
_SHOWN_ATTRIBUTE = re.compile(r'(?:aria-label|title|placeholder|value)="([^"]*)"')
_TEXT = re.compile(r"[A-Za-z]{2,}[.,:]? [A-Za-z{]")


def test_the_sentences_of_the_code_are_as_reviewed(golden: GoldenFiles) -> None:
    files = sorted({path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")})
    modules = {name_of(path): _sentences(path) for path in files if MODULES.search(str(path))}

    golden("admin/messages.txt").check(_document(modules))


def test_the_texts_of_the_templates_are_as_reviewed(golden: GoldenFiles) -> None:
    files = sorted((ROOT / "templates").rglob("*.html"))

    golden("admin/templates.txt").check(_document({name_of(one): _texts(one) for one in files}))


def _document(found: dict[str, list[str]]) -> str:
    sections = [f"# {name}\n" + "\n".join(texts) for name, texts in found.items() if texts]
    return "\n\n".join(sections) + "\n"


def _sentences(path: Path) -> list[str]:
    """Return the human-readable strings of a module, each once and in order."""
    tree = parse(path)
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for text in _strings(tree, docstrings):
        shown = " ".join(_TAG.sub(" ", text).split())
        if _TEXT.search(shown) and not re.search(r"\(\?|\\|SELECT|^[a-z-]+=", shown):
            found.append(shown)
    return list(dict.fromkeys(found))


def _strings(node: ast.AST, skipped: set[int]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}"
                for part in child.values
            )
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            if id(child) not in skipped:
                yield child.value
        else:
            yield from _strings(child, skipped)


def _texts(path: Path) -> list[str]:
    """Return the text and the visible attributes of a template, each once and in order."""
    source = path.read_text()
    texts = [*_TAG.sub("\n", source).splitlines(), *_SHOWN_ATTRIBUTE.findall(source)]
    shown = [" ".join(unescape(_TAG.sub(" ", text)).split()) for text in texts]
    return [text for text in dict.fromkeys(shown) if re.search("[A-Za-z]{2}", text)]
