"""Settings of the environment, of the players of a game, and of rollouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from agentgym.registration.making import short_id
from agentgym.trainers.policy.sampling import Normalization
from agentgym.trainers.rollout.context import Mode
from agentgym.trainers.rollout.task_sampling import MINIMUM
from agentgym.trainers.settings.fields import (
    BY_MODEL,
    ByModel,
    Count,
    EnvIds,
    Fraction,
    KeyValues,
    NonNegative,
    Opponents,
    Positive,
)
from agentgym.trainers.settings.opponents import POOLS, Opponent, parse_opponents
from agentgym.trainers.settings.running import LOADED, SELF_PLAY
from agentgym.trainers.settings.schema import When, needs

POOLED = When("plays_pool", of="snapshots as opponents", remedy="opponents, as in past:5")
OWN_ROLES = When(
    "roles", but=("shared",), of="roles with their own policies", remedy="roles to separate"
)
LISTED = When("constrain")
VLLM = When("engine", ("vllm",))
IN_PROCESS = When("engine_url", (None,), of="vLLM in this process", remedy="engine_url to None")
SIZED = When(
    "group_size",
    but=tuple(range(1, MINIMUM + 1)),
    of=f"groups of more than {MINIMUM} episodes",
    remedy=f"group_size to at least {MINIMUM + 1}",
)
WORKERS = When("rollout_workers", of="rollout workers", remedy="rollout_workers above 0")

MIRROR = "opponents to 'mirror'"
SEVERAL = "several policies act and learn in one process"
LEARNERS = (
    needs(SEVERAL, MIRROR, of=("separate", "adapters"), mirrored=True),
    needs(
        SEVERAL, of=("separate", "adapters"),
        engine="own", rollout_workers=0, continuous_batching=False,
    ),
)  # fmt: skip
FOLLOWS = "a reference that moves follows one policy"
ALL_SEATS = needs(
    "opponents or explorers 'one', groups of one size take the seats in turn",
    f"{MIRROR} and explorers to 'all'", in_turn=False,
)  # fmt: skip
ONE_SERVER = "the server loads the weights of one process"
ONE_POLICY = needs("Rollout workers hold one policy", MIRROR, frozen=False)
IN_TURN = needs("several policies act in turn", MIRROR, frozen=False)
TWO_POLICIES = needs(
    "two policies act in turn in this process",
    rollout_workers=0, continuous_batching=False, engine="own",
)  # fmt: skip
ONE_AGENT = needs("the older copy plays turns in episodes of one agent", opponents="scripted")
SCORED = "the trained model scores whole actions, which vLLM does not do"
MIXED = needs(
    "actions come from a mixture, whose log-probabilities vLLM does not return",
    engine="own", check_logprobs=None,
)  # fmt: skip


@dataclass
class EnvironmentConfig:
    """The environment and its training tasks."""

    env_id: EnvIds = "AgentGym/NumberLine-v0"
    """Environment id (see `agentgym list`), or your_module:YourEnv-v0. Several ids are trained in
    one run. ID:arg=value,... has arguments of its own, as in KG-QA-v0:hops=1 KG-QA-v0:hops=2."""
    mix: Annotated[
        tuple[int, ...], When("several_ids", of="several environments", remedy="several env_id")
    ] = ()
    """How often each environment is played, if there are several, for example 2 1 1 (empty: equally
    often)."""
    env_kwargs: KeyValues = field(default_factory=dict)
    """Arguments of the environments, such as max_turns=20."""
    wrap: tuple[str, ...] = ()
    """Wrappers of the environment, the first one innermost: names of agentgym.wrappers or
    module:Class, with arguments as in ExtractAction:format=tags. Evaluations use them too."""
    train_tasks: Positive | None = None
    """Number of training tasks to use, from the first (None: all)."""
    curriculum: str = "uniform"
    """Sampling of training tasks: uniform, tasks with a medium success rate ("window") or in
    proportion to the standard deviation of their success ("spread"), failed tasks again
    ("failures"), tasks with the largest regret again ("regret"), tasks with the largest learning
    progress ("progress"), or the environments of several ids one after another ("levels").
    FILE.json holds a list of the tasks to use. module:function proposes tasks from success rates. A
    language model (chat:MODEL@URL, policy:FOLDER, model:NAME) chooses new tasks that are like the
    failed ones, or writes them in an environment with the wrapper WrittenGoal."""
    horizons: tuple[Positive, ...] = ()
    """Turn limits of successive stages, for example 5 10 20. Empty: the environment's limit."""
    horizon_every: Annotated[Count, When("horizons")] = 100
    """Iterations per stage of `horizons`. 0: each task has its own limit, the shortest of them
    within which all its successes so far are, and the last one before the first success (DART)."""
    env_workers: Count = 0
    """Threads that step slow environments (0: the main thread). Which of them act together then
    depends on their speed, and with it the last bits of a run."""

    env_failures: Fraction = 0.0
    """Share of the episodes of a rollout or a teacher that may fail: an episode whose environment
    raises an exception is played again in a fresh environment, with the same seeds. Above the
    share, the run stops (0: at the first exception)."""
    env_seconds: Annotated[float, Gt(0)] | None = None
    """Maximum seconds of a reset or a step of an environment. A slower one truncates its episode,
    and its environment is replaced (None: no limit)."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the environments."""
        return (self.env_id,) if isinstance(self.env_id, str) else tuple(self.env_id)

    @property
    def several_ids(self) -> bool:
        """Whether several environments are trained in."""
        return len(self.ids) > 1

    @property
    def label(self) -> str:
        """The ids without namespaces, joined by "+"."""
        return "+".join(short_id(id) for id in self.ids)

    def turn_limit(self, iteration: int) -> int | None:
        """Returns the turn limit of the episodes of an iteration, None for the environment's.

        It is the last one if each task has its own.
        """
        if not self.horizon_every:
            return self.horizons[-1] if self.horizons else None
        stage = min(iteration // self.horizon_every, len(self.horizons) - 1)
        return self.horizons[stage] if self.horizons else None

    @property
    def limits_by_task(self) -> tuple[int, ...]:
        """The turn limits among which each task has its own, none if they come in stages."""
        return self.horizons if not self.horizon_every else ()


@dataclass
class GameConfig:
    """The players of a game with several agents."""

    opponents: Opponents = "scripted"
    """Players of the other seats of a game. scripted: scripted players, of the level in
    `env_kwargs`. mirror: the policy itself, and all seats are trained. With the others, one seat is
    trained, in turn: scripted:LEVEL, past:K (the last K snapshots of the policy), winrate:R
    (snapshots, each taken when the policy wins at rate R), league (all snapshots, preferring those
    that win), psro, psro:uniform, psro:nash or psro:alpharank (the meta-strategy of their payoff
    matrix), policy:FOLDER, chat:MODEL@URL, or an agent around another one such as
    plan_execute:chat:MODEL@URL. Several are mixed by weights, as in mirror=0.7 past:5=0.3. In
    mirror past:5=auto, the share of snapshots follows the alarms of evaluations
    (`eval_exploitability`)."""
    learners: Annotated[tuple[str, ...], SELF_PLAY] = ()
    """Seats that are trained, such as player_0 (empty: all). With opponents mirror, scripted
    players play the other seats."""
    explorers: Annotated[Literal["all", "one"], SELF_PLAY, When("epsilon")] = "all"
    """Seats that explore with `epsilon`: all, or one in each episode, in turn. With "one" and a
    large `epsilon`, the policy's own actions meet random ones."""
    snapshot_every: Annotated[Positive, POOLED] = 10
    """Iterations between the snapshots of opponents past:K, league and psro."""
    payoff_deals: Annotated[
        Positive, When("plays_psro", of="opponents of psro", remedy="opponents to psro")
    ] = 100
    """Deals that each pair of snapshots plays, in all seats, for the payoff matrix of psro."""
    roles: Annotated[Literal["shared", "separate", "adapters"], SELF_PLAY, *LEARNERS] = "shared"
    """Policies of the roles of a game: one for all roles ("shared"), a full policy for each role
    ("separate"), or one frozen base model with a LoRA adapter for each role ("adapters")."""
    role_lr: Annotated[KeyValues, Ge(0.0), OWN_ROLES] = field(default_factory=dict)
    """Learning rates of roles that have a policy of their own, such as verifier=1e-5, in place of
    `lr`. 0 freezes a role: its policy, and its critic with a shared backbone."""
    alternate: Annotated[Count, OWN_ROLES] = 0
    """Train one role at a time, for this number of iterations (0: all roles at once)."""
    exchange: Annotated[Count, OWN_ROLES, needs(FOLLOWS, kl_reference="start")] = 0
    """Iterations after which each role takes over the policy, critic and optimiser of the role
    before it (0: never)."""

    @property
    def mixture(self) -> tuple[Opponent, ...]:
        """The components of `opponents`.

        Raises:
            ConfigError: for a kind, an argument or weights that are not known.
        """
        return parse_opponents(self.opponents)

    @property
    def scripted(self) -> bool:
        """Whether the policy plays a single seat of an environment, as a single agent."""
        return self.opponents in ("scripted", ("scripted",))

    @property
    def mirrored(self) -> bool:
        """Whether the policy plays all trained seats in every episode."""
        return all(each.kind == "mirror" for each in self.mixture)

    @property
    def in_turn(self) -> bool:
        """Whether the seats are trained, or explore, one after another."""
        return not self.scripted and (self.explorers == "one" or not self.mirrored)

    @property
    def pool(self) -> Opponent | None:
        """The opponent that plays members of the pool, if there is one."""
        return next((each for each in self.mixture if each.kind in POOLS), None)

    @property
    def plays_pool(self) -> bool:
        """Whether snapshots of the policy play some of the seats."""
        return self.pool is not None

    @property
    def automatic(self) -> bool:
        """Whether the alarms of self-play set the share of snapshots."""
        return self.pool is not None and self.pool.automatic

    @property
    def plays_psro(self) -> bool:
        """Whether the meta-strategy of snapshots plays some of the seats."""
        return self.pool is not None and self.pool.kind == "psro"

    @property
    def frozen(self) -> bool:
        """Whether frozen policies play some of the seats."""
        return any(each.kind in (*POOLS, "policy") for each in self.mixture)


@dataclass
class RolloutConfig:
    """Prompts, sampling of actions, and the size of a rollout."""

    context: Mode = "full"
    """Prompt: the full history ("full"), the last `window` turns ("window"), all earlier actions
    with the current observation ("actions"), or the current observation alone ("current")."""
    window: Annotated[int, When("context", ("window",))] = 3
    """Earlier turns in the context "window"."""
    instructions: bool = True
    """Start every prompt with the environment's instructions."""
    constrain: bool = False
    """Sample from the admissible actions if the environment lists them, and from well-formed calls
    if it has tools (with the extra `grammar`)."""
    stop: tuple[str, ...] = ()
    """Strings that end a free-form action, such as "</action>", besides the end tokens of the
    model. The action is the text before the string. `--stop=--`: one that begins with a dash."""
    max_new_tokens: ByModel[Positive] = BY_MODEL
    """Maximum length of a free-form action in tokens (None: 32, for a loaded model 256)."""
    episodes_per_iteration: Positive = 64
    """Episodes per iteration."""
    group_size: Positive = 1
    """Episodes per task and seed. Group-relative credit needs at least 2."""
    adaptive_groups: Annotated[bool, SIZED, ALL_SEATS] = False
    """Play more episodes of tasks with a medium success rate in earlier iterations, and fewer, at
    least 2, of tasks that always fail or succeed. `group_size` is then the mean."""
    num_envs: Positive = 64
    """Environments stepped in parallel."""
    engine: Literal["own", "vllm"] = "own"
    """Engine that generates the actions: the trained model itself ("own"), or vLLM in the same
    process, with a copy of the weights that follows every update ("vllm")."""
    engine_url: Annotated[str | None, VLLM, needs(ONE_SERVER, rollout_workers=0)] = None
    """Address of a running vLLM server that generates in place of this process, such as
    http://localhost:8000 (None: none)."""
    engine_memory: Annotated[float, Gt(0.0), Lt(1.0), VLLM, IN_PROCESS] = 0.3
    """Share of a GPU's memory that vLLM takes for its copy of the weights and its cache."""
    engine_sleep: Annotated[bool, VLLM, IN_PROCESS] = False
    """Free that memory while the model is trained: vLLM's weights wait in the CPU's memory."""
    rollout_workers: Annotated[Count, ONE_POLICY] = 0
    """Processes of Ray that play the episodes, each with a copy of the model and its share of
    `num_envs` (0: this process plays them)."""
    worker_cpus: Annotated[Positive, WORKERS] = 1
    """CPU cores of a rollout worker."""
    worker_gpus: Annotated[NonNegative, WORKERS] = 0.0
    """GPUs of a rollout worker, for example 0.5 for two workers on one."""
    ray_address: Annotated[str | None, WORKERS] = None
    """Address of the Ray cluster with the rollout workers, "auto" for the one that runs on this
    machine (None: start Ray on this machine)."""
    max_staleness: Annotated[Count, WORKERS] = 0
    """Maximum age of the weights that play an episode, in iterations. Above 0, rollout workers
    play while the policy is updated (0: they wait for the new weights)."""
    cross_policy: Annotated[Fraction, TWO_POLICIES, ONE_AGENT] = 0.0
    """Share of the turns that an older copy of the policy samples (cross-policy sampling, arXiv
    2510.04206). Episodes then reach states that the policy alone no longer visits."""
    cross_policy_every: Annotated[
        int, Ge(2), When("cross_policy", remedy="cross_policy above 0")
    ] = 10
    """Iterations after which the older copy is renewed, at least 2: with 1, it would never play."""
    generation_batch: Positive | None = None
    """Maximum number of actions generated together (None: by the device and the lengths of the
    prompts)."""
    continuous_batching: Annotated[bool, IN_TURN] = False
    """Step environments and begin their next actions while other actions are still generated. Meant
    for slow environments (env_workers): with fast ones on a CPU it gains nothing."""
    temperature: Annotated[float, Gt(0.0)] = 1.0
    """Sampling temperature, above 0: greedy rollouts never explore."""
    top_k: Count = 0
    """Top-k sampling: sample from the k most probable tokens (0: all)."""
    top_p: Annotated[float, Gt(0.0), Le(1.0)] = 1.0
    """Nucleus sampling: sample from the most probable tokens with this total probability."""
    normalization: Annotated[Normalization | None, LISTED, needs(SCORED, engine="own")] = None
    """Sampling of admissible actions. None: token by token. Otherwise a softmax over the
    log-probabilities of whole actions: their sum ("sum"), or the sum divided by the number of
    tokens ("token") or words ("word")."""
    epsilon: Annotated[float, Ge(0.0), Lt(1.0), LISTED, MIXED] = 0.0
    """Epsilon-greedy exploration: probability of a uniform choice among the admissible actions, in
    place of the policy's (with `constrain`). Behaviour log-probabilities are those of the mixture,
    and `importance_cap` corrects for them. Frozen opponents explore too. Evaluations do not."""
    max_tokens: int | None = None
    """Maximum length of prompt plus action in tokens (None: the limit of the model)."""
    template_kwargs: Annotated[KeyValues, LOADED] = field(default_factory=dict)
    """Arguments of the model's chat template, such as enable_thinking=false. An argument that the
    template never reads is refused."""


@dataclass
class GroupRolloutConfig(RolloutConfig):
    """Rollouts in groups, for recipes that compare episodes with the same start."""

    group_size: Annotated[int, Ge(2)] = 8
    """Episodes per task and seed, at least 2: an episode is compared with its group."""
