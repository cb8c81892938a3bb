"""Implements each method of the protocol, and the reports that methods answer with.

Knows params and results; does not know bytes or sockets.
"""
