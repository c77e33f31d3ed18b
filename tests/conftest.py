"""Hypothesis profiles: `ci` gives every run the same examples, `soak` looks for new ones."""

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("soak", deadline=None, max_examples=20_000, print_blob=True)
settings.load_profile("ci")
