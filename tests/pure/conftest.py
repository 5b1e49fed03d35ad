"""Settings of the property tests, without a time limit for an example, and fewer fixtures.

`GPUPLATFORM_TEST_EXAMPLES` is the number of examples of each property: `make test-pure`, which is
run most often, examines 10, `make test` 25, and `make test-long` 1,000. The short runs examine the
same examples each time, so that only a change can fail them. The long run generates new examples.
"""

import os

import pytest
from hypothesis import settings

_EXAMPLES = int(os.environ.get("GPUPLATFORM_TEST_EXAMPLES", "25"))

settings.register_profile(
    "platform", deadline=None, max_examples=_EXAMPLES, derandomize=_EXAMPLES <= 25
)
settings.load_profile("platform")

_UNUSED = (
    *("_dj_autoclear_mailbox", "_django_clear_site_cache", "_django_db_marker"),
    *("_django_isolate_apps", "_django_set_urlconf", "_live_server_helper"),
    "_template_string_if_invalid_marker",
)
"""Fixtures with which pytest-django prepares every test for the database, mail and templates."""


def _nothing() -> None:
    """Do nothing. A third of the time of thousands of short tests would be spent in fixtures."""


globals().update({name: pytest.fixture(scope="session", name=name)(_nothing) for name in _UNUSED})
