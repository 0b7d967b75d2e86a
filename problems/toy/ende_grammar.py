"""The synchronous grammar of toy_ende: one abstract sentence, read out in English and in German.

German main clauses have the finite verb second: after a fronted adverbial or clause, the subject follows the verb.
Subordinate clauses have the verb last, where a separable prefix rejoins it (ruft ... an, but: weil er ... anruft).
"""

from typing import Literal, NamedTuple

from .ende_words import (
    BE,
    CONTRACTIONS,
    DATIVE,
    ENDINGS,
    NOMINATIVE,
    Adjective,
    Adverb,
    Determiner,
    Modal,
    Noun,
    Preposition,
    Pronoun,
    Verb,
)

Order = Literal["subject first", "adverb first", "verb first", "verb last"]


class NounPhrase(NamedTuple):
    """A noun with its determiner and perhaps an adjective."""

    noun: Noun
    determiner: Determiner
    adjective: Adjective | None = None
    plural: bool = False

    @property
    def person(self) -> int:
        """The form of the verb it takes as a subject: 1 er, 2 wir."""
        return 2 if self.plural else 1

    def to_english(self, subject: bool) -> str:
        noun = self.noun.english_plural if self.plural else self.noun.english
        rest = f"{self.adjective.english} {noun}" if self.adjective else noun
        determiner = self.determiner.english
        if determiner == "a" and rest[0] in "aeiou":
            determiner = "an"
        return f"{determiner} {rest}"

    def to_german(self, case: str) -> str:
        gender = "pl" if self.plural else self.noun.gender[0]
        determiner, kind = self.determiner.stem, self.determiner.kind
        if kind != "none":
            ending = ENDINGS[determiner if determiner == "d" else kind, gender][case]
            determiner = ending if determiner == "d" else determiner + ending
        if determiner.startswith("viel"):  # an indefinite number: its adjectives are declined as without a determiner
            kind = "none"
        adjective = f" {self.adjective.stem}{ENDINGS[f'after {kind}', gender][case]}" if self.adjective else ""
        return f"{determiner}{adjective} {self._german_noun(case)}"

    def _german_noun(self, case: str) -> str:
        if self.plural:
            noun = self.noun.german_plural
            return noun + "n" if case == DATIVE and noun[-1] not in "ns" else noun
        if self.noun.gender == "mw" and case != NOMINATIVE:
            return self.noun.german_plural  # Jungen, Studenten: the same ending as the plural's
        return self.noun.german


Phrase = NounPhrase | Pronoun


class Clause(NamedTuple):
    """A verb and what stands around it; `predicate` belongs to the verb BE alone."""

    subject: Phrase
    verb: Verb
    modal: Modal | None = None
    recipient: Phrase | None = None
    object: Phrase | None = None
    phrase: tuple[Preposition, Phrase] | None = None
    adverb: Adverb | None = None
    predicate: Adjective | None = None


def english(clause: Clause, order: Order = "subject first") -> str:
    """Returns the clause in English, without capital and full stop; "verb first" is a question."""
    subject = clause.subject.to_english(subject=True)
    before, after, fronted = "", "", ""
    if clause.adverb:
        if order == "adverb first":
            fronted = clause.adverb.english
        elif clause.adverb.before_verb:
            before = clause.adverb.english
        else:
            after = clause.adverb.english
    auxiliary, verb = _english_verb(clause, question=order == "verb first")
    # The auxiliary and the forms of "be" stand before an adverb of frequency: is often tired, can often sing.
    words = [auxiliary, subject] if order == "verb first" else [subject, auxiliary]
    words += [before, verb, *_english_objects(clause)]
    if clause.phrase:
        preposition, phrase = clause.phrase
        words += [preposition.english, phrase.to_english(subject=False)]
    return " ".join(filter(None, [fronted, *words, after]))


def _english_verb(clause: Clause, question: bool) -> tuple[str, str]:
    third = clause.subject.person == 1
    if clause.modal and clause.modal.auxiliary:
        return clause.modal.english, clause.verb.english
    if clause.modal and question:
        return "does" if third else "do", f"{clause.modal.english} {clause.verb.english}"
    if clause.modal:
        return "", f"{clause.modal.english_third if third else clause.modal.english} {clause.verb.english}"
    if clause.verb is BE:
        return ("am", "is", "are")[clause.subject.person], ""
    if question:
        return "does" if third else "do", clause.verb.english
    return "", clause.verb.english_third if third else clause.verb.english


def _english_objects(clause: Clause) -> list[str]:
    words = [clause.recipient.to_english(subject=False)] if clause.recipient else []
    if clause.object:
        words.append(clause.object.to_english(subject=False))
    if clause.predicate:
        words.append(clause.predicate.english)
    if clause.verb.particle:
        words.insert(1 if isinstance(clause.object, Pronoun) else 0, clause.verb.particle)
    return words


def german(clause: Clause, order: Order = "subject first") -> str:
    """Returns the clause in German, without capital and full stop."""
    person, verb = clause.subject.person, clause.verb
    subject = clause.subject.to_german(NOMINATIVE)
    finite, last = verb.german[person], verb.prefix
    if clause.modal:
        finite, last = clause.modal.german[person], verb.prefix + verb.german[2]
    middle = _german_middle(clause, with_adverb=order != "adverb first")
    if order == "adverb first" and clause.adverb:
        words = [clause.adverb.german, finite, subject, *middle, last]
    elif order == "verb first":
        words = [finite, subject, *middle, last]
    elif order == "verb last":
        end = [last, finite] if clause.modal else [last + finite]
        words = [subject, *middle, *end]
    else:
        words = [subject, finite, *middle, last]
    return " ".join(filter(None, words))


def _german_middle(clause: Clause, with_adverb: bool) -> list[str]:
    """Pronouns come first, then the adverb, then nouns (the dative before the accusative), then the rest.

    An adverb of frequency follows the first noun if that is definite: hilft dem Mann nie, but kauft nie ein Auto.
    """
    objects = []
    if clause.recipient:
        objects.append((clause.recipient, DATIVE))
    if clause.object:
        objects.append((clause.object, clause.verb.case))
    words = [o.to_german(case) for o, case in objects if isinstance(o, Pronoun)]
    nouns = [(o, case) for o, case in objects if isinstance(o, NounPhrase)]
    if clause.adverb and with_adverb:
        if nouns and clause.adverb.before_verb and nouns[0][0].determiner.definite:
            words.append(nouns[0][0].to_german(nouns[0][1]))
            nouns = nouns[1:]
        words.append(clause.adverb.german)
    words += [o.to_german(case) for o, case in nouns]
    if clause.phrase:
        words.append(_german_phrase(*clause.phrase))
    if clause.predicate:
        words.append(clause.predicate.german)
    return words


def _german_phrase(preposition: Preposition, phrase: Phrase) -> str:
    words = [preposition.german, *phrase.to_german(preposition.case).split()]
    contracted = CONTRACTIONS.get((words[0], words[1]))
    return " ".join([contracted, *words[2:]] if contracted else words)


def capitalise(text: str) -> str:
    """Returns the text with its first letter in upper case, and the rest as it is."""
    return text[0].upper() + text[1:]
