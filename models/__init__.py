"""What draws: world models behind one protocol. Knows no sessions, sockets or tiers."""
