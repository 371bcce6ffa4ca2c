"""The shop's search engine: BM25 as in Lucene, over a memory-mapped inverted index.

The formula is that of Lucene's BM25Similarity (Robertson & Zaragoza, "The Probabilistic Relevance
Framework", 2009, without the constant factor k1 + 1) with the original's k1 = 0.9, b = 0.4. Ties
are also broken as in Lucene: by the one-byte document length, single precision in the same places,
and the ASIN as the last criterion.
"""

from __future__ import annotations

import random
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from agentgym.envs.webshop.analysis import term, terms, words
from agentgym.envs.webshop.catalogue import Catalogue, Product
from agentgym.utils import cache

FORMAT = 1
RESULT_LIMIT = 50
K1, B = np.float32(0.9), np.float32(0.4)
_CHUNK = 20_000  # documents in memory at a time while building an index
_DENSE_LIMIT = 100_000  # up to this many postings, it is faster to score all documents
_LOOKUP_COST = 16  # cost of finding a document in postings, relative to adding one posting
_WORTH_CHECKING = 0.3  # try to prune below this ratio of remaining to processed bounds
_open: dict[Path, SearchIndex] = {}
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class _Postings:
    """The range of a term's postings, its weight, and an upper bound on its contribution."""

    weight: np.float32
    first: int
    last: int
    bound: float


class SearchIndex:
    """An inverted index of a catalogue, memory-mapped and shared within the process.

    Attributes:
        catalogue: The products.
    """

    def __init__(self, catalogue: Catalogue, directory: Path):
        self.catalogue = catalogue
        self.directory = directory
        self._terms = cache.StringTable(directory, "terms")
        self._starts = cache.load(directory, "term_starts")
        self._docs = cache.load(directory, "docs")
        self._saturation = cache.load(directory, "saturation")
        self._strongest = cache.load(directory, "strongest")
        self._asin_rank = cache.load(directory, "asin_rank")
        self._total = int(cache.load(directory, "total")[0])  # documents with any term
        self._dense_limit = _DENSE_LIMIT

    @classmethod
    def load(cls, catalogue: Catalogue) -> SearchIndex:
        """Opens the index of a catalogue, building it first if it is not cached.

        The same catalogue gives the same object. Building takes a second for 1,000 products and
        minutes for a million.
        """
        target = catalogue.directory / f"index-{FORMAT}"
        with _lock:
            if target not in _open:
                built = cache.built(target, lambda to: _write(to, catalogue))
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
        postings = list(self._postings_of(query))
        if not postings or k < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        # Lucene sums single-precision parts in double precision and rounds the sum.
        if sum(posting.last - posting.first for posting in postings) > self._dense_limit:
            found = self._candidates(postings, k)
            sums = np.zeros(len(found))
            for posting in postings:
                sums += posting.weight * self._saturation_of(posting, found)
            scores = sums.astype(np.float32)
        else:
            docs = np.concatenate([self._docs[p.first : p.last] for p in postings])
            parts = [p.weight * self._saturation[p.first : p.last] for p in postings]
            scores = np.bincount(docs, weights=np.concatenate(parts)).astype(np.float32)
            found = np.flatnonzero(scores > 0)
            scores = scores[found]
        if len(found) > k:
            kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
            found, scores = found[kept], scores[kept]
        order = np.lexsort((self._asin_rank[found], -scores))[:k]
        return found[order].astype(np.int64), scores[order]

    def _postings_of(self, query: str) -> Iterator[_Postings]:
        """Yields the postings of each distinct term of a query that any document has."""
        for word, times in Counter(terms(query)).items():
            place = self._terms.find(word)
            if place is not None:
                first, last = int(self._starts[place]), int(self._starts[place + 1])
                having, without = last - first, self._total - (last - first)
                idf = np.float32(np.log(1 + (without + 0.5) / (having + 0.5)))
                weight = np.float32(times) * idf
                yield _Postings(weight, first, last, float(weight * self._strongest[place]))

    def _saturation_of(self, posting: _Postings, docs: np.ndarray) -> np.ndarray:
        """Returns the saturation of a term in some documents, float32, 0 where it is absent."""
        part = self._docs[posting.first : posting.last]
        places = np.minimum(np.searchsorted(part, docs), len(part) - 1)
        saturation = self._saturation[posting.first : posting.last][places]
        return np.where(part[places] == docs, saturation, np.float32(0))

    def _candidates(self, postings: list[_Postings], k: int) -> np.ndarray:
        """Returns documents, int32, ascending, that include the best k.

        Terms are processed in the order of their upper bounds (MaxScore: Turtle & Flood 1995). Once
        the best k scores so far exceed the sum of the remaining bounds, no new document can enter,
        and documents that cannot catch up are dropped after each further term.
        """
        scores = np.zeros(len(self.catalogue))
        found = np.empty(0, np.int32)
        reached, remaining, closed = 0.0, sum(p.bound for p in postings) * 1.00001, False
        for posting in sorted(postings, key=lambda p: -p.bound):
            part = self._docs[posting.first : posting.last]
            if closed and len(part) > _LOOKUP_COST * len(found):
                scores[found] += posting.weight * self._saturation_of(posting, found)
            else:
                scores[part] += posting.weight * self._saturation[posting.first : posting.last]
            reached += posting.bound
            remaining -= posting.bound
            if not closed and remaining < _WORTH_CHECKING * reached:
                found = np.flatnonzero(scores > 0).astype(np.int32)
            if len(found) > k:
                values = scores[found]
                threshold = np.partition(values, len(values) - k)[len(values) - k]
                closed = closed or threshold > remaining
                if closed:
                    found = found[values + remaining >= threshold * 0.99999]
        return found


def find_products(index: SearchIndex, keywords: str, rng: random.Random) -> np.ndarray:
    """Returns the product indices, int64, of a search, including special keywords.

    Args:
        index: The search index.
        keywords: `<r>` finds 50 random products. `<c> category`, `<q> query` and `<a> attribute`
            find all products with exactly this category (one word), query or attribute, in
            catalogue order. Other keywords find the best 50 products.
        rng: Samples the random products.
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
    """Returns the indexed text of a product."""
    options = ", and ".join(
        f"{name}: {', '.join(values)}" for name, values in product.options.items()
    )
    bullet = product.bullet_points[0] if product.bullet_points else ""
    return f"{product.title} {product.description} {bullet} {options}".lower()


def encoded_length(length: np.ndarray) -> np.ndarray:
    """Returns document lengths rounded by Lucene's one-byte code.

    Lengths below 24 are exact. Above, n - 24 keeps its 4 leading bits.
    """
    above = np.maximum(length.astype(np.int64) - 24, 0)
    shift = np.maximum(np.frexp(above.astype(np.float64))[1].astype(np.int64) - 4, 0)
    return np.where(length < 24, length, 24 + ((above >> shift) << shift))


class _TermCodes(dict[str, int]):
    """Word -> code of its term, -1 for a stop word, computed on first access."""

    def __init__(self) -> None:
        super().__init__()
        self.codes_of: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        found = term.__wrapped__(word)
        code = -1 if found is None else self.codes_of.setdefault(found, len(self.codes_of))
        self[word] = code
        return code


def _write(folder: Path, catalogue: Catalogue) -> None:
    """Writes an index: postings in chunks of documents, then all postings by term."""
    codes = _TermCodes()
    lengths = np.zeros(len(catalogue), np.int64)
    chunks = 0
    products = iter(catalogue)
    for first in range(0, len(catalogue), _CHUNK):
        chunk = _postings(islice(products, _CHUNK), codes, first, lengths)
        np.save(folder / f"chunk-{chunks}.npy", chunk)
        chunks += 1
    encoded = sorted((cache.encode(name), code) for name, code in codes.codes_of.items())
    place = np.empty(len(encoded), np.int64)
    place[[code for _, code in encoded]] = np.arange(len(encoded))
    cache.StringTable.write(folder, "terms", [name for name, _ in encoded])
    del codes, encoded
    _merge(folder, chunks, place, _length_norms(lengths))
    cache.save(folder, "total", [int(np.count_nonzero(lengths))], "int64")
    ranks = np.empty(len(catalogue), np.int32)
    ranks[catalogue.by_asin] = np.arange(len(catalogue), dtype=np.int32)
    cache.save(folder, "asin_rank", ranks, "int32")


def _postings(
    products: Iterator[Product], codes: _TermCodes, first: int, lengths: np.ndarray
) -> np.ndarray:
    """Returns (code, document, count) of a chunk, int32 (3, n), sorted by code, then document."""
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
    """Merges the chunks into postings sorted by term, then document, and deletes them."""
    files = [folder / f"chunk-{i}.npy" for i in range(chunks)]
    counts = np.zeros(len(place), np.int64)
    for file in files:
        counts += np.bincount(place[np.load(file, mmap_mode="r")[0]], minlength=len(place))
    starts = np.zeros(len(place) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    cache.save(folder, "term_starts", starts, "int64")
    total = int(starts[-1])
    docs, saturation = np.empty(total, np.int32), np.empty(total, np.float32)
    free = starts[:-1].copy()
    for file in files:
        codes, chunk_docs, times = np.load(file)
        places = place[codes]
        runs = np.bincount(places, minlength=len(place))
        # Within a chunk, postings of a term are contiguous: number them from its first free slot.
        new = np.flatnonzero(np.diff(codes, prepend=-1))
        within = np.arange(len(codes)) - np.repeat(new, np.diff(new, append=len(codes)))
        slots = free[places] + within
        docs[slots] = chunk_docs
        frequency = times.astype(np.float64)
        saturation[slots] = frequency / (frequency + norms[chunk_docs])
        free += runs
        file.unlink()
    strongest = np.maximum.reduceat(saturation, starts[:-1]) if total else saturation
    cache.save(folder, "strongest", strongest, "float32")
    cache.save(folder, "docs", docs, "int32")
    cache.save(folder, "saturation", saturation, "float32")
