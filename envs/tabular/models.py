"""Classifiers in pure Python, with the interface of scikit-learn.

Programs of agents use them in the sandbox, whose interpreter has neither numpy nor inheritance.
They are for two classes, 0 and 1, and tables of hundreds of rows. A table is a list of rows, each
a list of numbers, and labels are a list of 0 and 1. The sandbox reads this file as it is.
"""

import math


def _solve(matrix, values):
    """Solves a system of linear equations by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, values)]
    size = len(rows)
    for i in range(size):
        best = max(range(i, size), key=lambda k: abs(rows[k][i]))
        rows[i], rows[best] = rows[best], rows[i]
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            if factor:
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    found = [0.0] * size
    for i in range(size - 1, -1, -1):
        known = sum([rows[i][k] * found[k] for k in range(i + 1, size)])
        found[i] = (rows[i][size] - known) / rows[i][i]
    return found


class StandardScaler:
    """Scales each column to mean 0 and deviation 1."""

    def fit(self, x, y=None):
        """Computes means and deviations."""
        columns = list(zip(*x))
        self.means = [sum(column) / len(column) for column in columns]
        self.scales = []
        for column, mean in zip(columns, self.means):
            spread = math.sqrt(sum([(v - mean) ** 2 for v in column]) / len(column))
            self.scales.append(spread or 1.0)
        return self

    def transform(self, x):
        """Returns the scaled rows."""
        return [[(v - m) / s for v, m, s in zip(row, self.means, self.scales)] for row in x]


class FunctionTransformer:
    """Applies a function to all rows: makes features of columns."""

    def __init__(self, func):
        self.func = func

    def fit(self, x, y=None):
        """Does nothing."""
        return self

    def transform(self, x):
        """Returns the rows of the function."""
        return self.func(x)


class Pipeline:
    """Several transformers and a classifier after them."""

    def __init__(self, steps):
        self.steps = steps

    def fit(self, x, y):
        """Fits each step on the output of the one before."""
        for step in self.steps[:-1]:
            x = step.fit(x, y).transform(x)
        self.steps[-1].fit(x, y)
        return self

    def predict_proba(self, x):
        """Returns the probabilities of both classes for each row."""
        for step in self.steps[:-1]:
            x = step.transform(x)
        return self.steps[-1].predict_proba(x)


def make_pipeline(*steps):
    """Returns a `Pipeline` of the steps."""
    return Pipeline(list(steps))


class LogisticRegression:
    """Logistic regression with an L2 penalty of 1 / (2 C), by Newton's method."""

    def __init__(self, C=1.0, max_iter=8):
        self.C, self.max_iter = C, max_iter

    def fit(self, x, y):
        """Fits weights to scaled columns."""
        self.scaler = StandardScaler().fit(x)
        rows = [[1.0, *row] for row in self.scaler.transform(x)]
        size = len(rows[0])
        self.weights = [0.0] * size
        for _ in range(self.max_iter):
            slope = [w / self.C if i else 0.0 for i, w in enumerate(self.weights)]
            curve = [[0.0] * size for _ in range(size)]
            for i in range(size):
                curve[i][i] = 1 / self.C if i else 1e-6
            for row, target in zip(rows, y):
                chance = self._chance(row)
                error, steep = chance - target, chance * (1 - chance)
                for i in range(size):
                    slope[i] += error * row[i]
                    scaled, line = steep * row[i], curve[i]
                    for k in range(i + 1):
                        line[k] += scaled * row[k]
            for i in range(size):
                for k in range(i):
                    curve[k][i] = curve[i][k]
            step = _solve(curve, slope)
            self.weights = [w - d for w, d in zip(self.weights, step)]
            if max([abs(d) for d in step]) < 1e-4:  # the next step is the square of this one
                break
        return self

    def _chance(self, row):
        total = sum([w * v for w, v in zip(self.weights, row)])
        return 1 / (1 + math.exp(-min(max(total, -30.0), 30.0)))

    def predict_proba(self, x):
        """Returns the probabilities of both classes for each row."""
        chances = [self._chance([1.0, *row]) for row in self.scaler.transform(x)]
        return [[1 - p, p] for p in chances]


class GaussianNB:
    """Naive Bayes with a normal distribution per class and column."""

    def fit(self, x, y):
        """Computes the prior, means and variances of each class."""
        self.classes = []
        for label in (0, 1):
            rows = [row for row, target in zip(x, y) if target == label]
            columns = list(zip(*rows))
            means = [sum(c) / len(c) for c in columns]
            spreads = []
            for c, m in zip(columns, means):
                spreads.append(sum([(v - m) ** 2 for v in c]) / len(c) + 1e-9)
            self.classes.append((math.log(len(rows) / len(x)), means, spreads))
        return self

    def predict_proba(self, x):
        """Returns the probabilities of both classes for each row."""
        found = []
        for row in x:
            logs = []
            for prior, means, spreads in self.classes:
                log = prior
                for v, m, s in zip(row, means, spreads):
                    log -= (v - m) ** 2 / (2 * s) + 0.5 * math.log(s)
                logs.append(log)
            odds = math.exp(min(max(logs[0] - logs[1], -700.0), 700.0))
            found.append([odds / (1 + odds), 1 / (1 + odds)])
        return found


class KNeighborsClassifier:
    """The share of class 1 among the nearest rows."""

    def __init__(self, n_neighbors=5):
        self.n_neighbors = n_neighbors

    def fit(self, x, y):
        """Stores the rows."""
        self.rows = list(zip(x, y))
        return self

    def predict_proba(self, x):
        """Returns the probabilities of both classes for each row."""
        found = []
        for row in x:
            near = []
            for i, (other, target) in enumerate(self.rows):
                far = sum([(a - b) ** 2 for a, b in zip(row, other)])
                near.append((far, i, target))
            near = sorted(near)[: self.n_neighbors]
            share = sum([target for _, _, target in near]) / len(near)
            found.append([1 - share, share])
        return found


class DecisionTreeClassifier:
    """A tree of thresholds with the least Gini impurity."""

    def __init__(self, max_depth=3):
        self.max_depth = max_depth

    def fit(self, x, y):
        """Grows the tree."""
        self.tree = self._grow(list(zip(x, y)), self.max_depth)
        return self

    def _grow(self, rows, depth):
        ones = sum([target for _, target in rows])
        if not depth or ones == 0 or ones == len(rows):
            return ones / len(rows)
        best = None
        for column in range(len(rows[0][0])):
            order = sorted([(row[column], target) for row, target in rows])
            left = 0
            for i in range(1, len(order)):
                left += order[i - 1][1]
                if order[i - 1][0] == order[i][0]:
                    continue
                right = ones - left
                impurity = left * (i - left) / i + right * (len(order) - i - right) / (
                    len(order) - i
                )
                if best is None or impurity < best[0]:
                    best = impurity, column, (order[i - 1][0] + order[i][0]) / 2
        if best is None:
            return ones / len(rows)
        _, column, limit = best
        low = [pair for pair in rows if pair[0][column] <= limit]
        high = [pair for pair in rows if pair[0][column] > limit]
        return column, limit, self._grow(low, depth - 1), self._grow(high, depth - 1)

    def predict_proba(self, x):
        """Returns the probabilities of both classes for each row."""
        found = []
        for row in x:
            node = self.tree
            while isinstance(node, tuple):
                node = node[2] if row[node[0]] <= node[1] else node[3]
            found.append([1 - node, node])
        return found
