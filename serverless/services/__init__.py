"""The only writers of the rows of functions and invocations. Import the modules.

Each call is one transaction without a network call. The API, the admin, operations, tasks and
loops write rows through these modules.
"""
