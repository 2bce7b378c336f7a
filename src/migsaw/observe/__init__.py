"""EDGE in: files, and later clusters and Prometheus, become model values here. Nothing is decided here."""
