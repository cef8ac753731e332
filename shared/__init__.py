"""What both machines agree on: poses, controls, tiers and the wire. No torch, no I/O, no clock."""
