"""The protocol from the client's side: bytes in, typed answers, announcements and decisions out.

Does not know tasks, threads or clocks: the time is passed in.
"""
