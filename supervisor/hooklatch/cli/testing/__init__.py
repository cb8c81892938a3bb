"""The commands that fire events: a single one, or recorded ones from a file of policy tests."""
