"""The methods of the protocol, and the reports that they answer with.

Knows params and results; does not know bytes or sockets.
"""
