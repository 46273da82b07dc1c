"""The cluster: who is alive, which topics there are, who leads them, how all is configured.

    peers/            conversations of brokers: orders, the controller, coordinators' questions
    controller/       deciding for the cluster: a broker's part in it, its term, admins' requests
    controller_port   what the rest of a broker may ask of the controller, wherever that is
    membership/       this broker's registration, doubts and lease; it carries out orders
    decisions/        what follows from an event: facts in, changes and orders out (pure)
    settings/         what topics, brokers, groups and clients are told at run time
    store/            the metadata store as Kafka's znodes, in the controller's words
    topics/           whether a topic may be created or grow, where its partitions go (pure)

Each imports from those below it only. Everything goes through `ports.store.Store`, so the same code
runs on ZooKeeper. The order of every change is: decide on the facts, write the store, order brokers
to open or drop logs, show the delta. A kill in between is made good by the next start: a topic in
the store without logs gets them, a deletion that has begun is finished, and only then directories
without a topic are adopted.
"""
