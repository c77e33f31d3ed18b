"""The page of metrics is complete and true, against the registry of a node that has seen everything."""

from prometheus_client.metrics_core import Metric

from tests.docs.pages import rows
from tests.observability.nodes import busy_metrics


def name_of(family: Metric) -> str:
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def labels_of(family: Metric) -> set[str]:
    return {label for sample in family.samples for label in sample.labels} - {"le"}


def test_every_metric_is_on_the_page_with_its_type_and_labels() -> None:
    shown = {
        row[0]: (row[1], set(row[2].replace("`", "").split(", ")) - {""})
        for row in rows("reference/metrics.md", "metric")
    }
    with busy_metrics() as metrics:
        families = list(metrics.registry.collect())
    found = {
        name_of(family): ("gauge" if family.type == "info" else family.type, labels_of(family)) for family in families
    }
    assert all(family.samples for family in families), "the node of this test has not seen everything"
    assert shown == found


def test_every_metric_begins_with_the_name_of_the_product_and_has_words() -> None:
    with busy_metrics() as metrics:
        for family in metrics.registry.collect():
            assert family.name.startswith("flowmesh_")
            assert family.documentation.endswith(".")
