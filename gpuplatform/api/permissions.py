"""Who may call: in development mode everybody who reaches the loopback address, else nobody.

Without development mode there is no way yet to prove who is calling, so nothing passes.
"""

from ipaddress import ip_address

from django.conf import settings
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView
from typing_extensions import override

from gpuplatform.errors import Unauthenticated


class DevelopmentModeOnly(BasePermission):
    """The door of every API view."""

    @override
    def has_permission(self, request: Request, view: APIView) -> bool:
        """Let everybody pass who calls from this machine, in development mode.

        Raises:
            Unauthenticated: the platform does not run in development mode, or the caller is not
                on this machine.
        """
        if not settings.GPUPLATFORM_DEV:
            raise Unauthenticated("Log in, or send an API token.")
        if not _is_loopback(request.META.get("REMOTE_ADDR", "")):
            raise Unauthenticated("In development mode only this machine may call the API.")
        return True


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
