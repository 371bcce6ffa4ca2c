"""Small programs of a few files, in which bugs are planted. <<2-9>> stands for a number.

They have neither `while` nor recursion and multiply no lists, so that a mutated program ends. They
have no formatted strings, whose places differ between versions of Python.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Repository:
    """A program.

    Attributes:
        name: its name.
        files: the source of each file.
        calls: calls of its functions, as expressions.
    """

    name: str
    files: dict[str, str]
    calls: tuple[str, ...]


_SHOP = Repository(
    "shop",
    {
        "prices.py": '''"""Prices in cents."""

PRICES = {"apple": <<20-60>>, "bread": <<150-300>>, "cheese": <<400-700>>, "dates": <<90-140>>}
BULK = <<4-6>>


def unit_price(item):
    """Returns the price of one item, or 0 if it is not sold."""
    return PRICES.get(item, 0)


def line_price(item, count):
    """Returns the price of several items. Every `BULK`-th item is free."""
    if count <= 0:
        return 0
    free = count // BULK
    return unit_price(item) * (count - free)
''',
        "discounts.py": '''"""Discounts on a total."""

LEVELS = [(5000, <<12-18>>), (2000, <<6-10>>), (1000, <<2-4>>)]


def percent(total):
    """Returns the discount in percent: the first level that the total reaches."""
    for limit, value in LEVELS:
        if total >= limit:
            return value
    return 0


def reduced(total, member):
    """Returns the total after discounts, rounded down. Members get 5 percent more."""
    rate = percent(total)
    if member and total > 0:
        rate = rate + 5
    return total - total * rate // 100
''',
        "cart.py": '''"""Shopping carts: lists of [item, count]."""

from discounts import reduced
from prices import line_price


def counts(cart):
    """Returns the number of pieces of each item, from several lines of the cart."""
    found = {}
    for item, count in cart:
        found[item] = found.get(item, 0) + count
    return found


def total(cart, member=False):
    """Returns the price of a cart after discounts."""
    whole = sum(line_price(item, count) for item, count in counts(cart).items())
    return reduced(whole, member)


def missing(cart, stock):
    """Returns the items of which the cart has more than the stock, in alphabetical order."""
    found = counts(cart)
    return sorted(item for item in found if found[item] > stock.get(item, 0))


def cheapest(cart):
    """Returns the item of the cart with the lowest line price, or an empty text."""
    found = counts(cart)
    return min(found, key=lambda item: (line_price(item, found[item]), item), default="")
''',
    },
    (
        'prices.unit_price("bread")',
        'prices.unit_price("milk")',
        'prices.line_price("apple", 3)',
        'prices.line_price("cheese", 12)',
        'prices.line_price("dates", -1)',
        "discounts.percent(5000)",
        "discounts.percent(1999)",
        "discounts.percent(10)",
        "discounts.reduced(2500, False)",
        "discounts.reduced(1200, True)",
        'cart.counts([["apple", 2], ["bread", 1], ["apple", 3]])',
        'cart.total([["apple", 7], ["cheese", 2]])',
        'cart.total([["bread", 10], ["dates", 9], ["cheese", 8]], True)',
        "cart.total([])",
        'cart.missing([["apple", 2], ["bread", 4], ["apple", 3]], {"apple": 5, "bread": 3})',
        'cart.missing([["dates", 1]], {})',
        'cart.cheapest([["cheese", 1], ["apple", 2], ["dates", 5]])',
        "cart.cheapest([])",
    ),
)
_CALENDAR = Repository(
    "calendar",
    {
        "dates.py": '''"""Dates as [year, month, day]."""

LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def leap(year):
    """Returns whether a year has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year, month):
    """Returns the number of days of a month (1 to 12)."""
    if month == 2 and leap(year):
        return 29
    return LENGTHS[month - 1]


def day_of_year(date):
    """Returns 1 for the first of January."""
    year, month, day = date
    return sum(month_length(year, m) for m in range(1, month)) + day


def day_number(date):
    """Returns the number of days since the first of January of the year 2000."""
    year = date[0]
    days = sum(366 if leap(y) else 365 for y in range(2000, year))
    return days + day_of_year(date) - 1
''',
        "weeks.py": '''"""Weekdays and working days."""

from dates import day_number

NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


def weekday(date):
    """Returns 0 for Monday. The first of January 2000 was a Saturday."""
    return (day_number(date) + 5) % 7


def weekday_name(date):
    """Returns the short name of the weekday."""
    return NAMES[weekday(date)]


def is_working(date, holidays):
    """Returns whether a date is neither on a weekend nor a holiday."""
    return weekday(date) < 5 and date not in holidays
''',
        "meetings.py": '''"""Meetings: [date, start, end] with hours."""

from dates import day_number
from weeks import is_working

OPEN = <<7-9>>
CLOSE = <<16-18>>


def valid(meeting, holidays):
    """Returns whether a meeting is on a working day within the opening hours."""
    date, start, end = meeting
    return is_working(date, holidays) and OPEN <= start < end <= CLOSE


def overlap(one, other):
    """Returns whether two meetings share an hour."""
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def conflicts(meetings):
    """Returns the number of pairs of meetings that overlap."""
    pairs = 0
    for i in range(len(meetings)):
        for j in range(i + 1, len(meetings)):
            if overlap(meetings[i], meetings[j]):
                pairs += 1
    return pairs


def span(meetings):
    """Returns the number of days from the first to the last meeting, both included."""
    days = [day_number(meeting[0]) for meeting in meetings]
    return max(days) - min(days) + 1 if days else 0
''',
    },
    (
        "dates.leap(2024)",
        "dates.leap(2100)",
        "dates.leap(2000)",
        "dates.month_length(2024, 2)",
        "dates.month_length(2023, 4)",
        "dates.day_of_year([2023, 3, 1])",
        "dates.day_of_year([2024, 12, 31])",
        "dates.day_number([2000, 1, 1])",
        "dates.day_number([2026, 6, 15])",
        "weeks.weekday_name([2024, 2, 29])",
        "weeks.weekday_name([2026, 1, 4])",
        "weeks.is_working([2026, 6, 12], [])",
        "weeks.is_working([2026, 6, 12], [[2026, 6, 12]])",
        "weeks.is_working([2026, 6, 13], [])",
        "meetings.valid([[2026, 6, 12], 9, 11], [])",
        "meetings.valid([[2026, 6, 12], 9, 19], [])",
        "meetings.valid([[2026, 6, 12], 11, 11], [])",
        "meetings.overlap([[2026, 6, 12], 9, 11], [[2026, 6, 12], 11, 12])",
        "meetings.conflicts([[[2026, 1, 5], 9, 12], [[2026, 1, 5], 10, 11], "
        "[[2026, 1, 5], 11, 13]])",
        "meetings.span([[[2026, 2, 27], 9, 12], [[2026, 3, 2], 10, 11]])",
        "meetings.span([])",
    ),
)
_GRADES = Repository(
    "grades",
    {
        "scores.py": '''"""Scores: from a name to a list of points."""

MAXIMUM = <<50-80>>
DROPPED = 1


def clipped(points):
    """Returns points between 0 and the maximum."""
    return max(0, min(points, MAXIMUM))


def kept(points):
    """Returns the points without the lowest, if there are more than two."""
    values = sorted(clipped(p) for p in points)
    return values[DROPPED:] if len(values) > 2 else values


def average(points):
    """Returns the average of the kept points, rounded down, or 0."""
    values = kept(points)
    return sum(values) // len(values) if values else 0
''',
        "marks.py": '''"""Marks from A to F."""

from scores import MAXIMUM, average

LIMITS = [(90, "A"), (<<72-78>>, "B"), (60, "C"), (<<42-48>>, "D")]


def mark(points):
    """Returns the mark of a list of points, from the share of the maximum in percent."""
    share = average(points) * 100 // MAXIMUM
    for limit, letter in LIMITS:
        if share >= limit:
            return letter
    return "F"


def passed(points, attended):
    """Returns whether a student passes: a mark better than F and 3 attended lessons."""
    return mark(points) != "F" and attended >= 3
''',
        "ranking.py": '''"""Rankings of a class."""

from marks import mark
from scores import average


def ranked(scores):
    """Returns the names, the best average first, equal ones in alphabetical order."""
    return sorted(scores, key=lambda name: (-average(scores[name]), name))


def rank(scores, name):
    """Returns 1 for the best. Equal averages have the same rank."""
    better = [other for other in scores if average(scores[other]) > average(scores[name])]
    return len(better) + 1


def counts(scores):
    """Returns the number of students with each mark."""
    found = {}
    for points in scores.values():
        letter = mark(points)
        found[letter] = found.get(letter, 0) + 1
    return found


def gap(scores):
    """Returns the difference between the best and the second average, or 0."""
    values = sorted((average(points) for points in scores.values()), reverse=True)
    return values[0] - values[1] if len(values) >= 2 else 0
''',
    },
    (
        "scores.clipped(-3)",
        "scores.clipped(1000)",
        "scores.kept([30, 10, 20])",
        "scores.kept([20, 10])",
        "scores.average([30, 45, 20, 41])",
        "scores.average([])",
        "scores.average([-5, 200, 33])",
        "marks.mark([90, 95, 99])",
        "marks.mark([40, 35, 44])",
        "marks.mark([20, 25])",
        "marks.mark([])",
        "marks.passed([40, 42, 44], 3)",
        "marks.passed([90, 90], 2)",
        "marks.passed([3], 5)",
        'ranking.ranked({"Bo": [20, 30], "Al": [20, 30], "Cy": [50, 60, 10]})',
        'ranking.rank({"Bo": [20, 30], "Al": [20, 30], "Cy": [50, 60, 10]}, "Al")',
        'ranking.rank({"Bo": [20, 30], "Al": [20, 30], "Cy": [50, 60, 10]}, "Cy")',
        'ranking.counts({"Bo": [20, 30], "Al": [20, 30], "Cy": [80, 80, 10]})',
        'ranking.gap({"Bo": [20, 30], "Cy": [50, 60, 10], "Al": [44]})',
        'ranking.gap({"Bo": [20]})',
    ),
)
_TEXTS = Repository(
    "texts",
    {
        "words.py": '''"""Words of a text."""

MARKS = ".,;:!?"


def words(text):
    """Returns the words in small letters, without marks at their ends."""
    found = [word.strip(MARKS).lower() for word in text.split()]
    return [word for word in found if word]


def frequencies(text):
    """Returns how often each word occurs."""
    found = {}
    for word in words(text):
        found[word] = found.get(word, 0) + 1
    return found


def top(text, count):
    """Returns the most frequent words, equal ones in alphabetical order."""
    found = frequencies(text)
    return sorted(found, key=lambda word: (-found[word], word))[:count]
''',
        "layout.py": '''"""Lines of limited width."""

WIDTH = <<12-18>>


def wrap(text, width=WIDTH):
    """Returns lines of at most `width` characters. A longer word has a line of its own."""
    lines = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] = lines[-1] + " " + word
        else:
            lines.append(word)
    return lines


def centered(line, width=WIDTH):
    """Returns a line with spaces on both sides, one more on the right if need be."""
    room = max(0, width - len(line))
    left = room // 2
    return " " * left + line + " " * (room - left)


def boxed(text):
    """Returns the wrapped lines between vertical bars."""
    return ["|" + centered(line) + "|" for line in wrap(text)]
''',
        "codes.py": '''"""Simple codes of letters."""

from words import words

SHIFT = <<3-9>>


def shifted(letter, shift):
    """Returns a small letter moved in the alphabet, other characters unchanged."""
    if not "a" <= letter <= "z":
        return letter
    return chr((ord(letter) - ord("a") + shift) % 26 + ord("a"))


def encode(text):
    """Returns the words with shifted letters."""
    return " ".join("".join(shifted(c, SHIFT) for c in word) for word in words(text))


def decode(text):
    """Returns the words of a code."""
    return " ".join("".join(shifted(c, 0 - SHIFT) for c in word) for word in words(text))


def runs(text):
    """Returns [character, length] for each run of equal characters."""
    found = []
    for character in text:
        if found and found[-1][0] == character:
            found[-1][1] += 1
        else:
            found.append([character, 1])
    return found
''',
    },
    (
        'words.words("Hello, hello: the End!")',
        'words.words(" ... ")',
        'words.frequencies("a b A. c b a")',
        'words.top("one two two three three one four", 2)',
        'words.top("b a", 5)',
        'layout.wrap("the quick brown fox jumps over it")',
        'layout.wrap("a bb ccc", 4)',
        'layout.wrap("extraordinarily long", 5)',
        'layout.centered("ab", 5)',
        'layout.centered("abcdefgh", 4)',
        'layout.boxed("the quick brown fox jumps")',
        'codes.shifted("z", 2)',
        'codes.shifted("-", 2)',
        'codes.shifted("a", 0)',
        'codes.encode("Zebra, and ox")',
        'codes.decode("khoor zruog")',
        'codes.decode(codes.encode("over the hill"))',
        'codes.runs("aabccc")',
        'codes.runs("")',
    ),
)
_GRIDS = Repository(
    "grids",
    {
        "grid.py": '''"""Grids: lists of rows of numbers."""


def size(grid):
    """Returns the number of rows and of columns."""
    return [len(grid), len(grid[0]) if grid else 0]


def transposed(grid):
    """Returns the grid with rows and columns exchanged."""
    rows, columns = size(grid)
    return [[grid[r][c] for r in range(rows)] for c in range(columns)]


def rotated(grid):
    """Returns the grid turned by 90 degrees clockwise."""
    return [row[::-1] for row in transposed(grid)]


def inside(grid, row, column):
    """Returns whether a cell belongs to the grid."""
    rows, columns = size(grid)
    return 0 <= row < rows and 0 <= column < columns
''',
        "neighbours.py": '''"""Neighbours of cells."""

from grid import inside

STEPS = [(-1, 0), (1, 0), (0, -1), (0, 1)]


def around(grid, row, column):
    """Returns the values of the cells above, below, left and right."""
    places = [(row + down, column + right) for down, right in STEPS]
    return [grid[r][c] for r, c in places if inside(grid, r, c)]


def peaks(grid):
    """Returns the cells that are greater than all their neighbours."""
    found = []
    for row in range(len(grid)):
        for column in range(len(grid[row])):
            if all(grid[row][column] > value for value in around(grid, row, column)):
                found.append([row, column])
    return found


def smoothed(grid):
    """Returns each value's average with its neighbours, rounded down."""
    result = []
    for row in range(len(grid)):
        line = []
        for column in range(len(grid[row])):
            values = around(grid, row, column) + [grid[row][column]]
            line.append(sum(values) // len(values))
        result.append(line)
    return result
''',
        "totals.py": '''"""Totals of a grid."""

from grid import transposed

LIMIT = <<8-14>>


def row_totals(grid):
    """Returns the total of each row."""
    return [sum(row) for row in grid]


def column_totals(grid):
    """Returns the total of each column."""
    return row_totals(transposed(grid))


def diagonal(grid):
    """Returns the difference between the totals of the two diagonals of a square grid."""
    last = len(grid) - 1
    down = sum(grid[i][i] for i in range(len(grid)))
    up = sum(grid[i][last - i] for i in range(len(grid)))
    return down - up


def magic(grid):
    """Returns whether all rows and columns have the same total."""
    return len(set(row_totals(grid) + column_totals(grid))) == 1


def large(grid):
    """Returns the number of rows with a total of at least the limit."""
    return sum(1 for total in row_totals(grid) if total >= LIMIT)
''',
    },
    (
        "grid.size([[1, 2, 3], [4, 5, 6]])",
        "grid.size([])",
        "grid.transposed([[1, 2, 3], [4, 5, 6]])",
        "grid.rotated([[1, 2], [3, 4]])",
        "grid.inside([[1, 2], [3, 4]], 1, 2)",
        "grid.inside([[1, 2], [3, 4]], 0, 0)",
        "grid.inside([[1, 2], [3, 4]], -1, 1)",
        "neighbours.around([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 1, 1)",
        "neighbours.around([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 0, 2)",
        "neighbours.peaks([[9, 1, 7], [2, 3, 4], [8, 5, 6]])",
        "neighbours.peaks([[1, 1], [1, 1]])",
        "neighbours.smoothed([[10, 0], [3, 7]])",
        "neighbours.smoothed([[5, 8, 2]])",
        "totals.row_totals([[1, 2, 3], [4, 5, 6]])",
        "totals.column_totals([[1, 2, 3], [4, 5, 6]])",
        "totals.diagonal([[1, 2, 3], [4, 5, 6], [9, 8, 7]])",
        "totals.magic([[2, 7, 6], [9, 5, 1], [4, 3, 8]])",
        "totals.magic([[2, 7], [9, 5]])",
        "totals.large([[1, 2], [9, 6], [20, 1], [3, 4]])",
    ),
)
_TRAINS = Repository(
    "trains",
    {
        "times.py": '''"""Times of day in minutes."""

DAY = 24 * 60


def minutes(text):
    """Returns the minutes since midnight of a time such as 07:45."""
    hours, rest = text.split(":")
    return int(hours) * 60 + int(rest)


def clock(value):
    """Returns a time such as 07:45, also for minutes after midnight of the next day."""
    value = value % DAY
    return str(value // 60).zfill(2) + ":" + str(value % 60).zfill(2)


def wait(now, then):
    """Returns the minutes from one time of day to the next occurrence of another."""
    return (then - now) % DAY
''',
        "lines.py": '''"""Lines: stops with the minutes from the first stop."""

LINES = {
    "red": [["Ash", 0], ["Birch", <<5-9>>], ["Cedar", <<12-16>>], ["Elm", <<21-26>>]],
    "blue": [["Cedar", 0], ["Fir", <<8-13>>], ["Hazel", <<17-23>>]],
}
CHANGE = <<3-6>>


def stops(line):
    """Returns the names of the stops of a line."""
    return [name for name, _ in LINES[line]]


def offset(line, stop):
    """Returns the minutes from the first stop, or -1 if the line does not stop there."""
    for name, value in LINES[line]:
        if name == stop:
            return value
    return -1


def duration(line, start, end):
    """Returns the minutes between two stops of a line, or -1 if it does not go there."""
    first, last = offset(line, start), offset(line, end)
    if first < 0 or last < 0 or last <= first:
        return -1
    return last - first


def shared(one, other):
    """Returns the stops of both lines, in the order of the first."""
    return [stop for stop in stops(one) if stop in stops(other)]
''',
        "trips.py": '''"""Trips by departures of lines."""

from lines import CHANGE, duration, offset, shared
from times import clock, minutes, wait

EVERY = <<15-25>>
FIRST = 6 * 60


def next_departure(line, stop, time):
    """Returns the first departure at a stop from a time on. Trains start at 6:00."""
    first = FIRST + offset(line, stop)
    now = minutes(time)
    if now <= first:
        return clock(first)
    late = (now - first) % EVERY
    return clock(now if late == 0 else now + EVERY - late)


def arrival(line, start, end, time):
    """Returns the arrival of the next train, or an empty text if there is none."""
    needed = duration(line, start, end)
    if needed < 0:
        return ""
    return clock(minutes(next_departure(line, start, time)) + needed)


def with_change(start, end, time):
    """Returns the arrival from a stop of the red line at one of the blue line."""
    best = ""
    for stop in shared("red", "blue"):
        there = arrival("red", start, stop, time)
        if there:
            best = arrival("blue", stop, end, clock(minutes(there) + CHANGE))
    return best


def total(start, end, time):
    """Returns the minutes until the arrival with a change, or -1."""
    there = with_change(start, end, time)
    return wait(minutes(time), minutes(there)) if there else -1
''',
    },
    (
        'times.minutes("07:45")',
        "times.clock(465)",
        "times.clock(1500)",
        "times.wait(1400, 20)",
        "times.wait(20, 1400)",
        'lines.stops("blue")',
        'lines.offset("red", "Cedar")',
        'lines.offset("red", "Fir")',
        'lines.duration("red", "Birch", "Elm")',
        'lines.duration("red", "Elm", "Birch")',
        'lines.duration("blue", "Ash", "Fir")',
        'lines.shared("red", "blue")',
        'trips.next_departure("red", "Birch", "05:30")',
        'trips.next_departure("red", "Birch", "09:17")',
        'trips.next_departure("blue", "Cedar", "12:00")',
        'trips.arrival("red", "Ash", "Elm", "10:01")',
        'trips.arrival("red", "Elm", "Ash", "10:01")',
        'trips.with_change("Ash", "Hazel", "08:50")',
        'trips.with_change("Elm", "Hazel", "08:50")',
        'trips.total("Birch", "Fir", "13:07")',
        'trips.total("Elm", "Fir", "13:07")',
    ),
)

REPOSITORIES = (_SHOP, _CALENDAR, _GRADES, _TEXTS, _GRIDS, _TRAINS)
