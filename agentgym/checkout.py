"""Refuses a checkout without links, before any other import fails for that reason.

`agentgym/envs` and `agentgym/trainers` are links to the folders at the top of the repository. Where
git makes no links, as on Windows without Developer Mode, they are text files.
"""

from pathlib import Path

for _name in ("envs", "trainers"):
    if (Path(__file__).parent / _name).is_file():
        raise ImportError(
            f"agentgym/{_name} is a text file, but must be a link to the folder ../{_name}. Allow "
            "links (on Windows: Developer Mode), then run `git config core.symlinks true` and "
            "`git checkout -- agentgym/envs agentgym/trainers`. Or install a wheel, which needs "
            "no links."
        )
