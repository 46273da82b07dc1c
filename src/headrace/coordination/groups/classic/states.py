"""The classic group's states, and which may follow which.

    Empty ──join──▶ PreparingRebalance ──all joined, or time is up──▶ CompletingRebalance
      ▲                │    ▲   ▲                                        │    │
      └──nobody left───┘    │   └────── join, leave, expiry ─────────────┘    │ the leader's
                            │                                                 ▼ assignment is
                            └────────── join, leave, expiry ────────────── Stable   committed

From every state to Dead: the group was deleted or its partition has another leader.
"""

from enum import Enum

from headrace.model.invariant import invariant


class GroupState(Enum):
    """State of a classic group; values are the protocol's names (DescribeGroups, ListGroups)."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = GroupState

NEXT: dict[GroupState, frozenset[GroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.PREPARING_REBALANCE: frozenset({_S.COMPLETING_REBALANCE, _S.EMPTY, _S.DEAD}),
    _S.COMPLETING_REBALANCE: frozenset({_S.STABLE, _S.PREPARING_REBALANCE, _S.DEAD}),
    _S.STABLE: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.DEAD: frozenset({_S.DEAD}),
}
"""The allowed transitions; any other one is a bug and fails an invariant in `step`."""


def step(state: GroupState, target: GroupState) -> GroupState:
    """Return `target` if the group may change from `state` to it; else an invariant fails."""
    invariant(target in NEXT[state], f"a group cannot go from {state.value} to {target.value}")
    return target
