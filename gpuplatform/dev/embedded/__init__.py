"""Embedded servers from wheels, and the runner that supervises all processes of the platform.

Used by `make run` and by the tests. Production sets `DATABASE_URL` and `REDIS_URL` instead.
No module of this package imports Django, so the runner starts quickly and uses little memory.
"""
