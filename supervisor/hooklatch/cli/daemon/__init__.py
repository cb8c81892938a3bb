"""The commands about the daemon itself: init, serve, stop, health, state, doctor, log, link and dashboard.

`detaching` and `link_process` are what `serve` and `link` run.
"""
