"""The client: one pure core, and a shell each for trio, for asyncio and for threads."""
