"""The metadata store as Kafka's znodes, in the words of the controller.

znodes         where each fact lies, and its JSON (pure)
catalog        the facts read and written, by way of `config_store` for settings
stored_topic   a topic as the store holds it: planned, grown, and as it is shown (pure)
changed_node   one node changed so that nobody's change is lost, with a notice for all brokers
doubts         replicas that may lack what was committed, as registrations say (pure)
reaction       what a watch of the store has somebody do, once for many calls
migration      a single broker's znodes brought into a store that brokers share
group_mirror   groups as tools of before Kafka 0.9 look for them in ZooKeeper
"""
