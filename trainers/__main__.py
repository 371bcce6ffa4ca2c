"""`python -m agentgym.trainers RECIPE ...` is the command `agentgym train RECIPE ...`.

`accelerate launch -m agentgym.trainers RECIPE ...` runs it in several processes.
"""

import importlib.util
import sys

from agentgym.errors import MissingExtraError

if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print(f"error: {MissingExtraError('Training', 'train', 'torch')}", file=sys.stderr)
        sys.exit(2)
    from agentgym.trainers.cli.train import main

    sys.exit(main(sys.argv[1:]))
