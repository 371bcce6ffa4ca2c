"""Early experience: the policy learns what its own actions lead to, then imitates the expert.

"Agent Learning via Early Experience" (Zhang et al., arXiv 2510.08558). In every state of the
demonstrations, the policy tries actions of its own, without any reward. Their outcomes are data:

    implicit world model    loss = -log p(s' | s, a)           a: the expert's or an own action
    self-reflection         loss = -log p(c, a* | s)           c: why a* rather than an own action

The policy learns to predict for `world_iterations`, then to act like the expert, with the
reflections before its actions if there are any. Train on with rewards by any recipe and
`--model RUN/policy`. As a world model, the policy is that of `search:...,world=RUN`.

Kept: own actions in expert states, prediction and imitation with one set of weights, reflections
that compare outcomes. Changed: actions are tried on snapshots, the reward, the progress and the
admissible actions are predicted too, and both stages are samples of their data per iteration
(theirs: epochs). Reflections are rules ("outcomes"), a function, or a served model's (theirs: the
policy itself). The errors of the world model are measured on held-out tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np

from agentgym.agents import ExpertAgent, Outcome, View, WorldModel, make_agent, prediction_errors
from agentgym.agents.basic.world_model import Transition, question
from agentgym.agents.search.simulator import Simulator
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.errors import ConfigError
from agentgym.registration.making import tasks_of
from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.replay import ReplayBuffer
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.dataset import DataSet, DatasetConfig
from agentgym.trainers.imitation.demonstrations import demonstrate, recorded
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.rollout.action_room import action_room
from agentgym.trainers.rollout.branches import single_turn
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.task_sampling import draw_tasks
from agentgym.trainers.settings import Count, LossConfig, OptimisationConfig, Positive, defaults
from agentgym.trainers.settings.kinds import OFFLINE, RATIO, ImitationConfig
from agentgym.utils.importing import imported

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.policy_agent.agent import PolicyAgent

Tried = Sequence[tuple[str, Outcome]]
"""Actions and their outcomes."""
Reflect = Callable[[View, Tried], str]
"""Maps a state, and the expert's and the policy's actions with their outcomes, to a reflection. The
expert's comes first."""
REFLECT = (
    "You act in the environment of the instructions. Below are an observation, the best action, "
    "and other actions with their outcomes. Think, in the first person and in two or three "
    "sentences, about why the best action is better. Do not mention that outcomes are known."
)


@dataclass
class Config(ImitationConfig):
    """Settings of early experience."""

    lacks: ClassVar[tuple[str, ...]] = (*RATIO, *OFFLINE, "data", "data_mask", "general_data")

    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=1)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", ratio="none")
    demonstrations: Positive = 64
    """Episodes of the scripted expert."""
    own_actions: Positive = 3
    """Actions that the policy samples in each state of a demonstration."""
    world_iterations: Count = 20
    """First iterations, in which the policy learns to predict."""
    transitions: Positive = 256
    """Transitions in each of them."""
    held_out: Count = 4
    """Episodes of the expert on held-out tasks, on which errors of the world model are measured."""
    reflection: str = ""
    """Text before the expert's actions: their outcomes ("outcomes"), chat:MODEL@URL, or
    module:function (see `Reflect`). The environment must find the action behind it (wrapper
    `ExtractAction`)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.reflection:
            reflector(self.reflection)
            if self.rollout.constrain:
                raise ConfigError(
                    "constrain allows admissible actions only: leave out reflection, or set "
                    "constrain = False."
                )


@dataclass
class Explorer:
    """The expert, in whose states another agent tries actions.

    Args:
        agent: proposes the actions.
        count: number of actions that it samples in a state.
        reflect: writes the text before the expert's action. None: there is none.

    Attributes:
        found: the transitions of all actions, the expert's included.
    """

    agent: Any
    count: int
    reflect: Reflect | None = None
    name: str = "explorer"
    found: list[Transition] = field(default_factory=list)

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns the expert's actions, with reflections before them."""
        return [self._act(view) for view in views]

    def _act(self, view: View) -> str:
        [best] = ExpertAgent().act([view])
        own: Sequence[str] = ()
        if self.count:
            with Simulator(view, self.count) as sim:
                own = self.agent.act(sim.views_of([sim.root] * self.count))
        actions = list(dict.fromkeys([best, *own]))
        tried = list(zip(actions, outcomes(view, actions), strict=True))
        turns = tuple(view.history)
        self.found += [
            Transition(view.instructions, turns, view.observation, *each) for each in tried
        ]
        if self.reflect is None or len(tried) == 1:
            return best
        answer = f"{self.reflect(view, tried)}\n{best}"
        # A reflection that contains another action would be played in place of the expert's.
        return answer if bare(view.env, answer) == bare(view.env, best) else best


def outcomes(view: View, actions: Sequence[str]) -> list[Outcome]:
    """Returns the outcome of each action in a state, tried on snapshots."""
    with Simulator(view, len(actions)) as sim:
        nodes = [sim.step(sim.root, action) for action in actions]
    return [
        Outcome(
            node.observation,
            node.reward,
            float(node.info.get("progress", 0.0)),
            node.over,
            node.solved,
            tuple(node.info.get("admissible", ())),
        )
        for node in nodes
    ]


def by_outcomes(view: View, tried: Tried) -> str:
    """Returns the outcomes of the policy's actions and of the expert's, one line for each."""
    lines = [
        f"{bare(view.env, action)} leads to: {' '.join(found.observation.split())}"
        for action, found in tried
    ]
    return "\n".join([*lines[1:], lines[0]])


def bare(env: gymnasium.Env[Any, Any], answer: str) -> str:
    """Returns the action in an answer, without the format of `ExtractAction` if there is one."""
    return env.get_wrapper_attr("extract")(answer) or answer if extracts(env) else answer


def extracts(env: gymnasium.Env[Any, Any]) -> bool:
    """Returns whether an environment finds actions in longer answers."""
    return env.has_wrapper_attr("extract")


def reflector(source: str) -> Reflect:
    """Returns the function that writes reflections.

    Args:
        source: "outcomes", chat:MODEL@URL, or module:function.

    Raises:
        ConfigError: if there is no such function.
    """
    if source == "outcomes":
        return by_outcomes
    if not source.startswith("chat:"):
        return imported(source, "reflection")
    agent = make_agent(source)

    def reflect(view: View, tried: Tried) -> str:
        best = f"The best action: {bare(view.env, tried[0][0])}"
        parts = [
            view.instructions,
            "Observation:",
            view.observation,
            best,
            by_outcomes(view, tried),
        ]
        text = "\n\n".join(parts)
        [reply] = agent.act([View.of_text(REFLECT, text, info={"admissible": ()})])
        return " ".join(reply.split())

    return reflect


class EarlyExperience(DataSet):
    """Returns a sample of the transitions first, then of the demonstrations.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__(trainer, DatasetConfig(0, config.demonstrations), rewarded=False)
        self.config, self.predictions = config, ReplayBuffer(None)
        if trainer.policy.format.newline:
            raise ConfigError(
                "A predicted observation has several lines, and the actions of this model end with "
                "the first one: use a model with a chat template, or a new model."
            )
        if config.reflection and not extracts(trainer.pool.env(0)):
            raise ConfigError(
                "The environment must find the action behind a reflection: add the wrapper "
                'ExtractAction (wrap = ["ExtractAction"]), or leave out reflection.'
            )

    def _agent(self, sampling: Sampling | None = None) -> PolicyAgent:
        """Returns the policy as an agent, which samples as in rollouts by default."""
        from agentgym.trainers.policy_agent.agent import PolicyAgent

        return PolicyAgent(
            self.trainer.policy,
            self.config.context_settings(),
            sampling or self.config.sampling(),
            constrain=self.config.rollout.constrain,
        )

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns a random sample of the data of this stage."""
        config, self.env_steps = self.config, 0
        if not len(self.kept):
            self._collect(rng)
        predicts = iteration < config.world_iterations
        data = (self.predictions if predicts else self.kept).since(0)
        count = min(config.transitions if predicts else self.count, len(data))
        self.metrics = {"transitions": float(len(data))} if predicts else {}
        if iteration == config.world_iterations and config.held_out:
            self.metrics = self.errors()
        return Learn([data[i] for i in rng.choice(len(data), count, replace=False)])

    def _collect(self, rng: np.random.Generator) -> None:
        """Collects demonstrations, and the transitions of their states."""
        trainer, config = self.trainer, self.config
        starts = draw_tasks(
            trainer.tasks, config.demonstrations, rng, config.environment.train_tasks
        )
        reflect = reflector(config.reflection) if config.reflection else None
        agent = self._agent()
        explorer = Explorer(agent, config.own_actions, reflect)
        shown = self._explore(explorer, starts, "demonstrations")
        trainer.count(tokens=agent.generated)
        self.env_steps = sum(len(each.turns) for each in shown) + len(explorer.found)
        predictions = self._predictions(explorer.found, shown[0].env_id)
        if config.world_iterations and not predictions:
            raise ConfigError(
                "No outcome of an action fits into the context, so there is nothing to predict: "
                "raise max_tokens, or set world_iterations to 0."
            )
        self.kept.add(shown, 0)
        self.predictions.add(predictions, 0)

    def _explore(
        self, explorer: Explorer, starts: Sequence[tuple[str, int]], name: str
    ) -> list[Trajectory]:
        trainer, config = self.trainer, self.config
        constrain = config.rollout.constrain
        episodes = [
            EpisodeSpec(task, seed, stream(config.run.seed, name, i))
            for i, (task, seed) in enumerate(starts)
        ]
        room = action_room(trainer.policy, config.sampling(), constrain)
        return demonstrate(
            trainer.policy, trainer.pool, episodes, trainer.context, room, constrain, explorer
        )

    def _predictions(self, transitions: Sequence[Transition], env_id: str) -> list[Trajectory]:
        """Returns transitions as trajectories of one turn, whose action is the outcome."""
        trainer = self.trainer
        room = action_room(trainer.policy, self.config.sampling(), False)
        found = recorded(
            trainer.policy,
            [_recorded(each, env_id) for each in transitions],
            trainer.context,
            room,
            named="transitions to predict",
        )
        last = [(each, len(each.turns) - 1) for each in found if each.terminated]
        return [single_turn(each, turn) for each, turn in last]

    def state_dict(self) -> dict[str, Any]:
        """Returns the demonstrations and the transitions."""
        return super().state_dict() | {"predictions": self.predictions.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        super().load_state_dict(state)
        self.predictions.load_state_dict(state["predictions"])

    def publish(self, folder: Path) -> None:
        """Writes the errors of the world model at the end to `world_model.json`."""
        if self.config.held_out and len(self.kept):
            text = json.dumps(self.errors(), indent=1) + "\n"
            (folder / "world_model.json").write_text(text, encoding="utf-8")

    def errors(self) -> dict[str, float]:
        """Returns the errors of the world model on held-out tasks (see `prediction_errors`).

        A prediction has at most as many tokens as the longest outcome of the data.
        """
        trainer, config = self.trainer, self.config
        tasks = tasks_of(trainer.pool.env(0)).split("test")
        rng = np.random.default_rng(stream(config.run.seed, "held-out tasks"))
        explorer = Explorer(self._agent(), config.own_actions)
        self._explore(explorer, draw_tasks(tasks, config.held_out, rng), "held-out episodes")
        known = [t.turns[0] for t in self.predictions.since(0)]
        longest = max(turn.stop - turn.start for turn in known)
        greedy = Sampling(temperature=0.0, max_new_tokens=longest)
        found = prediction_errors(WorldModel(self._agent(greedy)), explorer.found)
        return {f"world_{name}": value for name, value in found.items()}


def _recorded(transition: Transition, env_id: str) -> RecordedEpisode:
    """Returns a transition as an episode whose last reply is the outcome."""
    asked = question(transition.view, transition.action)
    turns = [RecordedTurn(*turn, weight=0.0) for turn in transition.history]
    turns.append(RecordedTurn(asked.observation, transition.outcome.write()))
    return RecordedEpisode(turns, asked.instructions, env_id)


def build(config: Config) -> Algorithm:
    """Returns the parts of early experience."""
    return Algorithm(
        Imitation(), data="fixed", hooks=lambda trainer: EarlyExperience(trainer, config)
    )
