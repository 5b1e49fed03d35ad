"""Describes what an expired invocation waited for. Pure."""


def wait_description(reason: str, cause: str, message: str) -> str:
    """Return the reason, the cause and the message of the function's phase as text.

    The arguments can be empty, because a new function has not been observed yet.
    """
    code = f"{reason} ({cause})" if cause else reason or "The function has not been observed yet"
    return f"{code}{f': {message}' if message else '.'}"
