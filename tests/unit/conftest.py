"""Random tests repeat themselves exactly, so that a red build is red again when looked at."""

from hypothesis import settings

settings.register_profile("unit", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("unit")
