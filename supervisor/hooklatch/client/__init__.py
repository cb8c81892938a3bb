"""The client: a core without I/O, and clients over it: for trio and asyncio, for threads, for administrators."""
