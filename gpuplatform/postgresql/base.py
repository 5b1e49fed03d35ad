"""The database backend, whose module Django loads by this name."""

from collections.abc import Callable
from typing import Any

from django.db.backends.postgresql import base
from psycopg import Connection, OperationalError
from psycopg_pool import ConnectionPool
from typing_extensions import override


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to PostgreSQL from a pool, if the options contain one."""

    # The stubs of Django do not contain them.
    _connection_pools: dict[str, ConnectionPool[Connection[Any]]]
    _configure_connection: Callable[[Connection[Any]], None]

    @property
    @override
    def pool(self) -> Any:
        options = self.settings_dict["OPTIONS"].get("pool")
        if options and self.alias not in self._connection_pools:
            # Threads that create the pool at the same time use the first one.
            self._connection_pools.setdefault(self.alias, self._new_pool(options))
        return super().pool

    def _new_pool(self, options: dict[str, Any]) -> ConnectionPool[Connection[Any]]:
        def check(connection: Connection[Any]) -> None:
            try:
                ConnectionPool.check_connection(connection)
            except OperationalError:
                # The other idle connections are probably broken as well.
                pool.drain()
                raise

        pool: ConnectionPool[Connection[Any]] = ConnectionPool(
            kwargs={**self.get_connection_params(), "autocommit": True},
            open=False,  # Django opens it when it is used.
            configure=self._configure_connection,
            check=check,
            **options,
        )
        return pool
