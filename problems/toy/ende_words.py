"""The words of toy_ende: what the tables of ende.txt hold."""

from typing import NamedTuple

from .tables import by_first, read

NOMINATIVE, ACCUSATIVE, DATIVE = "nominative", "accusative", "dative"
_TABLES = read("ende.txt")


class Noun(NamedTuple):
    """A noun; the gender is m, f, n or mw, a weak masculine (den Jungen)."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str


class Adjective(NamedTuple):
    """An adjective; the stem takes the endings (teuer, but ein teures Haus), and a `passing` one is true for a time."""

    english: str
    german: str
    stem: str
    passing: str


class Determiner(NamedTuple):
    """An article or its like: `kind` is "der" or "ein" (their endings), or "none" (unchanging: zwei)."""

    english: str
    stem: str
    kind: str
    number: str

    @property
    def definite(self) -> bool:
        """Whether it points at known things: not a, many, two, three."""
        return self.stem not in ("ein", "viel", "zwei", "drei")


class Pronoun(NamedTuple):
    """A personal pronoun, which serves as a phrase; `form` is the form of the verb it takes: 0 ich, 1 er, 2 wir."""

    english: str
    english_object: str
    nominative: str
    accusative: str
    dative: str
    form: str

    @property
    def person(self) -> int:
        return int(self.form)

    def to_english(self, subject: bool) -> str:
        return self.english if subject else self.english_object

    def to_german(self, case: str) -> str:
        return str(getattr(self, case))


class Verb(NamedTuple):
    """A verb and what it takes.

    `particle` is the movable English one (picks him up), `prefix` the separable German one (holt ihn ab). `german`
    holds the finite forms after ich, er and wir; the last is the infinitive too.
    """

    english: str
    english_third: str
    particle: str
    german: tuple[str, ...]
    prefix: str
    case: str
    objects: tuple[str, ...]
    phrases: tuple[str, ...]


class Modal(NamedTuple):
    """A modal verb; `auxiliary` ones need no "do" in questions."""

    english: str
    english_third: str
    german: tuple[str, ...]
    auxiliary: str


class Preposition(NamedTuple):
    """A preposition, the case it takes, and the kind of noun that follows."""

    english: str
    german: str
    case: str
    noun: str


class Adverb(NamedTuple):
    """An adverbial of time, or (`before_verb`) of frequency, which English puts before the verb."""

    english: str
    german: str
    before_verb: str


def _list(cell: str) -> tuple[str, ...]:
    return tuple(cell.split("+")) if cell else ()


def _verb(kind: str, row: list[str]) -> Verb:
    base, third, particle, ich, er, wir, prefix, objects, phrases = row
    case = DATIVE if kind == "dative" else ACCUSATIVE
    return Verb(base, third, particle, (ich, er, wir), prefix, case, _list(objects), _list(phrases))


NOUNS = {kind: [Noun(*row) for row in rows] for kind, rows in by_first(_TABLES["nouns"]).items()}
ADJECTIVES = {
    kind: [Adjective(e, g, stem or g, passing) for e, g, stem, passing in rows]
    for kinds, rows in by_first(_TABLES["adjectives"]).items()
    for kind in _list(kinds)
}
_ALL_DETERMINERS = [Determiner(*row) for row in _TABLES["determiners"]]
THE, A = _ALL_DETERMINERS[:2]
DETERMINERS = [d for d in _ALL_DETERMINERS if d.number != "plural"]
PLURAL_DETERMINERS = [d for d in _ALL_DETERMINERS if d.number != "singular"]
PRONOUNS = [Pronoun(*row) for row in _TABLES["pronouns"]]
VERBS = {kind: [_verb(kind, row) for row in rows] for kind, rows in by_first(_TABLES["verbs"]).items()}
BE = VERBS["be"][0]
MODALS = [Modal(e, third, tuple(forms), auxiliary) for e, third, *forms, auxiliary in _TABLES["modals"]]
PREPOSITIONS = {kind: [Preposition(*row) for row in rows] for kind, rows in by_first(_TABLES["prepositions"]).items()}
CONTRACTIONS = {(one, two): both for one, two, both in _TABLES["contractions"]}
ADVERBS = [Adverb(*row) for row in _TABLES["adverbs"]]
CONJUNCTIONS = [(english, german) for english, german in _TABLES["conjunctions"]]
# By the word they belong to, and gender or plural: for nominative, accusative and dative.
ENDINGS = {
    (word, gender): dict(zip((NOMINATIVE, ACCUSATIVE, DATIVE), endings, strict=True))
    for word, gender, *endings in _TABLES["endings"]
}
