"""The journal of `x9`: all changes of states in the database, and the contents of the queue."""

import threading
import time
from contextlib import closing
from typing import Final

from serverless.phases import FAILED_STATES, INVOCATION_TRANSITIONS, InvocationState
from serverless.queue.errors import QueueError
from serverless.queue.gateway import Queue
from serverless.queue.names import INVOCATIONS
from tests.acceptance.platform import RunningPlatform
from tests.benchmarks.bench import say

EMPTY_SECONDS: Final = 120.0
"""The message of a killed worker is delivered again after its acknowledgement timeout."""
_OPEN: Final = (
    """
    CREATE TABLE x9_journal (
        invocation_id text, was text, becomes text, is_same_answer bool, is_newer bool
    )
    """,
    """
    CREATE FUNCTION x9_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO x9_journal VALUES (
            NEW.invocation_id, OLD.state, NEW.state,
            NEW.result_body IS NOT DISTINCT FROM OLD.result_body
            AND NEW.completed_at IS NOT DISTINCT FROM OLD.completed_at,
            NEW.result_attempt > OLD.result_attempt
        );
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER x9_note AFTER UPDATE ON serverless_invocation FOR EACH ROW
    WHEN (
        NEW.invocation_id LIKE 'x9-%%'
        AND (OLD.state <> NEW.state OR OLD.completed_at IS NOT NULL)
    )
    EXECUTE FUNCTION x9_note()
    """,
)
_CLOSE: Final = ("DROP FUNCTION x9_note CASCADE", "DROP TABLE x9_journal")


class Journal:
    """A journal that a trigger writes between `open` and `close`."""

    def __init__(self, platform: RunningPlatform) -> None:
        self._platform = platform

    def open(self) -> None:
        """Create the trigger."""
        for statement in _OPEN:
            self._platform.sql(statement)

    def close(self) -> list[str]:
        """Drop the trigger; return the violations in the journal."""
        rows = self._platform.sql(
            "SELECT was, becomes, is_same_answer, is_newer, count(*), min(invocation_id)"
            " FROM x9_journal GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        )
        for statement in _CLOSE:
            self._platform.sql(statement)
        faults = []
        for was, becomes, is_same, is_newer, number, example in rows:
            say(f"  {was:12} → {becomes:12} {number:6}")
            is_change = was != becomes
            if is_newer and _may_replace(was, becomes):
                continue
            if is_change and becomes not in INVOCATION_TRANSITIONS[was]:
                faults.append(f"{number} went from {was} to {becomes}, such as {example}")
            if not is_change and not is_same:
                faults.append(f"{number} changed after the state {was}, such as {example}")
        return faults


def _may_replace(was: str, becomes: str) -> bool:
    """Return whether the end of a newer attempt can replace that end."""
    return was in FAILED_STATES or was == becomes == InvocationState.SUCCEEDED


def left_in_queue(platform: RunningPlatform) -> list[str]:
    """Wait until the queue is empty; return the remaining messages after a timeout.

    Duplicates are removed last.
    """
    until = time.monotonic() + EMPTY_SECONDS
    pause = threading.Event()
    with closing(platform.queue()) as queue:
        while left := _messages(queue):
            if time.monotonic() > until:
                return [f"{left} messages are still in the queue"]
            pause.wait(1)
    return []


def _messages(queue: Queue) -> int:
    try:
        return int(queue.call(lambda js: js.stream_info(INVOCATIONS)).state.messages)
    except QueueError:
        return -1
