"""A program with tools learns from reward, from a cloned start.

The program is a usual loop of chat completions with `tools`. Its environment has a cart on a line:
`look()` tells its place and its goal, `left()` and `right()` move it by one, and `finish()` ends
the episode. The reward is 1 at the goal, and less the further away the cart is. A new model clones
expert episodes, written as the program's conversations, and then learns from reward through the
gateway. Training and test tasks differ in name only: a line of six places has 36 levels.

Prints a table and writes JSON. Finished runs are kept.

    python benchmarks/learning/tool_program.py [--seeds 3]
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import tyro
from rich.console import Console
from rich.table import Table

import agentgym
from agentgym.tasks import task_rng
from agentgym.tools.calls import Call
from agentgym.trainers import train
from agentgym.trainers.gateway import flat
from agentgym.trainers.gateway.task import Task, TaskError
from agentgym.trainers.gateway.wire import Message
from benchmarks.shared.chat_program import ask
from benchmarks.shared.result_files import RESULTS, measured, rounded, settings_of, versions

ID = "Cart-v0"
PLACES = 6
STEPS = 12
"""Requests of an episode."""
MEASURES = ("success", "reward")
SYSTEM = "Move the cart as the user wishes. Use the tools."


@dataclass
class Settings:
    """Settings of the benchmark."""

    recipe: str = "grpo"
    """The recipe."""
    turns: int = 10
    """Turn limit."""
    demonstrations: int = 60
    """Episodes of the expert that are cloned."""
    iterations: int = 50
    """Iterations of RL."""
    episodes: int = 64
    """Episodes per iteration, in groups of 8."""
    held_out: int = 200
    """Held-out episodes of an evaluation, with sampled replies."""
    seeds: int = 3
    """Random seeds 0, 1, ..."""
    out: Path = RESULTS / "tool_program.json"
    """The result file."""


# The program of a user.


def play(task: Task) -> None:
    """Asks the model, calls the tools that it wants, and returns their results to it."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": task.observation},
    ]
    done = False
    for _ in range(STEPS):
        reply = ask(task, messages, tools=list(task.tools))
        messages.append(reply)
        for call in reply.get("tool_calls") or ():
            try:
                arguments = json.loads(call["function"]["arguments"])
                result, done, _ = task.call(call["function"]["name"], arguments)
            except (ValueError, TaskError) as error:
                result = str(error)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if done or not reply.get("tool_calls"):
            return


# Its environment.


@agentgym.tool
def look(state: dict[str, Any]) -> str:
    """Tells where the cart and its goal are."""
    state["looked"] = True
    return f"You are at {state['place']}. Go to {state['goal']}."


@agentgym.tool
def left(state: dict[str, Any]) -> str:
    """Moves the cart to the left."""
    state["place"] = max(state["place"] - 1, 0)
    return look.function(state)


@agentgym.tool
def right(state: dict[str, Any]) -> str:
    """Moves the cart to the right."""
    state["place"] = min(state["place"] + 1, PLACES - 1)
    return look.function(state)


@agentgym.tool(final=True)
def finish(state: dict[str, Any]) -> str:
    """Ends the work."""
    state["finished"] = True
    return "Finished."


def start(task: str) -> tuple[str, dict[str, Any]]:
    """Returns request and state of a task, whose name determines the place of cart and goal."""
    place, goal = map(int, task_rng(task).integers(PLACES, size=2))
    state = {"place": place, "goal": goal, "looked": False, "finished": False}
    return "Bring the cart to its goal.", state


def reward(state: dict[str, Any]) -> float:
    """Returns 1 if the cart is at its goal at the end, and less the further away it is."""
    return 1 - abs(state["place"] - state["goal"]) / (PLACES - 1)


def expert(state: dict[str, Any]) -> Call:
    """Returns the next call: look, move to the goal, and finish."""
    if not state["looked"]:
        return Call("look", {})
    if state["place"] == state["goal"]:
        return Call("finish", {})
    return Call("right" if state["place"] < state["goal"] else "left", {})


class Cart(agentgym.FunctionToolEnv):
    """The environment of the cart."""

    def __init__(self, **kwargs: Any):
        super().__init__(
            [look, left, right, finish],
            start=start, reward=reward, expert=expert, rules=SYSTEM, **kwargs,
        )  # fmt: skip


if ID not in gymnasium.registry:
    gymnasium.register(ID, entry_point=Cart)


# Training.


def demonstrations(settings: Settings, seed: int, file: Path) -> None:
    """Writes expert episodes as the program's conversations, on training tasks, to a file."""
    env = Cart()
    tools = env.tool_schemas()
    rows = []
    for number in range(settings.demonstrations):
        task = f"train/{1000 * seed + number}"
        observation, _ = env.reset(options={"task": task})
        system = flat.instructions([Message("system", SYSTEM)], tools)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": observation}]
        over = False
        while not over:
            action = str(env.expert())
            observation, _, over, _, _ = env.step(action)
            messages.append({"role": "assistant", "content": action})
            messages.append({"role": "user", "content": observation})
        rows.append(json.dumps({"messages": messages[:-1]}))
    file.write_text("\n".join(rows), "utf-8")


def run(settings: Settings, seed: int) -> dict[str, dict[str, list[float]]]:
    """Returns success and reward on test tasks with their intervals, before and after."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "demonstrations.jsonl"
        demonstrations(settings, seed, data)
        reports = train(
            settings.recipe,
            env_id=ID,
            env_kwargs={"max_turns": settings.turns},
            harness=play,
            data=[str(data)],
            model="nano",
            bc_lr=2e-3,
            bc_epochs=20,
            bc_batch_tokens=1024,
            max_new_tokens=32,
            iterations=settings.iterations,
            episodes_per_iteration=settings.episodes,
            num_envs=16,
            group_size=8,
            lr=5e-4,
            eval_episodes=settings.held_out,
            eval_temperature=1.0,
            seed=seed,
            device="cpu",
            threads=1,
            log_with=(),
            quiet=True,
            run_dir=f"{folder}/run",
        )
    pairs = zip(("before", "after"), reports, strict=True)
    return {name: {m: rounded(each.aggregate()[m]) for m in MEASURES} for name, each in pairs}


def main(settings: Settings) -> None:
    """Runs the missing seeds, writes the file after each one, and prints a table."""
    about = {"settings": settings_of(settings, "seeds"), "versions": versions("torch")}
    measures = {str(seed): partial(run, settings, seed) for seed in range(settings.seeds)}
    titles = [f"{measure}, {when}" for measure in MEASURES for when in ("clone", "after RL")]
    table = Table("seed", *titles, title="Test tasks, 95 % intervals")
    for seed, each in measured(settings.out, about, "runs", measures):
        found = [each[when][measure] for measure in MEASURES for when in ("before", "after")]
        table.add_row(seed, *("{:.2f} [{:.2f}, {:.2f}]".format(*x) for x in found))
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
