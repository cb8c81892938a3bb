"""Run the whole daemon under a seed: python -m tests.simulation --seed N --fires M [--fault NAME] [--json].

The last line is JSON.  Exit 1 with a violation.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from simulation.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
