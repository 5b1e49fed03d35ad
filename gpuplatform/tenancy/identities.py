"""Writes the accounts of users of the OpenID Connect provider, and their groups of the admin.

An account is found by issuer and subject only, never by a name or an email address, which another
user of the provider could choose. No login grants the superuser status.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models.functions import Now

from gpuplatform.locks import take_turn
from gpuplatform.tenancy.models import GROUP_MAX, Identity
from gpuplatform.tenancy.oidc import Claims

_TURN: Final = "identities"
_OTHER_CHARACTERS: Final = re.compile(r"[^\w.@+-]")
_NAME_MAX: Final = 120
_EMAIL_MAX: Final = 254
_MAX_GROUPS: Final = 500


def identity_login(claims: Claims, staff_groups: Iterable[tuple[str, str]]) -> User:
    """Return the user of an identity, with the groups of the claims.

    The first login creates the user. `staff_groups` are pairs of a group of the provider and the
    group of the admin that its users join. A user leaves the groups of the admin that a pair names
    if no claim justifies them. The other groups of the admin do not change.
    """
    groups = list(dict.fromkeys(one for one in claims.groups if 0 < len(one) <= GROUP_MAX))
    with transaction.atomic():
        take_turn(_TURN)
        found = Identity.objects.filter(issuer=claims.issuer, subject=claims.subject)
        identity = found.select_related("user").first()
        user = identity.user if identity else _new_user(claims)
        Identity.objects.update_or_create(
            issuer=claims.issuer,
            subject=claims.subject,
            defaults={"user": user, "groups": groups[:_MAX_GROUPS], "seen_at": Now()},
        )
        _join_staff_groups(user, groups, list(staff_groups))
        return User.objects.get(pk=user.pk)


def _new_user(claims: Claims) -> User:
    """Create a user without a password. A name that is in use gets a suffix."""
    name = _OTHER_CHARACTERS.sub("-", claims.username)[:_NAME_MAX] or "user"
    if User.objects.filter(username=name).exists():
        digest = hashlib.sha256(f"{claims.issuer} {claims.subject}".encode()).hexdigest()
        name = f"{name}-{digest[:12]}"
    return User.objects.create_user(name, claims.email[:_EMAIL_MAX])


def _join_staff_groups(user: User, groups: list[str], pairs: list[tuple[str, str]]) -> None:
    wanted = {staff_group for group, staff_group in pairs if group in groups}
    managed = {staff_group for _, staff_group in pairs}
    user.groups.remove(*Group.objects.filter(name__in=managed - wanted))
    user.groups.add(*Group.objects.filter(name__in=wanted))
    has_access = user.groups.exists() or user.user_permissions.exists() or user.is_superuser
    User.objects.filter(pk=user.pk).update(is_staff=has_access)
