"""Clauses of toy_parsing: subjects, relative clauses and verb phrases, which hold each other."""

from typing import NamedTuple

from t2t_lite.text.trees.tree import Leaf

from . import treebank_words as words
from .treebank_nouns import Nodes, NounPhrases, leaf, phrase, prepositional
from .treebank_words import BE, DO, HAVE, Modifier, Verb

LIVING = words.WORDS["living"]
_DO_FORMS = [DO.finite(plural, past) for plural in (False, True) for past in (False, True)]


class Subject(NamedTuple):
    """A noun phrase before its verb; `decides`: the verb's number alone shows how the phrase is bracketed."""

    nodes: Nodes
    kind: str
    plural: bool
    decides: bool = False


class Predicate(NamedTuple):
    """A verb and what follows it within its phrase."""

    verb: Verb
    rest: Nodes = ()


class Clauses(NounPhrases):
    """Draws clauses.

    budget: what a phrase may hold. 2: clauses and prepositional phrases, 1: the latter, 0: neither.
    """

    def clause(self, budget: int) -> Nodes:
        """Returns the parts of an S: a subject and its verb phrase, perhaps an adverb between them."""
        subject = self.subject(budget)
        adverb = phrase("ADVP", self.word("RB", "often")) if self.chance(0.1) else ()
        if subject.kind in LIVING and self.chance(0.05):
            past = not subject.decides and self.chance(0.5)
            both = self.join(*(self.short(subject.kind, subject.plural, past) for _ in range(2)))
            return subject.nodes + adverb + both
        verb, rest = self.predicate(subject.kind, budget)
        if verb is BE:
            adverb, rest = (), adverb + rest
        return subject.nodes + adverb + self.finite(Predicate(verb, rest), subject.plural, subject.decides)

    # Subjects

    def subject(self, budget: int) -> Subject:
        kind = self.rule((6, lambda: "person"), (2, lambda: "animal"), (2, lambda: self.pick(words.WORDS["lifeless"])))
        plural, living = self.number(), kind in LIVING
        # Before the verb, a place can belong only to the noun.
        modifiers = words.MODIFIERS[kind] + [Modifier("in", kind, "place")] * living
        return self.rule(
            (15, lambda: Subject(self.subject_phrase(kind, plural), kind, plural)),
            (3 * (budget > 0), lambda: Subject(self.modified(self.pick(modifiers), plural), kind, plural)),
            (budget > 0, lambda: Subject(self.several(kind, "and"), kind, plural=True)),
            (living and budget > 0, lambda: self.shared(plural)),
            (3 * (budget > 1), lambda: Subject(self.with_clause(kind, plural), kind, plural)),
        )

    def shared(self, plural: bool) -> Subject:
        """Returns the dog of the man and the woman: the dog of both, or a dog and a woman?"""
        dog = self.determined("animal", plural=False)
        man, woman = (self.determined("person", self.number()) for _ in range(2))
        if plural:
            nodes = phrase("NP", phrase("NP", dog, prepositional("of", man)), leaf("CC", "and"), woman)
        else:
            nodes = phrase("NP", dog, prepositional("of", phrase("NP", man, leaf("CC", "and"), woman)))
        return Subject(nodes, "animal", plural, decides=True)

    # Relative clauses

    def with_clause(self, kind: str, plural: bool) -> Nodes:
        """Returns a noun phrase that ends with a clause."""
        if kind in LIVING and self.chance(0.4):
            return self.owned_with_clause(kind, plural)
        return phrase("NP", self.noun_phrase(kind, plural), self.relative(kind, plural))

    def owned_with_clause(self, kind: str, plural: bool) -> Nodes:
        """Returns the dogs of the man that bark, or that barks: both could bark; the verb's number tells who does."""
        dogs = self.determined("relation" if kind == "person" else kind, plural)
        man, mans = self.noun_phrase("person", not plural), self.chance(0.5)
        barking = self.finite(self.predicate("animal", 0), plural != mans, decides=True)
        clause = self.relative_clause("person" if mans else kind, barking)
        if mans:
            return phrase("NP", dogs, prepositional("of", phrase("NP", man, clause)))
        return phrase("NP", dogs, prepositional("of", man), clause)

    def relative(self, kind: str, plural: bool) -> Nodes:
        """Returns what modifies a noun: that sleeps, that the boy saw, she saw, seen by her, whose dog sleeps."""
        verb = self.pick([verb for verb in words.VERBS["transitive"] if kind in verb.objects])
        return self.rule(
            (4, lambda: self.relative_clause(kind, self.finite(self.predicate(kind, 0), plural))),
            (3, lambda: self.relative_clause(kind, self.doing(verb))),
            (1.5, lambda: phrase("SBAR", phrase("S", self.doing(verb, by_name=True)))),
            (1, lambda: self.done_by(kind)),
            (2 * (kind == "person"), self.whose),
        )

    def relative_clause(self, kind: str, clause: Nodes) -> Nodes:
        pronoun = self.pick((Leaf("WDT", "that"), Leaf("WP", "who") if kind == "person" else Leaf("WDT", "which")))
        return phrase("SBAR", phrase("WHNP", (pronoun,)), phrase("S", clause))

    def doing(self, verb: Verb, by_name: bool = False) -> Nodes:
        """Returns the parts of an S whose object stands before it."""
        plural = self.number()
        subject = self.someone(plural) if by_name else self.subject_phrase("person", plural)
        return subject + self.finite(Predicate(verb), plural)

    def whose(self) -> Nodes:
        plural = self.number()
        whose = phrase("WHNP", leaf("WP$", "whose"), self.noun("animal").leaf(plural))
        return phrase("SBAR", whose, phrase("S", self.finite(self.predicate("animal", 0), plural)))

    # Verb phrases

    def finite(self, predicate: Predicate, plural: bool, decides: bool = False) -> Nodes:
        """Returns a verb phrase whose first verb agrees with its subject; the agreement is visible if it `decides`."""
        verb, rest = predicate
        if self.chance(0.75):
            return phrase("VP", verb.finite(plural, past=not decides and self.chance(0.5)), rest)
        auxiliary, form = self.auxiliary(verb, plural, decides)
        negated = auxiliary in _DO_FORMS or self.chance(0.2)
        return phrase("VP", auxiliary, leaf("RB", "not") * negated, phrase("VP", form, rest))

    def auxiliary(self, verb: Verb, plural: bool, decides: bool = False) -> tuple[Nodes, Nodes]:
        """Returns an auxiliary and the form of the verb behind it."""
        past = not decides and self.chance(0.4)
        acting = verb is not BE
        return self.rule(
            (1, lambda: (HAVE.finite(plural, past), leaf("VBN", verb.participle))),
            (not decides, lambda: (self.word("MD", "modals"), leaf("VB", verb.base))),
            (acting, lambda: (DO.finite(plural, past), leaf("VB", verb.base))),
            (
                acting and verb.base not in words.WORDS["stative"],
                lambda: (BE.finite(plural, past), leaf("VBG", verb.gerund)),
            ),
        )

    def short(self, kind: str, plural: bool, past: bool = False) -> Nodes:
        """Returns the parts of a verb phrase: a verb, perhaps an object."""
        verbs = words.VERBS["intransitive"] * 2 + words.VERBS["transitive"]
        verb = self.pick([verb for verb in verbs if kind in verb.subjects])
        rest = self.object_phrase(self.pick(verb.objects)) if verb.objects else ()
        return verb.finite(plural, past) + rest

    def join(self, one: Nodes, two: Nodes) -> Nodes:
        """Returns two verb phrases' parts as one phrase: flat if they are words, as the treebank has it."""
        if len(one) > 1 or len(two) > 1:
            one, two = phrase("VP", one), phrase("VP", two)
        return phrase("VP", one, leaf("CC", "and"), two)

    def predicate(self, kind: str, budget: int) -> Predicate:
        """Returns what a subject of this kind may do or be."""
        person, living = kind == "person", kind in LIVING
        return self.rule(
            (4 * living, lambda: self.intransitive(kind)),
            (7 * living, lambda: self.transitive(kind, budget)),
            (4 * person, self.with_place_or_recipient),
            (1.5 * person, self.with_particle),
            (2, lambda: Predicate(BE, self.description(kind))),
            (not living, lambda: Predicate(BE, self.done_by(kind))),
            (5 * person * (budget > 1), self.with_complement),
        )

    def intransitive(self, kind: str) -> Predicate:
        verb = self.pick([verb for verb in words.VERBS["intransitive"] if kind in verb.subjects])
        return Predicate(verb, self.manner(0.25) + self.place(0.4) + self.time(0.2))

    def transitive(self, kind: str, budget: int) -> Predicate:
        verb = self.pick([verb for verb in words.VERBS["transitive"] if kind in verb.subjects])
        what = self.pick(verb.objects)
        if budget > 1 and self.chance(0.15):
            return Predicate(verb, self.with_clause(what, self.number()))  # what followed would belong to the clause
        object_ = self.rule(
            (6, lambda: self.object_phrase(what)),
            (4 * (budget > 0), lambda: self.modified(self.pick(words.MODIFIERS[what]), self.number(), verb)),
            (budget > 0, lambda: self.several(what, self.pick(("and", "or")))),
        )
        if kind == "person" and verb.tools and self.chance(0.6):
            adjunct = prepositional("with", self.feature(self.pick(verb.tools)))
        else:
            adjunct = self.place(0.25 if what in words.WORDS["mobile"] else 0)
        return Predicate(verb, object_ + adjunct + self.time(0 if verb.base in words.WORDS["stative"] else 0.1))

    def with_place_or_recipient(self) -> Predicate:
        """Returns a verb with two complements: leaves the bag on the table, gives the book to her, gives her a book."""
        verb = self.pick(words.VERBS["placing"] + words.VERBS["carrying"] + words.VERBS["giving"])
        what = self.pick(verb.objects)
        if verb in words.VERBS["giving"] and self.chance(0.5):
            return Predicate(verb, self.object_phrase("person") + self.determined(what, self.number()))
        if verb in words.VERBS["placing"]:
            preposition, goal = self.pick(("on", "under")), self.determined("furniture", plural=False)
        elif verb in words.VERBS["carrying"]:
            preposition, goal = "to", self.determined("building", plural=False)
        else:
            preposition, goal = "to", self.object_phrase("person")
        return Predicate(verb, self.object_phrase(what) + prepositional(preposition, goal))

    def with_particle(self) -> Predicate:
        verb = self.pick(words.VERBS["with particle"])
        one, two = phrase("PRT", leaf("RP", verb.takes)), self.object_phrase(self.pick(verb.objects))
        return Predicate(verb, one + two if self.chance(0.6) else two + one)

    def with_complement(self) -> Predicate:
        """Returns a verb with a clause: says (that) he sleeps, wants (the girl) to sleep, asks the girl to sleep."""
        verb = self.pick(words.VERBS["with clause"])
        if verb.takes == "that":
            return Predicate(verb, self.that_clause(self.clause(0), said=self.chance(0.6)))
        inner = self.predicate("person", 0)
        to = phrase("VP", leaf("TO", "to"), phrase("VP", leaf("VB", inner.verb.base), inner.rest))
        if verb.takes == "to":
            return Predicate(verb, phrase("S", to))
        someone = self.object_phrase("person")
        return Predicate(verb, someone + phrase("S", to) if verb.takes == "someone, to" else phrase("S", someone, to))

    def that_clause(self, clause: Nodes, said: bool = True) -> Nodes:
        return phrase("SBAR", leaf("IN", "that") * said, phrase("S", clause))

    def description(self, kind: str) -> Nodes:
        """Returns what follows "is"."""
        adjective = leaf("JJ", self.pick(words.ADJECTIVES[kind]))
        living, (where, other) = kind in LIVING, words.WHERE.get(kind, ("in", "place"))
        pair = self.word("JJR", "comparatives"), self.word("JJ", "proud")
        return self.rule(
            (2, lambda: phrase("ADJP", adjective)),
            (1, lambda: phrase("ADJP", leaf("RB", "very"), adjective)),
            (living, lambda: phrase("ADJP", pair[0], prepositional("than", self.determined(kind, plural=False)))),
            (living, lambda: phrase("ADJP", pair[1], prepositional("of", self.object_phrase("animal")))),
            (1, lambda: prepositional(where, self.determined(other, plural=False))),
        )

    def done_by(self, kind: str) -> Nodes:
        verb = self.pick([verb for verb in words.VERBS["transitive"] if kind in verb.objects])
        return phrase("VP", leaf("VBN", verb.participle), prepositional("by", self.object_phrase("person")))

    # What may follow a verb and its objects

    def manner(self, probability: float) -> Nodes:
        return phrase("ADVP", self.word("RB", "manner")) if self.chance(probability) else ()

    def place(self, probability: float) -> Nodes:
        if not self.chance(probability):
            return ()
        near = self.chance(0.2)
        return prepositional("near" if near else "in", self.determined("building" if near else "place", plural=False))

    def time(self, probability: float) -> Nodes:
        if not self.chance(probability):
            return ()
        part, season = (self.word("NN", name) for name in ("parts of day", "seasons"))
        day = self.word("NNP", "days")
        return self.rule(
            (1, lambda: prepositional("on", phrase("NP", day))),
            (1, lambda: prepositional("in", phrase("NP", leaf("DT", "the"), part))),
            (1, lambda: prepositional("in", phrase("NP", season))),
            (1, lambda: phrase("NP", leaf("DT", "every"), part)),
            (1, lambda: prepositional(self.pick(("before", "after")), self.determined("event", plural=False))),
        )
