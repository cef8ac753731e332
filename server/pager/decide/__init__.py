"""Pure decisions: numpy at most; no torch, threads, files or clock."""
