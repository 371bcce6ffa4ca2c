"""The shop's search engine: BM25 as Lucene computes it, over a memory-mapped inverted index.

The formula is that of Lucene's BM25Similarity (Robertson & Zaragoza, "The Probabilistic Relevance
Framework", 2009, without the constant factor k1 + 1) with the original's k1 = 0.9, b = 0.4. Also
kept are what decides ties: the one-byte document length, single precision where Lucene has it,
and the asin as the last criterion.
"""

from __future__ import annotations

import random
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from agentgym.envs.webshop import storage
from agentgym.envs.webshop.analysis import term, terms, words
from agentgym.envs.webshop.catalogue import Catalogue, Product

FORMAT = 1
RESULT_LIMIT = 50
K1, B = np.float32(0.9), np.float32(0.4)
_CHUNK = 20_000  # documents in memory at a time during the building of an index
_open: dict[Path, SearchIndex] = {}
_lock = threading.RLock()


class SearchIndex:
    """An inverted index of a catalogue, memory-mapped and shared by everything in the process.

    Attributes:
        catalogue: The products.
    """

    def __init__(self, catalogue: Catalogue, directory: Path):
        self.catalogue = catalogue
        self.directory = directory
        self._terms = storage.StringTable(directory, "terms")
        self._starts = storage.load(directory, "term_starts")
        self._docs = storage.load(directory, "docs")
        self._saturation = storage.load(directory, "saturation")
        self._asin_rank = storage.load(directory, "asin_rank")

    @classmethod
    def load(cls, catalogue: Catalogue) -> SearchIndex:
        """Opens the index of a catalogue, building it first where it is not kept yet.

        The same catalogue gives the same object. Building takes a second for 1,000 products and
        minutes for a million.
        """
        target = catalogue.directory / f"search-{FORMAT}"
        with _lock:
            if target not in _open:
                built = storage.built(target, lambda to: _write(to, catalogue))
                _open[target] = cls(catalogue, built)
            return _open[target]

    @classmethod
    def _opened(cls, catalogue: Catalogue, directory: Path) -> SearchIndex:
        with _lock:
            if directory not in _open:
                _open[directory] = cls(catalogue, directory)
            return _open[directory]

    def __reduce__(self) -> tuple[Callable[..., SearchIndex], tuple[Catalogue, Path]]:
        return SearchIndex._opened, (self.catalogue, self.directory)

    def search(self, query: str, k: int = RESULT_LIMIT) -> np.ndarray:
        """Returns the indices of the best k products, best first, int64 (<= k,).

        A product without any word of the query is not found.
        """
        return self.search_scored(query, k)[0]

    def search_scored(self, query: str, k: int = RESULT_LIMIT) -> tuple[np.ndarray, np.ndarray]:
        """Returns the indices of the best k products, best first, and their scores, float32."""
        postings = [
            (self._docs[first:last], weight * self._saturation[first:last])
            for weight, first, last in self._weighted_postings(query)
        ]
        if not postings or k < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        docs = np.concatenate([part for part, _ in postings])
        impacts = np.concatenate([part for _, part in postings])
        # Lucene adds single-precision parts in double precision and rounds the sum.
        scores = np.bincount(docs, weights=impacts).astype(np.float32)
        found = np.flatnonzero(scores)
        if len(found) > k:
            best = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= best]
        order = np.lexsort((self._asin_rank[found], -scores[found]))[:k]
        return found[order], scores[found[order]]

    def _weighted_postings(self, query: str) -> Iterator[tuple[np.float32, int, int]]:
        """Yields, for each term of a query, its weight and where its postings start and end."""
        total = len(self.catalogue)
        for word, times in Counter(terms(query)).items():
            place = self._terms.find(word)
            if place is not None:
                first, last = int(self._starts[place]), int(self._starts[place + 1])
                idf = np.float32(np.log(1 + (total - (last - first) + 0.5) / (last - first + 0.5)))
                yield np.float32(times) * idf, first, last


def find_products(index: SearchIndex, keywords: str, rng: random.Random) -> np.ndarray:
    """Returns product indices, int64, for what was typed, special keywords included.

    Args:
        index: The search index.
        keywords: `<r>`: 50 random products; `<c> category`, `<q> query`, `<a> attribute`: all
            products with exactly this category (one word), query or attribute, in catalogue
            order; anything else: the best 50.
        rng: Draws the random products.
    """
    catalogue = index.catalogue
    kind, *rest = keywords.split(" ")
    if kind == "<r>":
        count = min(RESULT_LIMIT, len(catalogue))
        return np.array(rng.sample(range(len(catalogue)), count), np.int64)
    if kind == "<c>":
        return catalogue.with_category(rest[0].strip() if rest else "")
    if kind == "<q>":
        return catalogue.with_query(" ".join(rest).strip())
    if kind == "<a>":
        return catalogue.with_attribute(" ".join(rest).strip())
    return index.search(keywords)


def document(product: Product) -> str:
    """Returns the text under which a product is found."""
    options = ", and ".join(
        f"{name}: {', '.join(values)}" for name, values in product.options.items()
    )
    bullet = product.bullet_points[0] if product.bullet_points else ""
    return f"{product.title} {product.description} {bullet} {options}".lower()


def encoded_length(length: np.ndarray) -> np.ndarray:
    """Returns document lengths as they come out of Lucene's one-byte code.

    Exact below 24, above it 24 + (n - 24) with all but its 4 leading bits cleared.
    """
    above = np.maximum(length.astype(np.int64) - 24, 0)
    shift = np.maximum(np.frexp(above.astype(np.float64))[1].astype(np.int64) - 4, 0)
    return np.where(length < 24, length, 24 + ((above >> shift) << shift))


class _TermCodes(dict[str, int]):
    """Word -> code of its term, -1 for a stop word; analyses a word when it first comes up."""

    def __init__(self) -> None:
        super().__init__()
        self.codes_of: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        found = term.__wrapped__(word)
        code = -1 if found is None else self.codes_of.setdefault(found, len(self.codes_of))
        self[word] = code
        return code


def _write(folder: Path, catalogue: Catalogue) -> None:
    """Writes an index: the postings of some documents at a time, then all of them by term."""
    codes = _TermCodes()
    lengths = np.zeros(len(catalogue), np.int64)
    chunks = 0
    products = iter(catalogue)
    for first in range(0, len(catalogue), _CHUNK):
        chunk = _postings(islice(products, _CHUNK), codes, first, lengths)
        np.save(folder / f"chunk-{chunks}.npy", chunk)
        chunks += 1
    encoded = sorted((storage.encode(name), code) for name, code in codes.codes_of.items())
    place = np.empty(len(encoded), np.int64)
    place[[code for _, code in encoded]] = np.arange(len(encoded))
    storage.StringTable.write(folder, "terms", [name for name, _ in encoded])
    del codes, encoded
    _merge(folder, chunks, place, _length_norms(lengths))
    ranks = np.empty(len(catalogue), np.int32)
    ranks[catalogue.by_asin] = np.arange(len(catalogue), dtype=np.int32)
    storage.save(folder, "asin_rank", ranks, "int32")


def _postings(
    products: Iterator[Product], codes: _TermCodes, first: int, lengths: np.ndarray
) -> np.ndarray:
    """Returns (code, document, times) of a chunk, int32 (3, n), sorted by code, then document."""
    flat = array("i")
    ends = []
    for product in products:
        flat.extend(map(codes.__getitem__, words(document(product))))
        ends.append(len(flat))
    all_codes = np.array(flat, np.int64)
    docs = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    kept = all_codes >= 0
    all_codes, docs = all_codes[kept], docs[kept]
    lengths[first : first + len(ends)] = np.bincount(docs, minlength=len(ends))
    pairs, times = np.unique(all_codes * len(ends) + docs, return_counts=True)
    return np.stack((pairs // len(ends), first + pairs % len(ends), times)).astype(np.int32)


def _length_norms(lengths: np.ndarray) -> np.ndarray:
    """Returns k1 (1 - b + b length / mean length) of each document, float32."""
    mean = np.float32(lengths.sum() / np.count_nonzero(lengths)) if lengths.any() else np.float32(1)
    one = np.float32(1)
    return K1 * ((one - B) + B * encoded_length(lengths).astype(np.float32) / mean)


def _merge(folder: Path, chunks: int, place: np.ndarray, norms: np.ndarray) -> None:
    """Turns the chunks, which it deletes, into postings sorted by term, then document."""
    files = [folder / f"chunk-{i}.npy" for i in range(chunks)]
    counts = np.zeros(len(place), np.int64)
    for file in files:
        counts += np.bincount(place[np.load(file, mmap_mode="r")[0]], minlength=len(place))
    starts = np.zeros(len(place) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    storage.save(folder, "term_starts", starts, "int64")
    total = int(starts[-1])
    docs, saturation = np.empty(total, np.int32), np.empty(total, np.float32)
    free = starts[:-1].copy()
    for file in files:
        codes, chunk_docs, times = np.load(file)
        places = place[codes]
        runs = np.bincount(places, minlength=len(place))
        # Within a chunk postings of a term are neighbours: number them from its first free slot.
        new = np.flatnonzero(np.diff(codes, prepend=-1))
        within = np.arange(len(codes)) - np.repeat(new, np.diff(new, append=len(codes)))
        slots = free[places] + within
        docs[slots] = chunk_docs
        frequency = times.astype(np.float64)
        saturation[slots] = frequency / (frequency + norms[chunk_docs])
        free += runs
        file.unlink()
    storage.save(folder, "docs", docs, "int32")
    storage.save(folder, "saturation", saturation, "float32")
