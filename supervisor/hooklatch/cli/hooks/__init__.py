"""The commands about hooks, asks, events, sessions and status.  The daemon decides whether each is permitted."""
