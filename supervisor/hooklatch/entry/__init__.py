"""What agents start for each event: one behaviour in several forms, and how they are built and called."""
