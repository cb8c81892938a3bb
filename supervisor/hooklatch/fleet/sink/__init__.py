"""What all hosts' decisions come to in one place: logs, reports, verification.  Reads the engine; changes nothing."""
