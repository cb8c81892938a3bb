"""The daemon: trio over sockets and files, as one process that is made of its rooms.

Its rooms, lowest first: config, registry, dispatch, loading, fleet, transport, api.  Each may import those before it;
tests/test_imports.py holds that.
"""
