"""The commands about the fleet log, by which it is shown, verified, exported and trimmed.  They need no daemon."""
