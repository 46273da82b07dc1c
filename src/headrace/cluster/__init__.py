"""The cluster: who is alive, which topics there are, who leads them, how all is configured.

    controller_port   what the rest of a broker may ask of the controller, wherever that is
    controller        a broker's own part in being it, which answers the port
    controller_term   one broker's time as the controller: facts, decisions, orders
    decide            what follows from an event (pure): `events` in, `changes` and orders out
    elections, reassignment   who leads a partition, and how its replicas become others (pure)
    cluster_facts     what the controller knows of the store
    writer            writes decisions with the versions they were made on, or decides anew
    orders, applier   what brokers are told to do with replicas, and who does it
    topic_requests    what the controller does when topics are asked for, auto_creation when none is
    leader_balance    leadership given back to preferred replicas by itself
    peers/            how brokers and their controller reach each other
    topic_creation    whether a topic may be created or grow, where its partitions go (pure)
    stored_topic      a topic as the store holds it, as it is planned and as it is shown (pure)
    catalog, znodes   the store in the controller's words; Kafka's paths and their JSON
    adoption          what a start takes up: the store's topics, and directories it does not know
    other_brokers, gathered_questions   what transactions ask of other brokers, gathered
    remote_share_states, share_state_calls   what share groups ask of them
    asking_others, ways_to_brokers   what those have in common
    producer_id_source, producer_id_blocks   producer ids, given once in the whole cluster
    settings/         what topics, brokers, groups and clients are told at run time

Everything goes through `ports.store.Store`, so the same code runs on ZooKeeper. The order of every
change is: decide on the facts, write the store, order brokers to open or drop logs, show the delta.
A kill in between is made good by the next start: a topic in the store without logs gets them, a
deletion that has begun is finished, and only then directories without a topic are adopted.
"""
