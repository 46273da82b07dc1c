"""A project, its topic and each kind of sink."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.kit import Topics
from tests.spark.pipeline import live
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


@pytest.fixture
def live_topic(topics: Topics) -> str:
    """A topic of two partitions."""
    return topics.create(2)


@pytest.fixture
def shop(tmp_path: Path, bootstrap: str, spark: SparkSession, live_topic: str) -> Path:
    """The directory of a project whose flows run in processes of their own."""
    settings = f'trigger = "1 second"\n{live.LOCAL}'
    text = live.FLOWS.format(topic=live_topic)
    return make_project(tmp_path / "shop", bootstrap, spark, text, settings).directory
