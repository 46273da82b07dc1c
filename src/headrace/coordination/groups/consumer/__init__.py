"""Consumer groups of the newer protocol (KIP-848): the coordinator computes the assignment.

Members send heartbeats only. The *group epoch* grows when members or their subscriptions change.
The *target epoch* is the group epoch for which the target assignment was computed. A member's epoch
is the target epoch that it has been reconciled to.

    model              members with their current and pending partitions; changes of a group
    group              a group: applies changes, each returning the change that undoes it
    records            changes <-> records of `__consumer_offsets`
    reconcile          one step of a member towards its target: revoke, wait, take over
    advance_member     that step, with the timers that it starts
    target_assignment  the assignor's input (`modern.target_assignment` calls the assignor)
    regex              topics that match a regular expression, in linear time
    subscriptions      a member's subscription, and when the group epoch must grow
    heartbeat          ConsumerGroupHeartbeat; `validate`: its invalid requests
    find_or_create, find_members         the group and member of a request
    leaving            members that leave or are fenced, and the timers for that
    classic_members    members of a consumer group that still use the classic protocol
    migration          upgrade of a classic group to a consumer group, and downgrade
    offset_access      which members may commit and fetch offsets
    describe           ConsumerGroupDescribe

The reference for all behaviour is Kafka 4.3's GroupMetadataManager, ConsumerGroup and
CurrentAssignmentBuilder.
"""
