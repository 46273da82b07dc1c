"""The cluster: who is alive, which topics there are, who leads them, how all is configured.

    controller    decides: topics created, grown, deleted; producer ids; this broker's joining
    settings      describes and alters what topics and brokers are told, at run time
    creation      whether a topic may be created or grow, and where its partitions go (pure)
    configs       keys, values and where each comes from (pure)
    adoption      what a start takes up: the store's topics, and directories it knows nothing of
    internal      how the coordinators' topics are made
    stored        a topic as the store holds it, as it is planned and as it is shown (pure)
    catalog       the cluster's facts in the store, in the controller's words
    layout        Kafka's znode paths and their JSON
    waiting       from the lower rooms' callbacks to awaiting

Everything goes through `world.store.Store`, so the same code runs on ZooKeeper. The order of every
change is: decide on the present picture, write the store, open or drop logs, show the new picture.
A kill in between is made good by the next start: a topic in the store without logs gets them, a
deletion that has begun is finished, and only then directories without a topic are adopted.
"""
