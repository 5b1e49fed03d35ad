"""Indexes for finding rows by any part of a text, such as the admin's search does.

Called by migrations only. A database that does not offer trigrams, or not to this user, goes
without: the search reads all rows then.
"""

from collections.abc import Mapping

from django.db import DatabaseError, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def add_search_indexes(
    editor: BaseDatabaseSchemaEditor, table: str, texts: Mapping[str, str]
) -> None:
    """Make an index of each text of a table; `texts` are SQL expressions by the indexes' names."""
    try:
        with transaction.atomic(using=editor.connection.alias):
            editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except DatabaseError:
        return
    for name, text in texts.items():
        # As Django asks, capitals aside.
        editor.execute(
            f"CREATE INDEX IF NOT EXISTS {name} ON {table} USING gin (UPPER({text}) gin_trgm_ops)"
        )


def drop_search_indexes(editor: BaseDatabaseSchemaEditor, texts: Mapping[str, str]) -> None:
    """Take the indexes away; the extension stays, since others may use it."""
    for name in texts:
        editor.execute(f"DROP INDEX IF EXISTS {name}")
