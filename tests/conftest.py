"""Hypothesis profiles: `ci` gives every run the same examples, `soak` looks for new ones. And how a soak ends."""

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("soak", deadline=None, max_examples=20_000, print_blob=True)
settings.load_profile("ci")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A soak that has used up its time without a failure has done what it was asked to do."""
    if str(session.shouldfail).startswith("session-timeout") and not session.testsfailed:
        session.exitstatus = pytest.ExitCode.OK
