"""The priorities of requests in the capacity queue. Pure."""

from typing import Final

MAX_PRIORITY: Final = 100
"""The largest priority. The smallest one is 0."""
