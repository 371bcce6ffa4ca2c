"""`python -m agentgym`: the command `agentgym`."""

import sys

from agentgym.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
