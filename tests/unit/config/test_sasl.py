"""SASL listeners: mechanisms, PLAIN's users in lines of JAAS, and who may listen where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config.broker import BrokerConfig, load
from headrace.config.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from headrace.model.errors import ConfigError

LISTENER = {"listeners": "SASL_PLAINTEXT://127.0.0.1:1"}
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
ALICE = f'{PLAIN_MODULE} required user_alice="wonder";'


def configured(**flags: str) -> BrokerConfig:
    return load(flags={**LISTENER, **flags})[0]


def problem(flags: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as raised:
        load(flags={**LISTENER, **flags})
    return str(raised.value)


def test_a_sasl_listener_takes_both_scrams_where_nobody_says_otherwise() -> None:
    sasl = configured().sasl["SASL_PLAINTEXT"]
    assert sasl.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert sasl.passwords == {}
    assert sasl.reauth_ms == {"SCRAM-SHA-256": 0, "SCRAM-SHA-512": 0}
    assert load()[0].sasl == {}


def test_a_listeners_own_key_wins_whatever_its_names_case() -> None:
    flags = {
        "listeners": "INSIDE://127.0.0.1:1,OUTSIDE://127.0.0.1:2",
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.inside.sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-256",
        "listener.name.inside.plain.sasl.jaas.config": ALICE,
        "connections.max.reauth.ms": "1",
        "listener.name.inside.connections.max.reauth.ms": "2",
        "listener.name.inside.plain.connections.max.reauth.ms": "3",
    }
    sasl = load(flags=flags)[0].sasl
    assert sasl["INSIDE"].mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert sasl["INSIDE"].reauth_ms == {"PLAIN": 3, "SCRAM-SHA-256": 2}
    assert sasl["INSIDE"].passwords["alice"].reveal() == "wonder"
    assert (sasl["OUTSIDE"].mechanisms, sasl["OUTSIDE"].passwords) == (("SCRAM-SHA-512",), {})
    assert sasl["OUTSIDE"].reauth_ms == {"SCRAM-SHA-512": 1}


def test_settings_altered_at_run_time_keep_the_users() -> None:
    config = configured(**{"sasl.enabled.mechanisms": "PLAIN", JAAS: ALICE})
    later = config.updated({"log.level": "debug"}).sasl["SASL_PLAINTEXT"]
    assert later.passwords["alice"].reveal() == "wonder"
    assert later.mechanisms == ("PLAIN",)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "needs some of PLAIN, SCRAM-SHA-256"),
        ({"sasl.enabled.mechanisms": ""}, "needs some of PLAIN"),
        ({"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,GSSAPI"},
         "listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN,GSSAPI"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "PLAIN is enabled and has no users"),
        ({"listener.name.sasl_plaintext.connections.max.reauth.ms": "-1"}, "must be at least 0"),
    ],
)  # fmt: skip
def test_what_nobody_could_authenticate_by_stops_the_start(flags: dict[str, str], why: str) -> None:
    assert why in problem(flags)


def test_mechanisms_that_no_listener_uses_stop_no_start() -> None:
    load(flags={"sasl.enabled.mechanisms": "GSSAPI"})


def test_keys_of_listeners_that_are_not_there_are_warned_of() -> None:
    _, warnings = load(flags={"listener.name.other.plain.sasl.jaas.config": ALICE})
    assert any("no SASL listener of that name" in line for line in warnings)
    assert "wonder" not in "".join(warnings)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("com.sun.security.auth.module.JndiLoginModule required user_alice=\"wonder\";",
         "its login module is none of"),
        (ALICE.replace("PlainLoginModule", "PlainLoginModul"), "its login module is none of"),
        (ALICE.replace("required", "needed"), "stands none of required"),
        (ALICE.removesuffix(";"), "with ';' at its end"),
        (ALICE + ALICE, "more than one login module"),
        (ALICE.replace("=", " "), "not name=\"value\""),
        (ALICE.replace(";", ' user_alice="wonder2";'), "there twice"),
        (ALICE.replace('r";', "r;"), "cannot be read from character"),
        (ALICE.replace("alice", ""), "no name or no password"),
        (ALICE.replace("wonder", ""), "no name or no password"),
        (ALICE.replace(PLAIN_MODULE, SCRAM_MODULE), "PLAIN takes"),
        ("wonder", "is not: MODULE"),
        ("", "is not: MODULE"),
    ],
)  # fmt: skip
def test_a_line_of_jaas_that_is_wrong_is_refused_and_not_shown(line: str, why: str) -> None:
    said = problem({"sasl.enabled.mechanisms": "PLAIN", JAAS: line})
    assert why in said
    assert "wonder" not in said


def test_a_line_of_jaas_is_read_as_java_reads_it() -> None:
    text = f'{SCRAM_MODULE} REQUIRED\n  username="admin"\t password="a\\"b\\\\c=;"'
    text += " user_x-y.z = bare-1 ;"
    line = parse_jaas(text)
    assert {name: secret.reveal() for name, secret in line.options.items()} == {
        "username": "admin", "password": 'a"b\\c=;', "user_x-y.z": "bare-1",
    }  # fmt: skip
    assert list(line.passwords) == ["x-y.z"]
    assert "bare" not in repr(line)


@given(st.text(st.sampled_from(f'{PLAIN_MODULE[-6:]} "\\=;\nr')) | st.text())
def test_any_text_is_a_line_or_refused(text: str) -> None:
    for line in (text, f"{PLAIN_MODULE} required {text};"):
        try:
            parse_jaas(line)
        except ValueError:
            continue


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_password_survives_its_quoting(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    line = parse_jaas(f'{PLAIN_MODULE} required user_a="{quoted}";')
    assert line.passwords["a"].reveal() == password


def test_without_encryption_other_machines_are_let_in_only_by_leave() -> None:
    public = {"listeners": "SASL_PLAINTEXT://0.0.0.0:1"}
    assert "open to other machines without encryption" in problem(public)
    assert "--insecure" in problem(public)
    configured(**public, **{"insecure.listeners": "true"})


def test_brokers_of_a_cluster_need_a_listener_that_they_can_use() -> None:
    among = {"zookeeper.connect": "127.0.0.1:2181", "broker.id": "1"}
    assert "do not authenticate to each other yet" in problem(among)
    with_one = {
        **among,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2",
    }
    assert configured(**with_one).inter_broker_listener_name == "PLAINTEXT"
