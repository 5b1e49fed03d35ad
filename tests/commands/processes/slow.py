"""The Celery application with a task that takes as long as it is told; for the test of the end."""

import threading
from pathlib import Path

from gpuplatform.celery import app

__all__ = ["app"]


@app.task(name="tests.wait")
def wait(path: str, seconds: float) -> None:
    """Write that it runs, wait, write that it has ended."""
    told = Path(path)
    told.write_text("begun\n")
    threading.Event().wait(seconds)
    told.write_text("begun, ended\n")
