"""Commands about the daemon itself: init, serve, stop, health, doctor, watch and log.

One module per command.
"""
