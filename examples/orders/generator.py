"""Orders of several shops, as JSON, at made-up times: most in order, some late, some too late, some that are none.

Run it with `python -m examples.orders.generator`, beside a node. The same number always makes the same order, so that
what a pipeline computes of them can be checked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from flowmesh.base.errors import AlreadyExists, FlowMeshError
from flowmesh.client import connect_blocking
from flowmesh.client.blocking import BlockingStream

CATEGORIES = ("tea", "coffee", "cake", "bread", "jam")
BEGIN = datetime(2026, 1, 1, 8, tzinfo=UTC)
SPAN = timedelta(minutes=30)
"""How long the orders take by their own clock, however many they are."""
LATE_EVERY, LATE_S_MAX = 10, 20
BROKEN_EVERY = 1_000
BATCH_ORDERS = 1_000


class Order(NamedTuple):
    id: int
    category: str
    cents: int
    at: datetime

    def as_json(self) -> bytes:
        at = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return json.dumps({"id": self.id, "category": self.category, "cents": self.cents, "at": at}).encode()

    @property
    def minute(self) -> str:
        return f"{self.at:%Y-%m-%dT%H:%M}:00Z"


def order(number: int, orders: int) -> Order:
    """The one of this number, of so many in all."""
    at = BEGIN + SPAN * (number / orders)
    if number % LATE_EVERY == 3:
        at = max(at - timedelta(seconds=number * 7919 % LATE_S_MAX), BEGIN)
    return Order(number, CATEGORIES[number * 31 % len(CATEGORIES)], number * 7919 % 5_000 + 1, at)


def is_broken(number: int) -> bool:
    return number % BROKEN_EVERY == 7


def broken(number: int) -> bytes:
    """Not JSON, or JSON that is no order."""
    return b'{"id": %d, "category": "tea", "cents": "four"}' % number if number % 2 else b"id=%d;tea" % number


def value(number: int, orders: int) -> bytes:
    return broken(number) if is_broken(number) else order(number, orders).as_json()


def too_late(number: int) -> Order:
    """From the first minute, for whenever that is long over."""
    return Order(number, CATEGORIES[number % len(CATEGORIES)], 1, BEGIN + timedelta(seconds=number % 60))


def closing(number: int) -> Order:
    """So far ahead that all windows before it close. Its own stays open."""
    return Order(number, CATEGORIES[0], 1, BEGIN + SPAN + timedelta(hours=1))


def good(start: int, end: int, orders: int) -> Iterator[Order]:
    return (order(number, orders) for number in range(start, end) if not is_broken(number))


def revenue(found: Iterable[Order]) -> dict[tuple[str, str], tuple[int, int]]:
    """What a pipeline has to compute: cents and orders by minute and category."""
    cents: dict[tuple[str, str], int] = defaultdict(int)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for each in found:
        cents[each.minute, each.category] += each.cents
        counts[each.minute, each.category] += 1
    return {key: (cents[key], counts[key]) for key in cents}


def send(stream: BlockingStream, values: Iterable[bytes], rate: int | None = None) -> int:
    """Appends them exactly once, at most `rate` a second. Returns how many."""
    began, sent, batch = time.monotonic(), 0, list[bytes | None]()
    with stream.producer() as producer:
        for each in values:
            batch.append(each)
            if len(batch) == min(BATCH_ORDERS, rate or BATCH_ORDERS):
                producer.send_many(batch)
                sent, batch = sent + len(batch), []
                if rate is not None:
                    time.sleep(max(began + sent / rate - time.monotonic(), 0))
        producer.send_many(batch)
        producer.flush()
    return sent + len(batch)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=100_000, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--rate", type=int, metavar="N", help="at most so many a second (default: no limit)")
    parser.add_argument("--stream", default="orders", help="where to (default: %(default)s)")
    chosen = parser.parse_args()
    url = os.environ.get("FLOWMESH_URL", "flowmesh://127.0.0.1:7401")
    file = Path(os.environ.get("FLOWMESH_TOKEN_FILE", "flowmesh-data/admin.token"))
    token = os.environ.get("FLOWMESH_TOKEN") or file.read_text(encoding="utf-8").strip()
    with connect_blocking(url, token=token) as client:
        with suppress(AlreadyExists):
            client.create_stream(chosen.stream, partitions=2)
        values = (value(number, chosen.orders) for number in range(chosen.orders))
        sent = send(client.stream(chosen.stream), values, chosen.rate)
    print(f"{sent:,} orders sent to {chosen.stream}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (FlowMeshError, FileNotFoundError) as error:
        sys.exit(f"error: {error}")
