"""Effects beyond files: hosts that commands reach, packages, data of services, and what they run of the network.

Knows commands and tables of programs, no policy.
"""
