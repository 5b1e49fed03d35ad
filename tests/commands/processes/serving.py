"""A process that forks copies, each of which counts; for the test of /metrics."""

import os
import sys

import django


def main() -> None:
    """Count in the copies, serve from the copies, end at the end of the input."""
    copies, each = int(sys.argv[1]), int(sys.argv[2])
    django.setup()
    from gpuplatform.metrics.declared import HTTP_REQUESTS, HTTP_SECONDS  # noqa: PLC0415 - after the set-up
    from gpuplatform.metrics.recorder import count, observe  # noqa: PLC0415 - after the set-up
    from gpuplatform.metrics.server import open_before_fork, serve_in_child  # noqa: PLC0415 - after the set-up

    port = open_before_fork("test")
    assert port is not None
    children = []
    for number in range(copies):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            os.read(reading, 1)
            children.append(pid)
            continue
        for _ in range(each):
            count(HTTP_REQUESTS, method="GET", route="/a", status="200")
            observe(HTTP_SECONDS, 0.2, method="GET", route="/a")
        if number:  # The first one ends before the scrape; its counts remain.
            serve_in_child()
        os.write(writing, b".")
        if not number:
            os._exit(0)
        sys.stdin.read()
        os._exit(0)
    os.waitpid(children[0], 0)
    print(port.number, os.environ["PROMETHEUS_MULTIPROC_DIR"], flush=True)  # noqa: T201 - the test reads it
    sys.stdin.read()


if __name__ == "__main__":
    main()
