"""Commands that fire events: one by hand, or recorded ones from a file of policy tests.

Fails closed like every client.
"""
