"""Settings of the property tests."""

from hypothesis import settings

settings.register_profile("fleetrec", deadline=None)  # machines differ in speed
settings.load_profile("fleetrec")
