"""Given what happened, when something is asked, then this happens or it is refused: the rules of the catalog."""

from typing import Any

import pytest

from flowmesh.base.errors import AlreadyExists, BadRequest, FlowMeshError, LimitExceeded, NotFound
from flowmesh.catalog import commands, events, machine
from flowmesh.catalog.commands import Command
from flowmesh.catalog.events import Event
from flowmesh.catalog.machine import CatalogMachine
from flowmesh.catalog.model import Stream, StreamSettings, Tenant, Token

NOW = 1_767_225_600_000_000_000
SETTINGS = StreamSettings(partitions=2)
ACME = Tenant("acme", NOW)
ORDERS = Stream("acme", "shop", "orders", 5, NOW, SETTINGS)
TOKEN = Token("t1", "acme", ("*",), ("admin",), b"hash", NOW)
ACME_MADE = events.TenantCreated(ACME)
ORDERS_MADE = events.StreamCreated(ORDERS)
TOKEN_MADE = events.TokenCreated(TOKEN)
SUCCESSOR = Token("t2", "acme", ("*",), ("admin",), b"other", NOW)
OPERATOR = Token("op", "*", ("*",), ("admin",), b"", NOW)
CREATE_ORDERS = commands.AddStream("acme", "shop", "orders", SETTINGS)


def given(*happened: Event) -> CatalogMachine:
    catalog = CatalogMachine()
    for event in happened:
        catalog.apply(events.decode(events.encode(event)))
    return catalog


def when(catalog: CatalogMachine, command: Command) -> list[Event]:
    before = catalog.snapshot()
    decided = catalog.decide(command, 5, NOW).events
    assert catalog.snapshot() == before, "deciding changed the catalog"
    return decided


def ending(expires_ns: int) -> Token:
    return Token("t1", "acme", ("*",), ("admin",), b"hash", NOW, expires_ns, "", "t2")


@pytest.mark.parametrize(
    "happened, command, then",
    [
        ([], commands.AddTenant("acme"), [ACME_MADE]),
        ([ACME_MADE], commands.DropTenant("acme"), [events.TenantDeleted("acme")]),
        (
            [ACME_MADE, TOKEN_MADE],
            commands.DropTenant("acme"),
            [events.TokenRevoked("t1"), events.TenantDeleted("acme")],
        ),
        ([ACME_MADE], CREATE_ORDERS, [ORDERS_MADE]),
        (
            [ACME_MADE, ORDERS_MADE],
            commands.ChangeStream("acme", "shop", "orders", StreamSettings(2, retention_bytes=9)),
            [events.StreamAltered("acme", "shop", "orders", StreamSettings(2, retention_bytes=9))],
        ),
        (
            [ACME_MADE, ORDERS_MADE],
            commands.DropStream("acme", "shop", "orders"),
            [events.StreamDeleted("acme", "shop", "orders")],
        ),
        (
            [ACME_MADE, ORDERS_MADE, events.StreamDeleted("acme", "shop", "orders")],
            commands.ForgetStream(5),
            [events.StreamRemoved(5)],
        ),
        ([ACME_MADE], commands.ForgetStream(5), []),
        ([ACME_MADE, ORDERS_MADE, events.StreamDeleted("acme", "shop", "orders")], CREATE_ORDERS, [ORDERS_MADE]),
        ([ACME_MADE], commands.AddToken(TOKEN), [TOKEN_MADE]),
        ([], commands.AddToken(OPERATOR), [events.TokenCreated(OPERATOR)]),
        (
            [ACME_MADE, TOKEN_MADE],
            commands.SwapToken("t1", SUCCESSOR, NOW + 9),
            [events.TokenCreated(SUCCESSOR), events.TokenChanged(ending(NOW + 9))],
        ),
        ([ACME_MADE, TOKEN_MADE], commands.DropToken("t1"), [events.TokenRevoked("t1")]),
    ],
)
def test_what_happens(happened: list[Event], command: Command, then: list[Event]) -> None:
    assert when(given(*happened), command) == then


@pytest.mark.parametrize(
    "happened, command, refusal, field",
    [
        ([ACME_MADE], commands.AddTenant("acme"), AlreadyExists, "tenant"),
        ([], commands.DropTenant("acme"), NotFound, "tenant"),
        ([ACME_MADE, ORDERS_MADE], commands.DropTenant("acme"), BadRequest, "tenant"),
        ([], CREATE_ORDERS, NotFound, "tenant"),
        ([ACME_MADE, ORDERS_MADE], CREATE_ORDERS, AlreadyExists, "name"),
        ([ACME_MADE], commands.ChangeStream("acme", "shop", "orders", SETTINGS), NotFound, "name"),
        (
            [ACME_MADE, ORDERS_MADE],
            commands.ChangeStream("acme", "shop", "orders", StreamSettings(3)),
            BadRequest,
            "partitions",
        ),
        ([ACME_MADE], commands.DropStream("acme", "shop", "orders"), NotFound, "name"),
        ([], commands.AddToken(TOKEN), NotFound, "tenant"),
        ([ACME_MADE], commands.SwapToken("t1", SUCCESSOR, NOW), NotFound, "id"),
        ([ACME_MADE], commands.DropToken("t1"), NotFound, "id"),
    ],
)
def test_what_is_refused(happened: list[Event], command: Command, refusal: type[FlowMeshError], field: str) -> None:
    with pytest.raises(refusal) as raised:
        when(given(*happened), command)
    assert raised.value.field == field


def test_a_rotation_never_lengthens_a_token() -> None:
    short = given(ACME_MADE, events.TokenCreated(Token("t1", "acme", (), (), b"", NOW, NOW + 5)))
    _, changed = when(short, commands.SwapToken("t1", SUCCESSOR, NOW + 9))
    assert isinstance(changed, events.TokenChanged)
    assert changed.token.expires_ns == NOW + 5


@pytest.mark.parametrize(
    "limit, command, happened",
    [
        ("TENANTS_MAX", commands.AddTenant("other"), [ACME_MADE]),
        ("STREAMS_PER_TENANT_MAX", commands.AddStream("acme", "shop", "other", SETTINGS), [ACME_MADE, ORDERS_MADE]),
        ("TOKENS_PER_TENANT_MAX", commands.AddToken(SUCCESSOR), [ACME_MADE, TOKEN_MADE]),
    ],
)
def test_quotas_hold(limit: str, command: Any, happened: list[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, limit, 2)
    assert when(given(*happened), command)
    monkeypatch.setattr(machine, limit, 1)
    with pytest.raises(LimitExceeded):
        when(given(*happened), command)


HISTORY: list[Event] = [
    ACME_MADE,
    TOKEN_MADE,
    ORDERS_MADE,
    events.StreamAltered("acme", "shop", "orders", StreamSettings(2, durability="always")),
    events.TokenCreated(SUCCESSOR),
    events.TokenChanged(ending(NOW + 9)),
    events.StreamDeleted("acme", "shop", "orders"),
    events.StreamRemoved(5),
    events.TokenRevoked("t1"),
    events.TenantCreated(Tenant("other", NOW)),
    events.TenantDeleted("other"),
]


@pytest.mark.parametrize("cut", range(len(HISTORY) + 1))
def test_a_snapshot_anywhere_and_the_rest_of_the_events_make_the_same_catalog(cut: int) -> None:
    restored = CatalogMachine()
    restored.restore(given(*HISTORY[:cut]).snapshot())
    for event in HISTORY[cut:]:
        restored.apply(event)
    assert restored.state == given(*HISTORY).state


def test_every_change_is_seen_by_whoever_keeps_something_derived() -> None:
    catalog = CatalogMachine()
    seen = {catalog.version}
    for event in HISTORY:
        catalog.apply(event)
        seen.add(catalog.version)
    assert len(seen) == len(HISTORY) + 1
