"""The commands about the daemon itself: init, serve, stop, health, state, doctor, log, link and dashboard.

`link_process` is what `link` runs.
"""
