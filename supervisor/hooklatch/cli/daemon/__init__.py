"""The commands about the daemon, its record, and what it decides now: `ui` and `watch` show that live.

`app`, `widgets`, `drawing`, `acts` and `feed` are the screen of `ui`.  `launchd` and `systemd` are what `service` asks.
"""
