"""What remembers and serves: the pager, the timeline, the engine and the FastAPI application."""
