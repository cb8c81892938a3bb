"""Commands about what a fleet's hosts decided: shown, verified, sent on, removed.  None of them needs a daemon."""
