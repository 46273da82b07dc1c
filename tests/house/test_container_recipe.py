"""What deploy/container says, as far as it can be judged without a container: `make container-test`
builds and runs it."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.config.broker import load
from headrace.model.errors import ConfigError

PLACE = Path(__file__).parents[2] / "deploy" / "container"
RECIPE = (PLACE / "Containerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((PLACE / "compose.yaml").read_text())


def environment() -> dict[str, str]:
    """What the image sets."""
    lines = RECIPE.split("\nENV ")[1].replace("\\\n", " ").splitlines()[0]
    return dict(word.split("=", 1) for word in shlex.split(lines))


def test_the_image_sets_what_a_broker_knows_and_a_start_without_one_word_is_refused() -> None:
    _, warnings = load("", environment())
    assert warnings == []
    without = environment()
    del without["HEADRACE_INSECURE_LISTENERS"]
    with pytest.raises(ConfigError, match="insecure"):
        load("", without)


def test_clients_of_the_composed_broker_are_told_addresses_that_they_reach() -> None:
    broker = COMPOSE["services"]["broker"]
    config, warnings = load("", environment() | broker["environment"])
    assert warnings == []
    told = {
        name: (host, int(port))
        for name, host, port in re.findall(
            r"(\w+)://(\w+):(\d+)", broker["environment"]["HEADRACE_ADVERTISED_LISTENERS"]
        )
    }
    assert told["INSIDE"][0] in COMPOSE["services"], "a name in the network is a service's"
    assert ["127.0.0.1:{1}:{1}".format(*told["HOST"])] == broker["ports"]
    assert COMPOSE["services"]["spark"]["environment"]["HEADRACE_BOOTSTRAP"] == "broker:9092"
    assert config.log_dirs[0].startswith(broker["volumes"][0].split(":")[1])


def test_the_recipe_runs_as_a_user_and_names_no_registry() -> None:
    assert re.findall(r"^FROM (\S+)", RECIPE, re.MULTILINE) == ["${BASE}", "${BASE}"]
    (base,) = re.findall(r"^ARG BASE=(\S+)$", RECIPE, re.MULTILINE)
    assert "/" not in base
    assert RECIPE.index("USER headrace") < RECIPE.index("ENTRYPOINT")
    data = environment()["HEADRACE_LOG_DIRS"]
    (volume,) = re.findall(r"^VOLUME (\S+)$", RECIPE, re.MULTILINE)
    assert data.startswith(f"{volume}/"), "a volume's own directory may not be empty"


def test_files_that_compose_names_are_there() -> None:
    for service in COMPOSE["services"].values():
        context = (PLACE / service["build"]["context"]).resolve()
        assert (context / service["build"]["dockerfile"]).samefile(PLACE / "Containerfile")
    command = COMPOSE["services"]["spark"]["entrypoint"][-1]
    (job,) = re.findall(r"/job/(\S+)", command)
    assert (PLACE / "job" / job).exists()
