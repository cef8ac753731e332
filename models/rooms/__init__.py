"""The embedded world: a small model, trained by our own code, that walks in real time on two CPU cores."""
