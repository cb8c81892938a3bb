"""The client: one pure core, and one shell each for trio, asyncio and threads."""
