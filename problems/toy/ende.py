"""Draws sentences of toy_ende at random, the same ones for the same seed on every machine."""

from collections.abc import Iterator, Sequence

from . import ende_words as words
from .draw import Draw
from .ende_grammar import Clause, NounPhrase, Order, Phrase, capitalise, english, german
from .ende_words import Adjective, Noun, Preposition, Pronoun, Verb

MIN_WORDS, MAX_WORDS = 4, 16


def pairs(seed: str) -> Iterator[tuple[str, str]]:
    """Yields (English, German) without end; both sides have MIN_WORDS to MAX_WORDS words. Pairs may repeat."""
    draw = Sentences(seed)
    while True:
        source, target = draw.sentence()
        if all(MIN_WORDS <= len(side.split()) <= MAX_WORDS for side in (source, target)):
            yield source, target


class Sentences(Draw):
    """Draws pairs of sentences and their parts."""

    def sentence(self) -> tuple[str, str]:
        """Returns one (English, German) pair."""
        form = self._random()
        if form < 0.5:
            clause = self.clause()
            movable = clause.adverb is not None and not clause.adverb.before_verb
            order: Order = "adverb first" if movable and self.chance(0.6) else "subject first"
            ends, source, target = ".", english(clause, order), german(clause, order)
        elif form < 0.6:
            clause = self.clause()
            ends, source, target = "?", english(clause, "verb first"), german(clause, "verb first")
        elif form < 0.7:
            ends, source, target = ".", *self._report_speech()
        elif form < 0.78:
            ends, source, target = ".", *self._coordinate()
        else:
            ends, source, target = ".", *self._subordinate(first=form < 0.88)
        return capitalise(source) + ends, capitalise(target) + ends

    def _report_speech(self) -> tuple[str, str]:
        that = self.clause(short=True)
        main = Clause(self.person(), self.pick(words.VERBS["saying"]))
        return f"{english(main)} that {english(that)}", f"{german(main)}, dass {german(that, 'verb last')}"

    def _coordinate(self) -> tuple[str, str]:
        one, two = self.clause(short=True), self.clause(short=True)
        if self.chance(0.5):
            return f"{english(one)} and {english(two)}", f"{german(one)} und {german(two)}"
        return f"{english(one)}, but {english(two)}", f"{german(one)}, aber {german(two)}"

    def _subordinate(self, first: bool) -> tuple[str, str]:
        main, side = self.clause(short=True), self.clause(short=True)
        word, wort = self.pick(words.CONJUNCTIONS)
        if first:
            source = f"{word} {english(side)}, {english(main)}"
            return source, f"{wort} {german(side, 'verb last')}, {german(main, 'verb first')}"
        return f"{english(main)} {word} {english(side)}", f"{german(main)}, {wort} {german(side, 'verb last')}"

    def clause(self, short: bool = False) -> Clause:
        """Returns a clause; a short one has no adverb and no phrase but those its verb needs."""
        kind = self.pick(("accusative",) * 9 + ("dative", "giving", "intransitive", "be") * 3 + ("motion",) * 2)
        adverb = None if short or self.chance(0.5) else self.pick(words.ADVERBS)
        if kind == "be":
            subject, predicate = self._describe()
            adverb = adverb if predicate.passing else None  # nobody is old on Monday
            return Clause(subject, words.BE, adverb=adverb, predicate=predicate)
        subject, verb = self.person(), self.pick(words.VERBS[kind])
        # An adverb of frequency beside a modal would leave open which of the two verbs it belongs to.
        modal = None if (adverb and adverb.before_verb) or self.chance(0.8) else self.pick(words.MODALS)
        recipient = self.person(apart_from=subject, pronouns=0.4) if kind == "giving" else None
        thing = self._object(verb, subject)
        phrase = None
        if verb.phrases and (kind == "motion" or (not short and self.chance(0.4))):
            phrase = self._phrase(self.pick(verb.phrases), subject)
        return Clause(subject, verb, modal, recipient, thing, phrase, adverb)

    def person(self, apart_from: Phrase | None = None, pronouns: float = 0.35) -> Phrase:
        """Returns a person: a pronoun (neither "I see me" nor "we see me"), or a noun other than `apart_from`'s."""
        if self.chance(pronouns):
            first = isinstance(apart_from, Pronoun) and apart_from.english in ("I", "we")
            return self.pick([p for p in words.PRONOUNS if not (first and p.english in ("I", "we"))])
        return self.noun_phrase("person", apart_from=apart_from)

    def noun_phrase(self, kind: str, adjectives: float = 0.45, apart_from: Phrase | None = None) -> NounPhrase:
        """Returns a noun phrase with a noun of `kind`."""
        nouns: Sequence[Noun] = words.NOUNS[kind]
        if isinstance(apart_from, NounPhrase):
            nouns = [n for n in nouns if n != apart_from.noun]
        noun, plural, common = self.pick(nouns), self.chance(0.3), self.chance(0.5)
        if plural:
            determiner = words.THE if common else self.pick(words.PLURAL_DETERMINERS)
        else:
            determiner = self.pick((words.THE, words.A)) if common else self.pick(words.DETERMINERS)
        adjective = self.pick(words.ADJECTIVES[kind]) if self.chance(adjectives) else None
        return NounPhrase(noun, determiner, adjective, plural)

    def _describe(self) -> tuple[Phrase, Adjective]:
        if self.chance(0.3):
            return self.person(pronouns=0.8), self.pick(words.ADJECTIVES["person"])
        kind = self.pick(tuple(words.NOUNS))
        return self.noun_phrase(kind, adjectives=0), self.pick(words.ADJECTIVES[kind])

    def _object(self, verb: Verb, subject: Phrase) -> Phrase | None:
        if not verb.objects:
            return None
        kind = self.pick(verb.objects)
        return self.person(apart_from=subject) if kind == "person" else self.noun_phrase(kind)

    def _phrase(self, kind: str, subject: Phrase) -> tuple[Preposition, Phrase]:
        preposition = self.pick(words.PREPOSITIONS[kind])
        if preposition.noun == "person":
            return preposition, self.person(apart_from=subject)
        return preposition, self.noun_phrase(preposition.noun, adjectives=0.3)
