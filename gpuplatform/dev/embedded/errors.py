"""The one failure of the start: a sentence for the person at the terminal."""


class StartError(Exception):
    """The platform cannot start or go on; `str(error)` says why and what to do."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        """`exit_code` is what the runner ends with."""
        super().__init__(message)
        self.exit_code = exit_code
