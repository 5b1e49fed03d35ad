"""The error that stops the runner with a message and an exit code."""


class StartError(Exception):
    """The platform cannot start or continue. The message states the reason and the next step."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        """Exit the runner with `exit_code`."""
        super().__init__(message)
        self.exit_code = exit_code
