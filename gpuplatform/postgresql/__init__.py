"""PostgreSQL: the database backend of the web process, and row-level security.

The backend is Django's, with a pool that discards broken connections. The pool of psycopg pauses
after each broken connection that it finds. After a restart of the database server, all its
connections are broken, and requests would fail because of these pauses.
"""
