"""Settings of SASL mechanisms, JAAS and OAUTHBEARER."""
