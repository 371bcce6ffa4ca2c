"""`ModelJudge`: the reward model of another run, which scores the turns of episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agentgym.agents.basic.view import View
from agentgym.errors import ConfigError
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory, rules_of

if TYPE_CHECKING:
    from agentgym.trainers.policy_agent.judge import Judge

PREFIX = "judge:"
"""Start of the sources of scores that name the folder of a reward model."""


class ModelJudge:
    """Scores the turns of episodes by the values of a reward model.

        score = 1 / (1 + exp(-value))

    The value of a turn is that of its action after the agent's own earlier turns, with the prompts
    and the tokenizer of the model (see `Judge`). It has no bounds: a predicted return for `orm`, a
    Q-value for `agentprm`. The logistic function keeps the order of values, as best-of-n uses it,
    and maps 0 to 0.5. The weights do not change in the run. The processes of a run share the
    episodes, so each must take part in every call, with the same ones.

    Args:
        source: "judge:FOLDER", a run of `agentprm`, `orm`, `spa`, `inverse_prm`, `read` or
            `istar`, or its subfolder `judge`.
        instructions: instructions of the environments by id (see `rules_of`). None: the model is
            not loaded before the first call.
        option: the name of the setting that names the source.

    Raises:
        ConfigError: if the folder holds no judge.
        CheckpointError: if the judge is damaged.
    """

    def __init__(
        self,
        source: str,
        instructions: Mapping[str, str] | None = None,
        option: str = "process_reward",
    ):
        folder = Path(source.removeprefix(PREFIX))
        self.folder = folder / "judge" if (folder / "judge").is_dir() else folder
        if not (self.folder / "head.pt").is_file():
            raise ConfigError(
                f"{option} = {source!r}: {folder} holds no judge: give a run of agentprm, orm, "
                "spa, inverse_prm, read or istar, or the folder `judge` in it."
            )
        self.instructions = instructions or {}
        if instructions is not None:
            _ = self.judge

    @cached_property
    def judge(self) -> Judge:
        """The reward model, on the device of the run."""
        from accelerate import PartialState  # the checks of settings need no torch

        from agentgym.trainers.policy_agent.loading import load_judge

        judge = load_judge(self.folder, str(PartialState().device))
        judge.model.requires_grad_(False)
        return judge

    def __call__(self, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """Returns the scores in [0, 1] of the turns of each trajectory, of one agent each."""
        from accelerate import PartialState

        from agentgym.trainers.system.processes import map_across_processes

        return map_across_processes(PartialState(), trajectories, self._scores)

    def _scores(self, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """Returns the scores of some trajectories."""
        if not trajectories:
            return []
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        views = [view for trajectory in trajectories for view in self._views(trajectory)]
        read = self.judge.read(views, [[turn.action] for turn in turns])
        values = self.judge.model.predict(Batch.of(read)).astype(np.float64)
        scores = 0.5 + 0.5 * np.tanh(values / 2)  # the logistic function, without overflow
        ends = np.cumsum([len(trajectory.turns) for trajectory in trajectories])
        return [part.tolist() for part in np.split(scores, ends[:-1])]

    def _views(self, trajectory: Trajectory) -> list[View]:
        """Returns the views of the agent before each of its turns."""
        rules = rules_of(trajectory, self.instructions)
        pairs = [(turn.observation, turn.action) for turn in trajectory.turns]
        return [View.of_text(rules, pair[0], pairs[:t]) for t, pair in enumerate(pairs)]
