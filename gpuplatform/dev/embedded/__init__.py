"""The one-command start: servers from wheels, and a supervisor for the platform's processes.

Used by `make run` and by the tests; production sets `DATABASE_URL` and `REDIS_URL` instead.
Nothing here imports Django, so that the runner starts quickly and stays small.
"""
