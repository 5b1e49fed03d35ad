"""`python -m serverless.sidecar`: works until SIGTERM, then ends what it has begun."""

import asyncio
import logging
import os
import signal
import sys

from serverless.sidecar.connection import Connection
from serverless.sidecar.function import Function
from serverless.sidecar.health import start_health
from serverless.sidecar.settings import BadSettings, Settings
from serverless.sidecar.worker import Rejected, Worker

logger = logging.getLogger("serverless.sidecar")

BAD_SETTINGS = 2


async def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    connection, function = Connection(settings), Function(settings.address)
    worker = Worker(settings, connection, function)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _tell, worker, told)
    health = await start_health(settings, worker)
    try:
        await worker.run()
        # Drained by a request, it stays: the one who asked sends the signal next.
        await told.wait()
    except Rejected as error:
        logger.error("the queue does not let this worker in: %s", error)  # noqa: TRY400 - a sentence is enough
        return 1
    finally:
        await connection.close()
        await function.close()
        await health.cleanup()
    return 0


def _tell(worker: Worker, told: asyncio.Event) -> None:
    told.set()
    worker.drain()


def main() -> int:
    """Read the settings and serve."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        settings = Settings.from_environment(os.environ)
    except BadSettings as error:
        logger.error("%s", error)  # noqa: TRY400 - a sentence is enough
        return BAD_SETTINGS
    return asyncio.run(serve(settings))


if __name__ == "__main__":
    sys.exit(main())
