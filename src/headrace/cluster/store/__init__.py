"""The metadata store: Kafka's znodes, read and written in the controller's terms.

znodes         path and JSON of each fact (pure)
catalog        reads and writes the facts; settings through `config_store`
stored_topic   a topic as the store holds it: planned, grown, shown to clients (pure)
changed_node   a node changed without lost updates, with a notice for all brokers
stored_doubts  replicas that may lack committed records, in registrations (pure)
reaction       a coroutine that runs once for several watch events
"""
