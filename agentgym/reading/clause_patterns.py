"""Patterns of English clauses: breaks, negations, questions, conditions, reports and times."""

from __future__ import annotations

import re

ABBREVIATION = re.compile(
    r"\b(?:mr|mrs|ms|dr|st|prof|vs|e\.g|i\.e|approx|inc|ltd|jr|sr|a\.m|p\.m|u\.s|[a-hj-z])$|\bno$",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"[.!?]{1,9}[\"')\]*]{0,3}(?=\s|$)|\n|;(?=\s|$)")
BREAK = re.compile(
    r"(?P<mark>,(?!\d)| -{1,3} (?!\d)|[()]|(?<=[a-z])-(?=(?:i|you|we|he|she|they|but|not|if)\b))"
    r"|\b(?P<word>but|however|though|although|whereas|yet|while|because|since|so that"
    r"|instead of|rather than|in place of|in lieu of|unlike|other than|except for|except that"
    r"|except|excluding|apart from|aside from|besides|as opposed to|without"
    r"|if|unless|in case|provided that|provided|assuming|as long as|suppose|supposing|otherwise"
    r"|before|after|until|till|as soon as|once|whenever|when|then|and then)\b"
    r"|\b(?P<and>(?:and|or|so) (?=(?:i|you|we|he|she|they|it|let|please|don't|do not|never)\b))"
    r"|(?<!\bis )(?<!\bam )(?<!\bare )(?<!\bwas )(?<!'m )(?<!'s )(?<!'re )(?<!\bdo )(?<!\bwere )"
    r"\bnot (?P<contrast>(?=(?:the|a|an|my|your|his|her|its|\d)\b))",
    re.IGNORECASE,
)
REPLACED = frozenset(
    ("instead of", "rather than", "in place of", "in lieu of", "unlike", "other than",
     "except for", "except that", "except", "excluding", "apart from", "aside from", "besides",
     "as opposed to")
)  # fmt: skip
CONDITIONS = frozenset(
    ("if", "unless", "in case", "provided that", "provided", "assuming", "as long as", "suppose",
     "supposing", "otherwise")
)  # fmt: skip
TIMES = frozenset(("before", "after", "until", "till", "as soon as", "once", "whenever", "when"))
POLITE = re.compile(
    r"(?:that|this|it)(?:'s| is| works| sounds| seems| suits)\b[^,]{0,40}$|possible\b|you (?:don't "
    r"|do not )?(?:mind|like|want|wish|agree|please|have (?:any )?question)\b"
    r"|(?:ok|okay|so|fine|necessary|needed)\b",
    re.IGNORECASE,
)
NEGATION = re.compile(
    r"n't\b|\b(?:not|never|cannot|cant|dont|wont|neither|nor|none|nobody|nothing|no one|nowhere"
    r"|refuse[sd]?|decline[sd]?|avoid(?:s|ed)?|den(?:y|ies|ied)|doubt(?:s|ed)?|fail(?:s|ed)? to"
    r"|unable|unwilling|hardly|stop|forbid(?:s|den)?|against|lacks?|false that|untrue)\b"
    r"|\bno (?!problem|doubt|worries|matter|later|less|more than|longer than|fewer|sooner)\w",
    re.IGNORECASE,
)
NOT_NEGATION = re.compile(
    r"\b(?:not only|why (?:not|don't)|no doubt|not (?:less|fewer) than|don't forget to"
    r"|do not forget to|without (?:a )?doubt|can't wait|cannot wait|not to mention|nothing but)\b",
    re.IGNORECASE,
)
FRESH = re.compile(
    r"\s*(?:(?:and|so|or) )?(?:i|you|we|he|she|they|it|let|please|just|only|but|instead|take|give|"
    r"go|get|put|keep|use|have|make|move|bring|pick|drop|open|close|cook|choose|ask|look|walk|turn|"
    r"buy|sell|try|then|player_\w{1,9}|[a-z]{1,20}(?: is| are| was| has| will|'s))\b"
    r"|\s*(?:i'|you'|we'|they')",
    re.IGNORECASE,
)
PAST = re.compile(
    r"\b(?:already|previously|formerly|earlier|yesterday|ago|used to|last (?:time|turn|round|"
    r"night|week|month|year|day)|(?:was|were) going to|had|did(?! not|n't)|in the past|back then)\b"
    r"|^\s*(?:have|has|had|did|was|were) (?:you|he|she|they|we|i|it|anyone|player_\w{1,9})\b",
    re.IGNORECASE,
)
ASKING = re.compile(
    r"^\s*(?:and |so |but |well |ok(?:ay)? )?(?:who|whom|whose|which|why|where|how(?! about)"
    r"|what(?! (?:about|i|you|we|he|she|they)\b)"
    r"|(?:have|has|had|do|does|did|is|are|was|were|am) (?:you|i|he|she|they|we|it|there|this|that|"
    r"the|player_\w{1,9}))\b",
    re.IGNORECASE,
)
TAG = re.compile(
    r"\s*(?:ok|okay|right|deal|yes|no|agreed?|alright|all right|fine|please|correct|fair|"
    r"sounds? (?:good|fair|ok)|what do you (?:think|say)|is (?:that|this) (?:ok|okay|fine|fair)"
    r"|do you agree|does that work(?: for you)?"
    r"|(?:is|are|do|does|did|have|has|will|would|can|could)"
    r"(?:n't| not)? (?:it|you|he|she|they|we|i))\s*",
    re.IGNORECASE,
)
NO = re.compile(r"\s*(?:no|nope|nah|no way|no thanks|no thank you|never|not really)\s*", re.I)
YES = re.compile(
    r"\s*(?:yes|yeah|yep|yup|sure|ok|okay|agreed?|deal|of course|certainly|alright|accepted|"
    r"sounds good|yes please)\s*",
    re.IGNORECASE,
)
NO_START = re.compile(
    r"\s*(?:no|nope|nah)(?= (?:i|you|we|he|she|they|it|let|please|that|this|thanks|player_)\b)",
    re.I,
)
REPORT = re.compile(
    r"(?P<who>\b[\w']{1,30})(?:'ve| have| has| had| just| also| already| once"
    r"| keeps?| kept| \w{1,20}ly| still| never| would){0,3} "
    r"(?:said|says|saying|claims?|claimed|claiming|told|tells|wrote|writes|asked|asks|stated?|states|announced|announces|replied|mentioned|mentions|promised|suggested|"
    r"proposed|offered|thinks?|thought|believes?|believed|accused|insists?|insisted)\b"
    r"(?: (?:me|us|you|them|him|her|everyone|everybody|all))?(?: that| to)?[ ,:]{0,2}"
    r"|\baccording to (?P<source>[\w'-]{1,30})[ ,]{0,2}",
    re.IGNORECASE,
)
SPEAKER = frozenset(("i", "we", "i'd", "i've", "we've", "to", "not", "as", "i'll", "and", "who"))
WORDY = re.compile(r"\b(?:i|you|we|he|she|they|is|are|was|am|will|take|want|have|i'm|i'll)\b", re.I)
LETTER = re.compile(r"\w")
WHOLE = re.compile(r"\s*\"[^\"]*\"\s*")
REQUEST = re.compile(
    r"\s*(?:and |so |but )?(?:can|could|will|would|shall|should|may|might|how about|what about)\b",
    re.IGNORECASE,
)
TURN = ("but", "however", "though", "although", "yet", "whereas")
OWN = re.compile(r"\s*(?:and )?(?:i|we)\b", re.IGNORECASE)
HELD = re.compile(
    r"n't\b|\b(?:i|you|we|he|she|they|it|do|does|will|can|would|please|player_\w{1,9})"
    r"(?: \w{1,20})? (?:not|never|refuse|decline|avoid|doubt)\b"
    r"|\b(?:cannot|never|dont|wont|cant)\b|^do not\b",
    re.IGNORECASE,
)

# Words in lower case, one of which each match of a pattern holds or, for breaks, starts with.
WORD = re.compile(r"\w+")
BREAK_START = re.compile(r"[,()-]| (?=-)|(\w+)")
BREAK_WORDS = frozenset(
    "but however though although whereas yet while because since so instead rather in unlike other "
    "except excluding apart aside besides as without if unless provided assuming suppose supposing "
    "otherwise before after until till once whenever when then and or not".split()
)
NEGATION_WORDS = frozenset(
    "t not never cannot cant dont wont neither nor none nobody nothing nowhere refuse refuses "
    "refused decline declines declined avoid avoids avoided deny denies denied doubt doubts "
    "doubted fail fails failed unable unwilling hardly stop forbid forbids forbidden against "
    "lack lacks false untrue no".split()
)
REPORT_WORDS = frozenset(
    "said says saying claim claims claimed claiming told tells wrote writes asked asks state "
    "stated states announced announces replied mentioned mentions promised suggested proposed "
    "offered think thinks thought believe believes believed accused insist insists insisted "
    "according".split()
)
PAST_WORDS = frozenset(
    "already previously formerly earlier yesterday ago used last was were had did past back have "
    "has".split()
)
