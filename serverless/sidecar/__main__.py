"""`python -m serverless.sidecar`: serves until SIGTERM, then finishes the started invocations."""

import asyncio
import logging
import os
import signal
import sys

from serverless.sidecar.function import Function
from serverless.sidecar.health import start_health
from serverless.sidecar.queue_client import QueueClient
from serverless.sidecar.settings import BadSettings, Settings
from serverless.sidecar.worker import AccessDenied, Worker

logger = logging.getLogger("serverless.sidecar")

BAD_SETTINGS = 2


async def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    queue, function = QueueClient(settings), Function(settings)
    worker = Worker(settings, queue, function)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def drain_and_stop() -> None:
        stop.set()
        worker.drain()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, drain_and_stop)
    health = await start_health(settings, worker)
    try:
        await worker.run()
        # After a drain by request, the process waits for the signal, which follows the request.
        await stop.wait()
    except AccessDenied as error:
        logger.error("the queue rejects the credentials: %s", error)  # noqa: TRY400 - a sentence is enough
        return 1
    finally:
        await queue.close()
        await function.close()
        await health.cleanup()
    return 0


def main() -> int:
    """Read the settings, serve, and return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        settings = Settings.from_environment(os.environ)
    except BadSettings as error:
        logger.error("%s", error)  # noqa: TRY400 - a sentence is enough
        return BAD_SETTINGS
    return asyncio.run(serve(settings))


if __name__ == "__main__":
    sys.exit(main())
