"""The client: a core without I/O, and over it one client for trio and asyncio, one for threads, two for administrators."""
