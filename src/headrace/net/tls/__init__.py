"""TLS connections and handshakes."""
