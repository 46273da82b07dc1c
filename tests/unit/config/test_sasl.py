"""SASL listeners: mechanisms, PLAIN's users in lines of JAAS, and who may listen where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config.authentication.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from headrace.config.authentication.sasl import BETWEEN_BROKERS
from headrace.config.broker import BrokerConfig, load
from headrace.config.descriptions import DynamicConfig, check_broker_config
from headrace.model.errors import ApiError, ConfigError

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
    _, warnings = load(flags={"listener.name.plaintext.ssl.client.auth": "required"})
    assert any("no TLS listener of that name" in line for line in warnings)


def test_settings_show_no_password_however_they_are_written_down() -> None:
    flags = {"sasl.enabled.mechanisms": "PLAIN", JAAS: ALICE, "ssl.key.password": "wonder"}
    config = configured(**flags)
    assert "wonder" not in repr(config.values)
    assert config.values[JAAS] == ALICE


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("com.sun.security.auth.module.JndiLoginModule required user_alice=\"wonder\";",
         "its login module must be one of"),
        (ALICE.replace("PlainLoginModule", "PlainLoginModul"), "its login module must be one of"),
        (ALICE.replace("required", "needed"), "must be followed by one of required"),
        (ALICE.removesuffix(";"), "with ';' at its end"),
        (ALICE + ALICE, "more than one login module"),
        (ALICE.replace("=", " "), "not name=\"value\""),
        (ALICE.replace(";", ' user_alice="wonder2";'), "more than once"),
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


AMONG_OTHERS = {
    "zookeeper.connect": "127.0.0.1:2181", "broker.id": "1",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
}  # fmt: skip
SCRAM_LINE = "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config"


def test_brokers_authenticate_to_each_other_as_the_listeners_line_of_jaas_says() -> None:
    line = f'{SCRAM_MODULE} required username="broker" password="wonder";'
    sasl = configured(**AMONG_OTHERS, **{SCRAM_LINE: line}).sasl["SASL_PLAINTEXT"]
    login = sasl.logins["SCRAM-SHA-512"]
    assert (login.user, login.password.reveal()) == ("broker", "wonder")
    assert "wonder" not in repr(sasl)
    # PLAIN's line has its users beside who the broker is itself.
    both = {"sasl.enabled.mechanisms": "PLAIN", BETWEEN_BROKERS: "PLAIN"}
    plain = ALICE.replace(";", ' username="alice" password="wonder";')
    sasl = configured(**(AMONG_OTHERS | both), **{JAAS: plain}).sasl["SASL_PLAINTEXT"]
    assert sasl.logins["PLAIN"].user == "alice"
    assert list(sasl.passwords) == ["alice"]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({BETWEEN_BROKERS: "GSSAPI"}, "which takes SCRAM-SHA-256, SCRAM-SHA-512: name one of"),
        ({BETWEEN_BROKERS: "PLAIN"}, "which takes SCRAM-SHA-256, SCRAM-SHA-512: name one of"),
        ({}, f'{SCRAM_LINE}=…: brokers authenticate to each other by it, and it has no username'),
        ({SCRAM_LINE: f'{SCRAM_MODULE} required username="a";'}, "it has no username and password"),
        ({SCRAM_LINE: f'{SCRAM_MODULE} required username="a" password="";'}, "is empty"),
    ],
)  # fmt: skip
def test_brokers_that_could_not_authenticate_to_each_other_do_not_start(
    flags: dict[str, str], why: str
) -> None:
    assert why in problem({**AMONG_OTHERS, **flags})


def test_who_a_broker_is_for_others_is_not_asked_where_it_need_not_say() -> None:
    listeners = "SASL_PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"
    config = configured(**(AMONG_OTHERS | {"listeners": listeners}))
    assert config.inter_broker_listener_name == "PLAINTEXT"
    alone = {name: AMONG_OTHERS[name] for name in AMONG_OTHERS if "zookeeper" not in name}
    configured(**alone)


def test_mechanisms_are_altered_at_run_time_and_lines_of_jaas_are_not() -> None:
    static = configured()
    own = "listener.name.sasl_plaintext.sasl.enabled.mechanisms"
    check_broker_config({own: "SCRAM-SHA-256"}, static, shared=False)
    changed = DynamicConfig(static, own={own: "SCRAM-SHA-256", JAAS: ALICE}).effective()
    assert changed.sasl["SASL_PLAINTEXT"].mechanisms == ("SCRAM-SHA-256",)
    assert changed.sasl["SASL_PLAINTEXT"].passwords == {}
    with pytest.raises(ApiError, match="cannot be altered at run time") as raised:
        check_broker_config({JAAS: ALICE}, static, shared=False)
    assert "wonder" not in str(raised.value)
