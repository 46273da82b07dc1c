"""Administrative operations: one typed function each, which Kafka's API, HTTP and the command call.

Kafka's operations are functions of `topics`, `records`, `configs`, `groups`, `acls`, `quotas`,
`credentials`, `replicas` and `describe_cluster`; AMQP's are in `registry`, by typed arguments.
`permissions` has the authorization that each of them requires, `audit` the line of each change.
"""
