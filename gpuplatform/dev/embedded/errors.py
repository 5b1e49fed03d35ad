"""The error of a start that fails, with a message for the terminal."""


class StartError(Exception):
    """The platform cannot start or continue; the message has the reason and the next step."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        """`exit_code` is that of the runner."""
        super().__init__(message)
        self.exit_code = exit_code
