"""Images of the platform's own. The simulated kubelet runs these as processes of this machine."""

from typing import Final

SIDECAR_IMAGE: Final = "registry.lokiwager.io/serverless-sidecar:1"
"""Stands between the queue and a function in each worker."""

ECHO_FUNCTION_IMAGE: Final = "registry.lokiwager.io/serverless-echo:1"
"""The example of a function."""
