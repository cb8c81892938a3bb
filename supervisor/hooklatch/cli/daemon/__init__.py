"""The commands about the daemon itself: init, serve, stop, health, state, doctor, log, link and dashboard.

One module per command; `detaching` and `link_process` are what `serve` and `link` run.
"""
