"""From a frame to the API that answers it, and back; what connections keep between requests."""
