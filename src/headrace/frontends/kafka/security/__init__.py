"""ACLs, SASL, SCRAM users and delegation tokens."""
