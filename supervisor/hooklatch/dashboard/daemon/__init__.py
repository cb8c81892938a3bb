"""What the dashboard is told by the daemon, and what it knows of files: asked, checked and kept.  Knows no page."""
