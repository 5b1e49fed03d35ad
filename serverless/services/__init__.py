"""The only writers of the rows of functions and invocations; import its modules.

Each call is one transaction without a network call. API, admin, operations, tasks and loops all
write through here.
"""
