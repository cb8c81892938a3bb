"""The daemon: trio over sockets and files, as one process that is made of its folders.

From the lowest: config, registry, dispatch, loading, transport, api.  Each may import those before it;
tests/test_imports.py holds that.
"""
