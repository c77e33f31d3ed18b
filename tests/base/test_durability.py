"""What an acknowledgement promises, from text and back."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.durability import ALWAYS, BATCH, Durability, Policy
from flowmesh.base.errors import BadRequest
from flowmesh.base.limits import INTERVAL_MS_MAX


@pytest.mark.parametrize(
    "durability", [ALWAYS, BATCH, Durability(Policy.INTERVAL, 1), Durability(Policy.INTERVAL, 60_000)]
)
def test_round_trip(durability: Durability) -> None:
    assert Durability.parse(str(durability)) == durability


@given(st.integers(1, INTERVAL_MS_MAX))
def test_the_loss_window_is_the_interval(interval_ms: int) -> None:
    durability = Durability.parse(f"interval:{interval_ms}")
    assert durability.loss_window_ms == durability.interval_ms == interval_ms
    assert not durability.acks_after_sync


@pytest.mark.parametrize("durability", [ALWAYS, BATCH])
def test_what_syncs_first_loses_nothing(durability: Durability) -> None:
    assert durability.acks_after_sync
    assert durability.loss_window_ms == 0


@pytest.mark.parametrize(
    "text",
    [
        *("", "none", "ALWAYS", " batch", "batch\n", "always:5", "batch:5"),
        *("interval", "interval:", "interval:0", "interval:-1", "interval:1.5", "interval:5:5"),
        *("interval:²", "interval:٥", f"interval:{INTERVAL_MS_MAX + 1}"),
    ],
)
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(BadRequest, match="interval:<ms>") as caught:
        Durability.parse(text)
    assert caught.value.field == "durability"


@given(st.text(max_size=20))
def test_any_text_is_a_policy_or_refused(text: str) -> None:
    with suppress(BadRequest):
        assert isinstance(Durability.parse(text), Durability)
