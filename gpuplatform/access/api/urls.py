"""URLs of members, tokens and the caller."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from gpuplatform.access.api.views import (
    Me,
    MemberDetail,
    Members,
    TenantMemberDetail,
    TenantMembers,
    TokenDetail,
    Tokens,
)
from gpuplatform.api import converters as _converters  # noqa: F401 - registers them


class MemberConverter(StringConverter):
    """Converter for the name of a member: a username, or `group:` and any text."""

    regex = r"[\w.@+-]{1,150}|group:.{1,150}"


class TokenConverter(StringConverter):
    """Converter for the name of a token. Earlier names can contain a slash."""

    regex = ".{1,63}"


register_converter(MemberConverter, "member")
register_converter(TokenConverter, "token")

_OF_TENANT = "operator/tenants/<name:tenant>/members"

urlpatterns = [
    path("me", Me.as_view(), name="me"),
    path("tokens", Tokens.as_view(), name="tokens"),
    path("tokens/<token:token>", TokenDetail.as_view(), name="token"),
    path("tenant/members", Members.as_view(), name="members"),
    path("tenant/members/<member:member>", MemberDetail.as_view(), name="member"),
    path(_OF_TENANT, TenantMembers.as_view(), name="tenant-members"),
    path(f"{_OF_TENANT}/<member:member>", TenantMemberDetail.as_view(), name="tenant-member"),
]
