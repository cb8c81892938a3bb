"""The fleet log: all hosts' entries and reports in the engine, their verification, export and trimming."""
