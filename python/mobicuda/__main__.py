"""python -m mobicuda"""

import sys

from mobicuda.command_line import main

if __name__ == "__main__":
    sys.exit(main())
