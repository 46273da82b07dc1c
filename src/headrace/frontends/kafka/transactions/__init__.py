"""The transactions' APIs."""
