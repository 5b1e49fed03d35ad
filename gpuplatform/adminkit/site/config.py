"""Makes the platform's admin site Django's default one.

Apart from `pages`, since Django loads this module before the models that the pages read.
"""

from django.contrib.admin.apps import AdminConfig


class PlatformAdminConfig(AdminConfig):
    """Django's admin app with our site."""

    default_site = "gpuplatform.adminkit.site.pages.PlatformAdminSite"
