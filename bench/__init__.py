"""What we claim: every figure in the README is one command here."""
