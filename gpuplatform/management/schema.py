"""What a migration records of a field: its schema, and not its texts.

The name of a field, its help text and the labels of its choices have no effect on the database.
Without this module each correction of such a text would need a migration.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from django.db.models import Field

_TEXTS: Final = frozenset({"choices", "help_text", "verbose_name"})

_deconstruct = Field.deconstruct


def deconstruct_schema(
    field: "Field[Any, Any]",
) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
    """Return the result of `Field.deconstruct` without the arguments that are only texts."""
    name, path, args, kwargs = _deconstruct(field)
    return name, path, args, {key: value for key, value in kwargs.items() if key not in _TEXTS}


@contextmanager
def texts_ignored() -> Iterator[None]:
    """Compare and record the fields of models by their schema inside the block."""
    Field.deconstruct = deconstruct_schema  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Field.deconstruct = _deconstruct  # type: ignore[method-assign]
