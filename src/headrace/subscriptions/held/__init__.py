"""Messages that wait in an internal log before they are in their topic: delays, transactions."""
