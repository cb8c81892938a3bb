"""The daemon: trio over sockets and files.  Its rooms, lowest first: config, registry, dispatch, loading, transport,

api, process.  Each may import those before it; tests/test_imports.py holds that.
"""
