"""Consumer groups of the newer protocol (KIP-848): the coordinator decides, members follow.

A member sends heartbeats and nothing else. Three epochs tell how far things are: the *group epoch*
grows when members or what they subscribe to change; the *target epoch* is the group epoch the
target assignment was made for; a member's epoch is the target epoch it has been brought to.

    model              members, what they have and are to have; changes of this kind of group
    group              a group: changes applied, each answering with what takes it back
    records            changes <-> records of `__consumer_offsets`
    reconcile          one step of a member towards its target: revoke, then wait, then take over
    advance_member     that step, and what it sets running
    target_assignment  what the assignor is asked (`modern.target_assignment` asks)
    regex              topics by a regular expression, in linear time
    subscriptions      what a member's subscription is, and when the group's epoch is to grow
    heartbeat          ConsumerGroupHeartbeat; `validate`: what it may not say
    find_or_create, find_members         the group and the member a request is about
    leaving            leaving, being fenced, and the timers that do it
    classic_members    members that still speak the classic protocol inside such a group
    migration          a classic group becomes one of these, and back, while its members go on
    offset_access      who may commit and fetch offsets, and when they end
    describe           what administrators see

Kafka 4.3's GroupMetadataManager, ConsumerGroup and CurrentAssignmentBuilder settle every behaviour.
"""
