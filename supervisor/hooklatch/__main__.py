"""`python -m hooklatch`, and the same by its path, isolated: what the console script does."""

import sys

if __name__ == "__main__":
    if not __package__:
        # pip can install for one user, in a place that an isolated interpreter does not look in.
        sys.path.append(__file__.rsplit("/", 2)[0])
    elif not sys.flags.safe_path:
        del sys.path[0]  # `-m` puts the working directory there, and a project's re.py would come before Python's own
    from hooklatch.cli import main

    sys.exit(main())
