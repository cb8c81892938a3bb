"""What guards know of git: its commands with their settings and options, and what a repository says."""
