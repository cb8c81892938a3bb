"""`python -m hooklatch`: the same as the console script."""

import sys

from hooklatch.cli import main

sys.exit(main())
