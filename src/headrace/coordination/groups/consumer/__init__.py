"""Consumer groups of the newer protocol (KIP-848): the coordinator decides, members follow.

A member sends heartbeats and nothing else. Three epochs tell how far things are: the *group epoch*
grows when members or what they subscribe to change; the *target epoch* is the group epoch the
target assignment was made for; a member's epoch is the target epoch it has been brought to.

    model        members, what they have and are to have; every change of a group as a value
    group        a group: changes applied, each answering with what takes it back
    records      changes <-> records of `__consumer_offsets`
    turn         what one request changes: applied, appended, taken back if the log refuses
    reconcile    one step of a member towards its target: revoke first, then wait, then take over
    target       the target assignment, at most one in so many milliseconds
    regex        topics by a regular expression, in linear time
    subscribing  what a member's subscription is, and when the group's epoch is to grow
    heartbeat    ConsumerGroupHeartbeat · validate: what it may not say
    membership   leaving, being fenced, and the timers that do it
    classic      members that still speak the classic protocol inside such a group
    migrate      a classic group becomes one of these, and back, while its members go on
    embedded     subscriptions and assignments in the bytes of classic consumers
    offsets      who may commit and fetch offsets, and when they end
    describe     what administrators see

Kafka 4.3's GroupMetadataManager, ConsumerGroup and CurrentAssignmentBuilder settle every behaviour.
"""
