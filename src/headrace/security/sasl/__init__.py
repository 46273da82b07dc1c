"""SASL mechanisms: PLAIN, SCRAM, OAUTHBEARER, and the tokens they accept."""
