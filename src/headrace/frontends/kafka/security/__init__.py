"""ACLs; SASL, SCRAM users, delegation tokens: refused as a Kafka without them refuses."""
