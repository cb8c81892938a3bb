"""Runs hooks for agents."""
