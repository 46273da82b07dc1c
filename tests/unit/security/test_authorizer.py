"""The authorizer that allows all, and Kafka's numbers."""

from headrace.security.authorizer import (
    AllowsAll,
    Authorizer,
    Operation,
    PatternType,
    Resource,
    ResourceType,
)
from headrace.security.identity import ANONYMOUS, Identity


def test_a_broker_without_rules_allows_everybody_everything() -> None:
    authorizer: Authorizer = AllowsAll()
    nobody = Identity("10.0.0.1", "PLAINTEXT")
    assert authorizer.allows_all
    for kind in ResourceType:
        for operation in Operation:
            assert authorizer.allows(nobody, operation, Resource(kind, "any"))
            assert authorizer.allows_any(nobody, operation, kind)


def test_operations_types_and_patterns_have_kafkas_numbers() -> None:
    names = (
        "UNKNOWN ANY ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS"
        " ALTER_CONFIGS IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT"
    )
    assert [one.name for one in sorted(Operation)] == names.split()
    assert [int(one) for one in sorted(Operation)] == list(range(16))
    kinds = "UNKNOWN ANY TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER"
    assert [ResourceType(at).name for at in range(8)] == kinds.split()
    patterns = "UNKNOWN ANY MATCH LITERAL PREFIXED"
    assert [PatternType(at).name for at in range(5)] == patterns.split()
    assert Resource(ResourceType.TOPIC, "t").pattern is PatternType.LITERAL


def test_who_is_not_authenticated_is_the_user_anonymous() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert (ANONYMOUS.kind, ANONYMOUS.name) == ("User", "ANONYMOUS")
