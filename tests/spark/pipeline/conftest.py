"""A project, its topic and each kind of sink."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.kit import Topics
from tests.spark.pipeline.run_projects import Project, make_project
from tests.spark.pipeline.sinks import SINKS


@pytest.fixture
def topic(topics: Topics) -> str:
    """A topic of one partition."""
    return topics.create(1)


@pytest.fixture(params=SINKS)
def sink(request: pytest.FixtureRequest) -> str:
    """Each kind of sink in turn."""
    return str(request.param)


@pytest.fixture
def project(
    tmp_path: Path, bootstrap: str, spark: SparkSession, topic: str, topics: Topics
) -> Project:
    """A project without declarations; the topic has a second one for copies."""
    topics.create(1, f"{topic}-copies")
    return make_project(tmp_path / "shop", bootstrap, spark, "", name=f"shop-{topic}")
