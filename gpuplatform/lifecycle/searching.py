"""Trigram indexes for searches for any part of a text, for use in migrations.

A database without the trigram extension, or without the permission to create it, gets no index.
Searches then read all rows.
"""

from collections.abc import Mapping

from django.db import DatabaseError, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def add_search_indexes(
    editor: BaseDatabaseSchemaEditor, table: str, texts: Mapping[str, str]
) -> None:
    """Create an index for each text. `texts` contains SQL expressions by index name."""
    try:
        with transaction.atomic(using=editor.connection.alias):
            editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except DatabaseError:
        return
    for name, text in texts.items():
        # The expression that Django uses for `icontains`.
        editor.execute(
            f"CREATE INDEX IF NOT EXISTS {name} ON {table} USING gin (UPPER({text}) gin_trgm_ops)"
        )


def drop_search_indexes(editor: BaseDatabaseSchemaEditor, texts: Mapping[str, str]) -> None:
    """Drop the indexes. The extension is kept because other applications may use it."""
    for name in texts:
        editor.execute(f"DROP INDEX IF EXISTS {name}")
