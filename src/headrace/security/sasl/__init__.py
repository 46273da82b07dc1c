"""SASL mechanisms: PLAIN, SCRAM, OAUTHBEARER, and the tokens that they accept."""
