from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.tokens.trie import TokenTrie

sequences = st.lists(st.lists(st.integers(0, 4), max_size=5), max_size=12)


def test_children_are_sorted_and_leaves_know_their_sequence():
    trie = TokenTrie([[5, 1], [3], [5, 0]])
    assert trie.children(0) == (3, 5)
    five = trie.step(0, 5)
    assert trie.children(five) == (0, 1)
    assert trie.leaf(five) is None
    assert not trie.is_complete(five)
    assert trie.leaf(trie.step(five, 1)) == 0
    assert trie.leaf(trie.step(0, 3)) == 1
    assert trie.leaf(trie.step(five, 0)) == 2
    assert len(trie) == 5


def test_a_prefix_ends_inside_without_and_in_a_leaf_with_an_end_token():
    trie = TokenTrie([[1], [1, 2]])
    one = trie.step(0, 1)
    assert trie.is_complete(one)
    assert trie.children(one) == (2,)
    ended = TokenTrie([[1], [1, 2]], end=9)
    one = ended.step(0, 1)
    assert not ended.is_complete(one)
    assert ended.children(one) == (2, 9)
    assert ended.leaf(ended.step(one, 9)) == 0


def test_the_first_of_equal_sequences_counts():
    trie = TokenTrie([[7], [7], []])
    assert trie.leaf(trie.step(0, 7)) == 0
    assert trie.leaf(0) == 2


def test_a_token_that_does_not_follow_is_named():
    with pytest.raises(ValueError, match=r"Token 4 .* expected one of \(1,\)"):
        TokenTrie([[1]]).step(0, 4)


@given(sequences)
def test_with_an_end_token_exactly_the_sequences_end_in_leaves(lists: list[list[int]]):
    trie = TokenTrie(lists, end=99)
    for sequence in lists:
        node = trie.walk([*sequence, 99])
        assert node is not None
        assert trie.children(node) == ()
        assert trie.leaf(node) == lists.index(sequence)
    leaves = [node for node in range(len(trie)) if trie.is_complete(node)]
    assert len(leaves) == len({tuple(s) for s in lists})
    assert all(trie.is_complete(n) for n in range(1, len(trie)) if not trie.children(n))


@given(sequences, st.lists(st.integers(0, 4), max_size=6))
def test_walk_stays_in_the_tree_exactly_for_prefixes(lists: list[list[int]], tokens: list[int]):
    inside = any(sequence[: len(tokens)] == tokens for sequence in lists) or not tokens
    assert (TokenTrie(lists).walk(tokens) is not None) == inside
