"""Properties have no time limit an example: a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("platform", deadline=None)
settings.load_profile("platform")
