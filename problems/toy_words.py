"""The kinds of word that toy_ende's lexicon holds and its grammar inflects."""

from __future__ import annotations

import dataclasses

M, F, N, PLURAL = "m", "f", "n", "pl"
NOMINATIVE, ACCUSATIVE, DATIVE = "nominative", "accusative", "dative"


@dataclasses.dataclass(frozen=True)
class Noun:
    """A noun; `weak` masculines take -n or -en in the singular's oblique cases (den Jungen)."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str
    weak: bool


@dataclasses.dataclass(frozen=True)
class Adjective:
    """An adjective; `stem` takes the endings (teuer, but ein teures Haus)."""

    english: str
    german: str
    stem: str


@dataclasses.dataclass(frozen=True)
class Determiner:
    """An article or its like: `kind` is "der" or "ein" (their endings), or "none" (unchanging: zwei)."""

    english: str
    stem: str
    kind: str

    @property
    def definite(self) -> bool:
        """Whether it points at known things: not a, many, two, three."""
        return self.stem not in ("ein", "viel", "zwei", "drei")


@dataclasses.dataclass(frozen=True)
class Pronoun:
    """A personal pronoun; `person` is the form of the verb it takes: 0 ich, 1 er, 2 wir. It serves as a phrase."""

    english: str
    english_object: str
    nominative: str
    accusative: str
    dative: str
    person: int

    def to_english(self, subject: bool) -> str:
        return self.english if subject else self.english_object

    def to_german(self, case: str) -> str:
        return {NOMINATIVE: self.nominative, ACCUSATIVE: self.accusative, DATIVE: self.dative}[case]


@dataclasses.dataclass(frozen=True)
class Verb:
    """A verb and what it takes.

    `particle` is the movable English one (picks him up), `prefix` the separable German one (holt ihn ab). `german`
    holds the finite forms after ich, er and wir; the last is the infinitive too.
    """

    english: str
    english_third: str
    particle: str
    german: tuple[str, str, str]
    prefix: str
    case: str
    objects: tuple[str, ...]
    phrases: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Modal:
    """A modal verb; `auxiliary` ones need no "do" in questions."""

    english: str
    english_third: str
    german: tuple[str, str, str]
    auxiliary: bool


@dataclasses.dataclass(frozen=True)
class Preposition:
    """A preposition and the case it takes."""

    english: str
    german: str
    case: str


@dataclasses.dataclass(frozen=True)
class Adverb:
    """An adverbial of time, or (`before_verb`) of frequency: English puts that one before the verb."""

    english: str
    german: str
    before_verb: bool
