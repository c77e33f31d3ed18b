"""Metric families made from plain numbers. No metric is named here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily

from flowmesh.base.distribution import Distribution


def histogram(
    family: HistogramMetricFamily, labels: Sequence[str], values: Distribution, scale: float = 1.0
) -> HistogramMetricFamily:
    """Adds one distribution to the family, each bound and the sum multiplied by `scale`."""
    counts = list(values.counts)
    # Twelve digits: enough for every bound, and too few for what a multiplication leaves behind them.
    names = [str(float(f"{bound * scale:.12g}")) for bound in values.bounds]
    buckets = [(name, float(count)) for name, count in zip([*names, "+Inf"], accumulate(counts), strict=True)]
    family.add_metric(labels, buckets, values.total * scale)
    return family
