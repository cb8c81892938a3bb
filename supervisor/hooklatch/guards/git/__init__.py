"""Git for guards: its commands with their settings and options, and the state of a repository."""
