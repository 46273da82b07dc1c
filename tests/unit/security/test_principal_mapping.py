"""Kafka's ssl.principal.mapping.rules."""

import pytest

from headrace.model.errors import ConfigError
from headrace.security.principal_mapping import NoRuleFits, PrincipalMapping

ADMIN = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
OTHER = "CN=Alice,OU=People,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", ADMIN, ADMIN),
        ("", ADMIN, ADMIN),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", ADMIN, "duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, DEFAULT", ADMIN, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, DEFAULT", OTHER, OTHER),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U,DEFAULT", OTHER, "ALICE@PEOPLE"),
        ("RULE:CN=(.*?),OU=ServiceUsers.*/$1/L,RULE:CN=(.*?),.*/other-$1/", OTHER, "other-Alice"),
        (r"RULE:CN=a\/(b),.*/$1\/c/", "CN=a/b,O=x", "b/c"),
    ],
)
def test_the_first_rule_that_fits_the_whole_name_says_who_it_is(
    rules: str, name: str, user: str
) -> None:
    assert PrincipalMapping(rules).user(name) == user


def test_a_name_that_no_rule_fits_is_nobody() -> None:
    with pytest.raises(NoRuleFits):
        PrincipalMapping("RULE:CN=(.*?),OU=ServiceUsers/$1/").user(ADMIN)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("RULE:abc", "is not RULE"),
        ("RULE:a/b/X", "is not RULE"),
        ("nonsense", "is not RULE"),
        ("DEFAULT RULE:a/b/", "is not RULE"),
        ("RULE:(a/b/", "pattern that is none"),
        ("RULE:a/$1/", "no group"),
        ("RULE:(a+)+b/x/", "repeats"),
        ("RULE:CN=((.*)*),.*/x/", "repeats"),
        ("RULE:(a*){2,}/x/", "repeats"),
    ],
)
def test_rules_that_mean_nothing_or_could_run_for_ever_are_refused(rules: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        PrincipalMapping(rules)
