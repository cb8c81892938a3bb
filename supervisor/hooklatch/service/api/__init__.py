"""What each method of the protocol does, and the reports that it answers with.

Knows params and results; knows no bytes and no socket.
"""
