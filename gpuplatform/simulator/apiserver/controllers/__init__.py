import contextlib
from collections.abc import AsyncIterator
from gpuplatform.simulator.apiserver.writes import Writer
class Controllers:
    def __init__(self, writer: Writer) -> None: pass
    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield
