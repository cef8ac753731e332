"""Parity with recorded numbers of the original, for any config. A command; one thread."""
