"""Movers: streams, threads and files. They carry moves out and choose nothing."""
