"""Who may call: in development mode everybody who reaches the loopback address, else nobody.

Without development mode there is no way yet to prove who is calling, so nothing passes.
"""

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
        """Let everybody pass in development mode.

        Raises:
            Unauthenticated: the platform does not run in development mode.
        """
        if not settings.GPUPLATFORM_DEV:
            raise Unauthenticated("Log in, or send an API token.")
        return True
