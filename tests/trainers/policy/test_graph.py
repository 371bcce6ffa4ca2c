"""Decoding in steps of static shapes: the actions, log-probs and support of token by token.

`Recorded` repeats a step as a CUDA graph does: the same operations at the same addresses, without
the step's Python code.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from agentgym.errors import LogitsError
from agentgym.tokens.trie import TokenTrie
from agentgym.trainers.policy import graph_decoder
from agentgym.trainers.policy.engine import OwnEngine
from agentgym.trainers.policy.graph_capture import Capture, NotStaticError, check_static
from agentgym.trainers.policy.graph_decoder import GraphDecoder
from agentgym.trainers.policy.graph_plan import rounded
from agentgym.trainers.policy.prefix_cache import PrefixCache
from agentgym.trainers.policy.sampling import Request, Sample, Sampling
from agentgym.trainers.policy.trie_table import TrieTable

from .test_generation import CHOICES
from .test_serve import Episodes

SAMPLINGS = [
    Sampling(max_new_tokens=20),
    Sampling(temperature=0.6, top_k=5, max_new_tokens=6),
    Sampling(temperature=1.7, top_p=0.7, max_new_tokens=18),
    Sampling(temperature=0, max_new_tokens=6),
    Sampling(max_new_tokens=18, stop=("e", "th")),
]
KINDS = {
    "free": [None],
    "listed": [each for each in CHOICES if each is not None],
    "both": CHOICES,
}


class Recorded(TorchDispatchMode):
    """Records the operations of a step, and repeats them on the same tensors."""

    def __init__(self, step: Callable[[], None]):
        super().__init__()
        check_static(step)
        self._calls: list[tuple[Any, Any, Any, list[Tensor]]] = []
        with self:
            step()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        same = tree_map(_address, (args, kwargs or {}))
        self._calls.append((func, *same, tensors))
        return result

    def __call__(self) -> None:
        for func, args, kwargs, tensors in self._calls:
            again = [
                each for each in tree_leaves(func(*args, **kwargs)) if isinstance(each, Tensor)
            ]
            for own, new in zip(tensors, again, strict=True):
                if own.data_ptr() != new.data_ptr():  # neither a view nor in place
                    own.copy_(new)


def _address(value: Any) -> Any:
    """Returns a tensor that stays where it is if `data` of the given one is replaced."""
    return value.detach() if isinstance(value, Tensor) else value


def requests_of(policy: Any, lists: Any, turn: int = 0, count: int = 7) -> list[Request]:
    rng = np.random.default_rng(turn)
    vocabulary = len(policy.tokenizer)
    return [
        Request(
            rng.integers(2, vocabulary, size=int(rng.integers(1, 40))).astype(np.int32),
            np.random.default_rng([turn, i]),
            lists[i % len(lists)],
            slot=i,
        )
        for i in range(count)
    ]


def act_twice(policy: Any) -> list[Sample]:
    sampling = Sampling(max_new_tokens=4)
    return [s for _ in range(2) for s in policy.act(requests_of(policy, CHOICES), sampling)]


def assert_equal(found: list[Sample], expected: list[Sample]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-6, rtol=1e-6)
        assert (one.text, one.finished, one.version) == (other.text, other.finished, other.version)
        assert (one.support is None) == (other.support is None)
        if one.support is not None and other.support is not None:
            assert one.support.offsets.tolist() == other.support.offsets.tolist()
            assert one.support.ids.tolist() == other.support.ids.tolist()


@pytest.fixture
def both(make_policy: Any) -> Any:
    """Returns `make(kind)`: a policy, and functions that use graphs and do not use them."""

    def make(kind: str, capture: Any = None, **changes: Any) -> Any:
        policy = make_policy(kind, **changes)
        policy.model.double()  # in single precision, the order of sums, and so the CPU, decides
        decoder = GraphDecoder(policy, capture)
        return (
            policy,
            lambda: policy.use(OwnEngine(policy, graphs=decoder)),
            lambda: policy.use(OwnEngine(policy, graphs=False)),
        )

    return make


@pytest.mark.parametrize(
    ("kind", "lists"), [*(("llama", each) for each in KINDS), ("gpt2", "both"), ("qwen2", "both")]
)
def test_samples_are_those_of_token_by_token(both: Any, kind: str, lists: str):
    policy, with_graphs, without = both(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sampling in SAMPLINGS:
            samples, passes = [], []
            for use in (without, with_graphs):
                use()
                policy.stats.reset()
                session = policy.session()
                samples.append([])
                for turn in range(2):
                    requests = requests_of(policy, KINDS[lists], turn)
                    samples[-1] += policy.act(requests, sampling, session)
                passes.append(policy.stats.forward_passes)
                assert policy.stats.new_tokens == sum(len(s.tokens) for s in samples[-1])
            assert_equal(samples[1], samples[0])
            assert passes[1] < passes[0] + 2 * 16  # the steps after the last row has ended


@pytest.mark.parametrize("lists", KINDS)
def test_a_recorded_step_is_repeated_without_its_code(both: Any, lists: str, monkeypatch: Any):
    """Other rows, tries and weights reach the step by the values of tensors alone."""
    policy, with_graphs, without = both("llama", Recorded)
    for turn in range(3):
        requests = [requests_of(policy, KINDS[lists], turn) for _ in range(2)]
        without()
        expected = policy.act(requests[0], Sampling(max_new_tokens=12))
        with_graphs()
        assert_equal(policy.act(requests[1], Sampling(max_new_tokens=12)), expected)
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.mul_(1.1)


def test_replaced_weights_are_captured_again(both: Any):
    policy, with_graphs, without = both("llama", Recorded)
    for _ in range(2):
        without()
        expected = policy.act(requests_of(policy, [None]), Sampling())
        with_graphs()
        assert_equal(policy.act(requests_of(policy, [None]), Sampling()), expected)
        for parameter in policy.parameters():
            parameter.data = parameter.data * 1.2


@pytest.mark.parametrize("kind", ["mistral", "mamba"])
def test_other_caches_generate_token_by_token_and_a_warning_is_given_once(both: Any, kind: str):
    policy, with_graphs, without = both(kind)
    without()
    expected = policy.act(requests_of(policy, CHOICES), Sampling(max_new_tokens=4))
    with_graphs()
    with pytest.warns(UserWarning, match="without CUDA graphs.*columns of their own") as warned:
        found = act_twice(policy)
    assert len(warned) == 1
    assert_equal(found, expected * 2)


def test_a_model_that_needs_the_host_generates_token_by_token(both: Any):
    policy, with_graphs, without = both("llama")
    layer = policy.model.model.layers[0]
    layer.register_forward_pre_hook(lambda module, args: float(args[0].sum()) * 0 or None)
    without()
    expected = policy.act(requests_of(policy, CHOICES), Sampling(max_new_tokens=4))
    with_graphs()
    with pytest.warns(UserWarning, match="cannot be captured.*_local_scalar_dense") as warned:
        found = act_twice(policy)
    assert len(warned) == 1
    assert_equal(found, expected * 2)


@pytest.mark.parametrize("limit", ["GRAPHS", "CPU_BYTES"])
def test_limits_of_memory_change_no_action(both: Any, limit: str, monkeypatch: Any):
    policy, with_graphs, without = both("llama")
    monkeypatch.setattr(graph_decoder, limit, 1)
    without()
    expected = policy.act(requests_of(policy, CHOICES), Sampling(max_new_tokens=40))
    with_graphs()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = policy.act(requests_of(policy, CHOICES), Sampling(max_new_tokens=40))
    assert_equal(found, expected)
    assert [str(each.message) for each in warned if "GB" in str(each.message)] == [
        str(each.message) for each in warned
    ]
    assert len(warned) == (limit == "CPU_BYTES")


def test_steered_and_exploring_policies_generate_token_by_token(both: Any):
    policy, with_graphs, without = both("llama")
    for sampling, steering in ((Sampling(epsilon=0.3), None), (Sampling(), torch.nn.Softmax(-1))):
        policy.steer(None if steering is None else _Steering())
        without()
        expected = policy.act(requests_of(policy, CHOICES), sampling)
        with_graphs()
        with pytest.warns(UserWarning, match="without CUDA graphs"):
            assert_equal(policy.act(requests_of(policy, CHOICES), sampling), expected)


class _Steering(torch.nn.Module):
    def forward(self, hidden: Tensor, logits: Tensor) -> Tensor:
        return logits * 1.5


@pytest.mark.parametrize("slots", [2, 9])
@pytest.mark.parametrize("capture", [None, Recorded])
def test_episodes_that_go_on_while_others_generate(both: Any, slots: int, capture: Any):
    """Rows come and go, move in the cache, and are evicted from it."""
    policy, with_graphs, without = both("llama", capture, batch_size=4)
    per_token = sum(shape.bytes for shape in policy.layer_shapes)
    logs = []
    for use in (without, with_graphs):
        use()
        episodes = Episodes(7, turns=4, late=1)
        session = PrefixCache(max_bytes=slots * 128 * per_token)
        policy.serve(episodes.first(), Sampling(max_new_tokens=12), session, episodes.answer)
        logs.append(episodes.log)
    for slot, expected in logs[0].items():
        assert len(expected) == 4
        assert_equal(logs[1][slot], expected)


class Alternating(GraphDecoder):
    """Declines every other time, as when rows are in progress beside a long prompt."""

    declines = True

    def run(self, *args: Any, **kwargs: Any) -> bool:
        self.declines = not self.declines
        return not self.declines and super().run(*args, **kwargs)


def test_tokens_between_that_are_generated_one_by_one(both: Any):
    policy, _, without = both("llama")
    sampling = Sampling(max_new_tokens=40)
    without()
    expected = policy.act(requests_of(policy, CHOICES), sampling)
    policy.use(OwnEngine(policy, graphs=Alternating(policy)))
    assert_equal(policy.act(requests_of(policy, CHOICES), sampling), expected)


def test_weights_that_change_within_an_action(both: Any):
    """Each token has the version of the weights that sampled it."""
    policy, with_graphs, _ = both("llama", Recorded, batch_size=4)
    with_graphs()
    policy.version = 0

    class Renewed(Episodes):
        def answer(self, done: Any, busy: bool) -> Any:
            if len(self.calls) == 2:
                policy.version = 1
                with torch.no_grad():
                    for parameter in policy.parameters():
                        parameter.mul_(0.5)
            if any(sample.token_versions is not None for _, sample in done):
                changed.extend(pair for pair in done if pair[1].token_versions is not None)
            return super().answer(done, busy)

    changed: list[tuple[Request, Sample]] = []
    episodes = Renewed(6, turns=4)
    policy.serve(episodes.first(), Sampling(max_new_tokens=40), policy.session(), episodes.answer)
    assert changed
    for request, sample in changed:
        assert sample.token_versions is not None
        first = int((sample.token_versions == 0).sum())
        assert 0 < first < len(sample.tokens)
        ids = torch.from_numpy(np.concatenate([request.prompt, sample.tokens]))[None].long()
        with torch.no_grad():
            logits = policy.model(input_ids=ids).logits[0].log_softmax(-1)
        places = np.arange(len(request.prompt) - 1 + first, ids.shape[1] - 1)
        expected = logits[places, ids[0, places + 1]].numpy()
        if request.candidates is None:
            np.testing.assert_allclose(sample.logprobs[first:], expected, atol=1e-5)


def test_weights_that_are_not_finite(both: Any):
    policy, with_graphs, _ = both("llama")
    with_graphs()
    policy.act(requests_of(policy, [None]), Sampling())
    hook = policy.model.model.layers[0].register_forward_pre_hook(_late_nan())
    with pytest.raises(LogitsError):
        policy.act(requests_of(policy, [None]), Sampling())
    hook.remove()
    assert len(policy.act(requests_of(policy, [None]), Sampling())) == 7


def _late_nan() -> Callable[..., Any]:
    """Returns a hook that leaves prompts as they are and makes later hidden states NaN."""

    def hook(module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (args[0] * float("nan"), *args[1:]) if args[0].shape[1] == 1 else args

    return hook


HOST: dict[str, Callable[[Tensor], Any]] = {
    "a number": lambda x: x[0].item(),
    "a condition": lambda x: bool((x > 1).any()),
    "a mask": lambda x: x[x > 1],
    "a written mask": lambda x: x.__setitem__(x > 1, 0.0),
    "places": lambda x: torch.where(x > 1),
    "counts": lambda x: torch.repeat_interleave(x, x.long()),
    "distinct values": torch.unique,
}


def _static(x: Tensor) -> None:
    x[x.long()] = x.masked_fill(x > 1, 0.0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", HOST)
def test_operations_that_need_the_host_are_found(name: str, mode: Any):
    with mode():
        x = torch.arange(4.0)
        with pytest.raises(NotStaticError):
            check_static(partial(HOST[name], x))
        check_static(partial(_static, x))


class Graph:
    """Stands for a CUDA graph: `with` records that a step is captured into it."""

    def __init__(self) -> None:
        self.pooled: object = None
        self.runs: list[str] = []

    def pool(self) -> object:
        return self.pooled

    def replay(self) -> None:
        self.runs.append("replay")


def test_graphs_share_memory_as_long_as_one_of_them_is_kept(monkeypatch: Any):
    cuda, runs, current = MagicMock(), list[str](), ["run"]

    @contextmanager
    def graph(graph: Graph, pool: object, stream: Any, capture_error_mode: str) -> Any:
        graph.pooled = object() if pool is None else pool
        current[0] = "captured"
        yield
        current[0] = "run"

    for name in ("Stream", "current_stream", "set_stream", "stream", "device"):
        monkeypatch.setattr(torch.cuda, name, getattr(cuda, name))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    capture = Capture(torch.device("cuda"))

    def captured() -> Any:
        runs.clear()
        found = capture(lambda: runs.append(current[0]))
        assert runs == ["run", "run", "captured"]
        return found

    first, second = captured(), captured()
    second()
    assert second.__self__.runs == ["replay"]
    pool = first.__self__.pooled
    assert second.__self__.pooled is pool
    del first, second
    assert captured().__self__.pooled is not pool
    cuda.set_stream.assert_called_with(cuda.current_stream())


def test_a_table_has_the_paths_of_its_trie():
    sequences = [[5, 6, 7], [5, 6, 8, 9], [5, 4], [3, 2, 1, 0]]
    trie = TokenTrie(sequences, end=99)
    table, [first, second] = TrieTable.joined([TrieTable.of(TokenTrie([[7], [8]], end=99)),
                                               TrieTable.of(trie)])  # fmt: skip
    assert first == 0

    def paths(branch: int) -> list[list[int]]:
        found = []
        for edge in range(table.first[branch], table.first[branch] + table.count[branch]):
            start, length, target = table.start[edge], table.length[edge], table.target[edge]
            tokens = table.tokens[start : start + length].tolist()
            found += [tokens + rest for rest in ([[]] if target < 0 else paths(target))]
        return found

    assert sorted(paths(second)) == sorted([*each, 99] for each in sequences)
    # 3 2 1 0 99 is one edge. 5, then 6, then 7 99 or 8 9 99, of which the last is not fed.
    one = TrieTable.of(trie)
    assert one.steps_after(one.branch[0], 1) == 2
    assert [rounded(n, 2) for n in (1, 2, 3, 5, 6, 7, 33, 48, 49)] == [1, 2, 3, 6, 6, 8, 48, 48, 64]
