"""`python -m hooklatch`: the same as the console script."""

import sys

from hooklatch.cli import main

if __name__ == "__main__":
    sys.exit(main())
