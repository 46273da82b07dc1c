"""List, show, replay and drop quarantined records."""
