"""Images that are part of the platform. The simulated kubelet runs them as local processes."""

from typing import Final

SIDECAR_IMAGE: Final = "registry.lokiwager.io/serverless-sidecar:1"
"""The sidecar in each worker, which delivers invocations to the function."""

ECHO_FUNCTION_IMAGE: Final = "registry.lokiwager.io/serverless-echo:1"
"""An example of a function."""
