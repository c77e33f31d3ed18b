"""The page of settings is complete and true."""

from pathlib import Path

import yaml
from click.testing import CliRunner

from flowmesh.cli.main import flowmesh
from flowmesh.host.settings import DEFAULTS, RULES, flag_of, variable_of
from flowmesh.host.settings_sources import gather
from tests.docs.pages import rows
from tests.tidy.tree import ROOT


def expected(name: str) -> list[str]:
    rule, default = RULES[name], getattr(DEFAULTS, name)
    if rule.choices:
        values = ", ".join(f"`{choice}`" for choice in rule.choices)
    else:
        values = "text" if rule.most == float("inf") else f"{rule.least:g} to {rule.most:.15g}"
    shown = "none" if default is None else str(default)
    return [name, flag_of(name), variable_of(name), shown, values, rule.meaning]


def test_every_setting_is_on_the_page_as_it_is() -> None:
    found = rows("reference/settings.md", "YAML key")
    assert found == [expected(name) for name in RULES]


def test_every_setting_is_an_option_with_its_meaning_in_the_help() -> None:
    text = " ".join(CliRunner().invoke(flowmesh, ["serve", "--help"]).output.split())
    for name, rule in RULES.items():
        assert flag_of(name) in text
        assert rule.meaning.split(".")[0] in text


def test_the_example_on_the_page_is_taken(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    example = [line[4:] for line in page.splitlines() if line.startswith("    ")]
    place = tmp_path / "flowmesh.yaml"
    place.write_text("\n".join(example), encoding="utf-8")
    assert gather({}, {}, str(place)).settings.data_dir == yaml.safe_load("\n".join(example))["data_dir"]
