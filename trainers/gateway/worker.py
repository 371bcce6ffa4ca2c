"""`python -m agentgym.trainers.gateway.worker MODULE:FUNCTION FD`: plays episodes with a function.

Each line of standard input is a task. The outcome is a line of JSON to a descriptor, because the
function may print.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentgym.errors import ConfigError
from agentgym.trainers.gateway.programs import as_score, call
from agentgym.trainers.gateway.task import Task
from agentgym.utils.importing import imported


def answer(function: Callable[[Task], Any], asked: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the outcome of an episode. None: the function was to be imported only."""
    if asked is None:
        return {"score": None, "error": ""}
    task = replace(Task.of_json(asked["task"]), key=asked["key"])
    os.environ.update(task.variables)
    try:
        return {"score": as_score(call(function, task)), "error": ""}
    except Exception:
        return {"score": None, "error": f"The function raised an error:\n{traceback.format_exc()}"}


def main() -> None:
    """Plays episodes until the standard input ends."""
    name, descriptor = sys.argv[1:]
    os.set_inheritable(int(descriptor), False)
    try:
        function = imported(name, "harness")
    except ConfigError as error:
        with os.fdopen(int(descriptor), "w") as answers:
            print(json.dumps({"score": None, "error": str(error)}), file=answers)
        return
    sys.path.insert(0, "")
    tasks = sys.stdin
    with open(os.devnull) as sys.stdin, os.fdopen(int(descriptor), "w") as answers:
        for line in tasks:
            print(json.dumps(answer(function, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
