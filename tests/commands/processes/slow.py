"""The Celery application with a task of a given duration; for the test of the end."""

import threading
from pathlib import Path

from gpuplatform.celery import app

__all__ = ["app"]


@app.task(name="tests.wait")
def wait(path: str, seconds: float) -> None:
    """Write a line, wait, write a second line."""
    report = Path(path)
    report.write_text("begun\n")
    threading.Event().wait(seconds)
    report.write_text("begun, ended\n")
