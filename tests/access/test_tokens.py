"""A token is an id and a secret; the secret's hash proves it, and nothing else does."""

import pytest

from flowmesh.access import tokens
from flowmesh.sim.entropy import SimEntropy


def test_a_new_token_proves_itself() -> None:
    made = tokens.make(SimEntropy(1))
    found = tokens.split(made.text)
    assert found is not None
    identity, secret = found
    assert identity == made.id
    assert tokens.proves(secret, made.secret_hash)


def test_the_record_of_a_token_does_not_hold_its_secret() -> None:
    made = tokens.make(SimEntropy(1))
    secret = made.text.partition(".")[2]
    assert len(secret) >= 43, "256 bits"
    assert secret.encode() not in made.secret_hash
    assert secret not in made.id


def test_two_tokens_share_nothing() -> None:
    entropy = SimEntropy(1)
    one, other = tokens.make(entropy), tokens.make(entropy)
    assert one.id != other.id
    assert not tokens.proves(one.text.partition(".")[2], other.secret_hash)


@pytest.mark.parametrize(
    "text", ["", ".", "id.", ".secret", "no-dot", "ä.secret", "id." + "x" * 300, "id.s\N{EM DASH}"]
)
def test_what_cannot_be_a_token_is_none(text: str) -> None:
    assert tokens.split(text) is None


def test_without_a_record_nothing_is_proven() -> None:
    assert not tokens.proves("secret", None)
    assert not tokens.proves("no token has this hash", None)


def test_a_token_in_a_text_loses_its_secret_and_keeps_its_id() -> None:
    made = tokens.make(SimEntropy(1))
    for text in ("{}", "there is no stream '{}'.", "x{}x", "a/{}/b"):
        shown = tokens.masked(text.format(made.text))
        assert made.id in shown
        assert made.text.partition(".")[2][:8] not in shown


@pytest.mark.parametrize(
    "name", ["customerservices.orders", "abcdefghijklmnop.qrstuvwxyz-0123456789", "a.B", "10.5 GiB"]
)
def test_a_name_is_not_taken_for_a_token(name: str) -> None:
    assert tokens.masked(name) == name
