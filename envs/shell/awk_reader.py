"""Reads programs of awk as trees of tuples.

An expression is a tuple whose first item names its kind, as is a statement.
"""

from __future__ import annotations

from typing import Any

from agentgym.envs.shell.awk_tokens import STATEMENTS, tokens, unescaped
from agentgym.envs.shell.tree import Unknown

Node = tuple[Any, ...]
Rule = tuple[str, Node | None, list[Node] | None]
"""When it applies ("BEGIN", "END", "line"), its condition, and its statements if there are any."""
MOST_DEPTH = 20
FUNCTIONS = {
    "length": (0, 1), "substr": (2, 3), "index": (2, 2), "split": (2, 3), "sub": (2, 3),
    "gsub": (2, 3), "match": (2, 2), "tolower": (1, 1), "toupper": (1, 1), "int": (1, 1),
    "sqrt": (1, 1), "sprintf": (1, 50),
}  # fmt: skip
"""Least and greatest number of arguments of each function."""
_KEYWORDS = {*STATEMENTS, "continue", "in", "BEGIN", "END", *FUNCTIONS}
_REFUSED = {"function", "func", "getline", "system", "do", "return", "nextfile", "close", "rand"}
_REFUSED |= {"srand", "strftime", "systime", "gensub", "asort", "asorti", "exp", "log"}
_ASSIGN = ("=", "+=", "-=", "*=", "/=", "%=", "^=")
_COMPARE = ("<", "<=", "==", "!=", ">", ">=")


class Reader:
    """Reads a program.

    Args:
        program: the program.

    Raises:
        Unknown: if it cannot be read.
    """

    def __init__(self, program: str):
        self.tokens, self.place, self.depth = tokens(program), 0, 0
        self.in_print = False

    @property
    def token(self) -> tuple[str, str]:
        """The kind and the text of the next token."""
        return self.tokens[self.place]

    def rules(self) -> list[Rule]:
        """Returns the rules."""
        found: list[Rule] = []
        self._skip()
        while self.token[0] != "end":
            kind, condition = "line", None
            if self.token in (("name", "BEGIN"), ("name", "END")):
                kind = self._next()
            elif self.token[1] != "{":
                condition = self._expression()
                if self._is(","):
                    raise Unknown("a range of patterns is not supported in awk")
            body = self._block() if self._is("{") else None
            if body is None and kind != "line":
                raise self._error()
            found.append((kind, condition, body))
            self._skip()
        return found

    def _error(self) -> Unknown:
        return Unknown(f"this awk program is not supported near {self.token[1][:20]!r}")

    def _is(self, *texts: str) -> bool:
        return self.token[0] in ("operator", "name") and self.token[1] in texts

    def _next(self, *expected: str) -> str:
        if expected and not self._is(*expected):
            raise self._error()
        self.place += 1
        return self.tokens[self.place - 1][1]

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise Unknown("the awk program is nested too deeply")

    def _skip(self) -> None:
        while self._is("\n", ";"):
            self.place += 1

    def _lines(self) -> None:
        while self._is("\n"):
            self.place += 1

    # Statements.

    def _block(self) -> list[Node]:
        self._next("{")
        found = []
        self._skip()
        while not self._is("}"):
            found.append(self._statement())
            self._skip()
        self._next("}")
        return found

    def _body(self) -> list[Node]:
        self._lines()
        if self._is(";"):
            self._next()
            return []
        return self._block() if self._is("{") else [self._statement()]

    def _statement(self) -> Node:
        self._deeper()
        found = self._one()
        self.depth -= 1
        return found

    def _one(self) -> Node:
        if self._is("{"):
            return ("block", self._block())
        if self._is("if"):
            return self._if()
        if self._is("for"):
            return self._for()
        if self._is("while"):
            self._next()
            self._next("(")
            condition = self._expression()
            self._next(")")
            return ("for", None, condition, None, self._body())
        if self._is("print", "printf"):
            found = self._print()
        elif self._is("next", "break", "continue"):
            found = (self._next(),)
        elif self._is("exit"):
            self._next()
            found = ("exit", None if self._is(";", "}", "\n") else self._expression())
        elif self._is("delete"):
            self._next()
            found = ("delete", *self._element())
        else:
            found = ("do", self._expression())
        if not self._is(";", "}", "\n") and self.token[0] != "end":
            raise self._error()
        return found

    def _if(self) -> Node:
        self._next()
        self._next("(")
        condition = self._expression()
        self._next(")")
        then, place = self._body(), self.place
        self._skip()
        if not self._is("else"):
            self.place = place
            return ("if", condition, then, [])
        self._next()
        return ("if", condition, then, self._body())

    def _for(self) -> Node:
        self._next()
        self._next("(")
        kinds = [token[1] for token in self.tokens[self.place : self.place + 4]]
        if kinds[1:2] == ["in"] and kinds[3:] == [")"]:
            name, array = kinds[0], kinds[2]
            self.place += 4
            return ("each", name, array, self._body())
        start = None if self._is(";") else ("do", self._expression())
        self._next(";")
        condition = None if self._is(";") else self._expression()
        self._next(";")
        after = None if self._is(")") else ("do", self._expression())
        self._next(")")
        return ("for", start, condition, after, self._body())

    def _print(self) -> Node:
        kind = self._next()
        parts: list[Node] = []
        self.in_print = True
        if not self._is(";", "}", "\n", ">", ">>", "|") and self.token[0] != "end":
            parts = self._list()
            if len(parts) == 1 and parts[0][0] == "group":
                parts = list(parts[0][1])
        self.in_print = False
        if self._is(">", ">>", "|"):
            raise Unknown("print to a file or a command is not supported in awk: use | or >")
        if kind == "printf" and not parts:
            raise self._error()
        return (kind, parts)

    def _list(self) -> list[Node]:
        found = [self._expression()]
        while self._is(","):
            self._next()
            self._lines()
            found.append(self._expression())
        return found

    # Expressions, from those that bind least.

    def _expression(self) -> Node:
        self._deeper()
        condition = self._or()
        if self._is(*_ASSIGN):
            if condition[0] not in ("variable", "element", "field"):
                raise self._error()
            operator = self._next()
            condition = ("assign", operator[:-1], condition, self._expression())
        elif self._is("?"):
            self._next()
            first = self._expression()
            self._next(":")
            condition = ("choose", condition, first, self._expression())
        self.depth -= 1
        return condition

    def _or(self) -> Node:
        found = self._and()
        while self._is("||"):
            self._next()
            self._lines()
            found = ("or", found, self._and())
        return found

    def _and(self) -> Node:
        found = self._in()
        while self._is("&&"):
            self._next()
            self._lines()
            found = ("and", found, self._in())
        return found

    def _in(self) -> Node:
        found = self._match()
        while self._is("in"):
            self._next()
            keys = found[1] if found[0] == "group" else [found]
            found = ("in", list(keys), self._next())
        return found

    def _match(self) -> Node:
        found = self._comparison()
        while self._is("~", "!~"):
            operator = self._next()
            found = ("match", operator == "~", found, self._comparison())
        return found

    def _comparison(self) -> Node:
        found = self._concatenation()
        if self._is(*_COMPARE) and not (self.in_print and self._is(">")):
            operator = self._next()
            found = ("compare", operator, found, self._concatenation())
        return found

    def _concatenation(self) -> Node:
        found = self._sum()
        while (
            self.token[0] in ("number", "text")
            or self._is("$", "(", "-", "+", "!", "++", "--")
            or (self.token[0] == "name" and self.token[1] not in {*STATEMENTS, "in", "continue"})
        ):
            if self._is("!"):
                break
            found = ("join", found, self._sum())
        return found

    def _sum(self) -> Node:
        found = self._product()
        while self._is("+", "-"):
            found = ("calculate", self._next(), found, self._product())
        return found

    def _product(self) -> Node:
        found = self._unary()
        while self._is("*", "/", "%"):
            found = ("calculate", self._next(), found, self._unary())
        return found

    def _unary(self) -> Node:
        if self._is("!", "-", "+"):
            operator = self._next()
            self._deeper()
            found = (("not" if operator == "!" else "sign"), operator, self._unary())
            self.depth -= 1
            return found
        found = self._postfix()
        if self._is("^", "**"):
            self._next()
            return ("calculate", "^", found, self._unary())
        return found

    def _postfix(self) -> Node:
        if self._is("++", "--"):
            step = 1 if self._next() == "++" else -1
            return ("step", step, True, self._place())
        found = self._primary()
        if self._is("++", "--") and found[0] in ("variable", "element", "field"):
            return ("step", 1 if self._next() == "++" else -1, False, found)
        return found

    def _place(self) -> Node:
        found = self._primary()
        if found[0] not in ("variable", "element", "field"):
            raise self._error()
        return found

    def _primary(self) -> Node:
        kind, text = self.token
        if kind == "number":
            self._next()
            return ("constant", float(text))
        if kind == "text":
            self._next()
            return ("constant", unescaped(text[1:-1]))
        if kind == "pattern":
            self._next()
            return ("pattern", text)
        if self._is("$"):
            self._next()
            if self._is("++", "--", "-"):
                raise self._error()
            return ("field", self._primary())
        if self._is("("):
            return self._group()
        if kind != "name" or text in _REFUSED:
            raise self._error()
        if text in FUNCTIONS:
            return self._function()
        return self._element()

    def _group(self) -> Node:
        outer, self.in_print = self.in_print, False
        self._next("(")
        parts = self._list()
        self._next(")")
        self.in_print = outer
        return ("group", parts)

    def _function(self) -> Node:
        name, parts = self._next(), []
        if self._is("("):
            outer, self.in_print = self.in_print, False
            self._next("(")
            parts = [] if self._is(")") else self._list()
            self._next(")")
            self.in_print = outer
        least, most = FUNCTIONS[name]
        if not least <= len(parts) <= most:
            raise Unknown(f"{name} with {len(parts)} arguments is not supported in awk")
        return ("call", name, parts)

    def _element(self) -> Node:
        kind, name = self.token
        if kind != "name" or name in _KEYWORDS:
            raise self._error()
        self._next()
        if not self._is("["):
            return ("variable", name)
        outer, self.in_print = self.in_print, False
        self._next("[")
        keys = self._list()
        self._next("]")
        self.in_print = outer
        return ("element", name, keys)
