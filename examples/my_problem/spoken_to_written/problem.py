"""What a speech recogniser hears, and what people write: numbers, times, dates and sums of money."""

import datetime
import itertools
import random
import string
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from t2t_lite import problem, registry

Pair = tuple[str, str]  # as it is spoken, as it is written

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}
_ORDINALS |= {"twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth"}
_MONTHS = "January February March April May June July August September October November December".split()
_FIRST_DAY = datetime.date(1800, 1, 1)
_CURRENCIES = {"euros": "€", "pounds": "£", "dollars": "$"}
# Some are ordinary words as well ("prices rose", "will sell"): only the sentence tells which is meant.
_NAMES = "Anna Ben Clara David Emma Felix Grace Mark Olivia Rose Victor Will".split()
_CITIES = "Bath Berlin Cork Dublin Leeds Lisbon Madrid Nice Paris Reading Rome Vienna".split()
_THINGS = "apples books chairs houses letters lamps shirts tickets".split()

# A sentence as it is written; it is spoken in lower case, without punctuation.
_SENTENCES = (
    "The train to {city} leaves at {time} and costs {money}.",
    "{name} was born in {city} on {date}.",
    "{name} will sell {count} {things} for {money}.",
    "Prices rose by {percent} in {year}.",
    "Will the meeting on {date} start at {time}?",
    "{city} had {count} inhabitants in {year}.",
    "Please call {name} on {phone} before {time}.",
    "Since {year} {name} has been reading {count} books.",
    "Mark the {count} {things} that cost {money} or more.",
)


@registry.register_problem
class SpokenToWritten(problem.Problem):
    """Spoken English to written: "half past six" to "6:30", "three pounds fifty" to "£3.50"; 20,000 sentences."""

    default_hparams = "cyclic_tiny"
    source_language = "spoken"
    target_language = "written"
    vocab_size = 600

    def samples(self, split: str) -> Iterator[Pair]:
        """Yields the pairs of a split: no sentence twice, and none that another split has."""
        size = {"train": 20_000, "dev": 200, "test": 500}[split]
        draw = random.Random(split)
        seen: set[str] = set()
        while len(seen) < size:
            spoken, written = sentence(draw)
            if spoken not in seen and split_of(spoken) == split:
                seen.add(spoken)
                yield spoken, written

    def source_files(self, split: str) -> list[Path]:
        """None: sentences are drawn, not read."""
        return []


def split_of(spoken: str) -> str:
    """Returns the one split that may hold a sentence: "train" for 8 in 10, "dev" for one, "test" for one."""
    return {0: "dev", 1: "test"}.get(zlib.crc32(spoken.encode()) % 10, "train")


def sentence(draw: random.Random) -> Pair:
    """Draws a sentence, in both forms."""
    pairs = []
    for text, slot, _, _ in string.Formatter().parse(draw.choice(_SENTENCES)):
        pairs += [(text.lower().rstrip(".?"), text), _fill(slot, draw) if slot else ("", "")]
    spoken, written = zip(*pairs, strict=True)
    return "".join(spoken), "".join(written)


def _fill(slot: str, draw: random.Random) -> Pair:
    match slot:
        case "count":
            n = draw.randrange(2, 10 ** draw.randint(1, 6))
            return say_number(n), f"{n:,}"
        case "money":
            return _money(draw)
        case "percent":
            whole, tenth = draw.randrange(100), draw.randrange(10)
            return f"{say_number(whole)} point {_ONES[tenth]} percent", f"{whole}.{tenth}%"
        case "year":
            year = draw.randrange(1800, 2100)
            return say_year(year), str(year)
        case "date":
            date = _FIRST_DAY + datetime.timedelta(draw.randrange(300 * 365))
            return say_date(date), f"{date.day} {_MONTHS[date.month - 1]} {date.year}"
        case "time":
            hour, minute, half = draw.randint(1, 12), draw.randrange(0, 60, 5), draw.choice(["am", "pm"])
            part = "in the morning" if half == "am" else "in the evening"
            return f"{say_time(hour, minute)} {part}", f"{hour}:{minute:02} {half}"
        case "phone":
            digits = [draw.randrange(10) for _ in range(draw.randint(5, 8))]
            return say_digits(digits), "".join(map(str, digits))
        case _:
            word = draw.choice({"name": _NAMES, "city": _CITIES, "things": _THINGS}[slot])
            return word.lower(), word


def _money(draw: random.Random) -> Pair:
    currency, sign = draw.choice(list(_CURRENCIES.items()))
    whole, cents = draw.randrange(2, 10 ** draw.randint(1, 4)), draw.choice([0, draw.randrange(10, 100)])
    if not cents:
        return f"{say_number(whole)} {currency}", f"{sign}{whole:,}"
    return f"{say_number(whole)} {currency} {say_number(cents)}", f"{sign}{whole:,}.{cents}"


def say_number(n: int) -> str:
    """Says a number below a million: 1205 is "one thousand two hundred and five"."""
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10 - 2] + (f" {_ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{_ONES[n // 100]} hundred" + (f" and {say_number(n % 100)}" if n % 100 else "")
    rest = n % 1000
    return f"{say_number(n // 1000)} thousand" + (f" {'and ' * (rest < 100)}{say_number(rest)}" if rest else "")


def say_year(year: int) -> str:
    """1905 is "nineteen oh five"."""
    century, rest = divmod(year, 100)
    if 2000 <= year < 2010:
        return say_number(year)
    if rest < 10:
        return f"{say_number(century)} {f'oh {_ONES[rest]}' if rest else 'hundred'}"
    return f"{say_number(century)} {say_number(rest)}"


def say_date(date: datetime.date) -> str:
    """2021-05-03 is "the third of may twenty twenty one"."""
    *tens, last = say_number(date.day).split()
    ordinal = " ".join([*tens, _ORDINALS.get(last, f"{last}th")])
    return f"the {ordinal} of {_MONTHS[date.month - 1].lower()} {say_year(date.year)}"


def say_time(hour: int, minute: int) -> str:
    """8:40 is "twenty to nine"; `hour` is 1 to 12."""
    if minute == 0:
        return f"{say_number(hour)} o'clock"
    to = minute > 30
    distance = 60 - minute if to else minute
    minutes = {15: "quarter", 30: "half"}.get(distance) or say_number(distance)
    return f"{minutes} {'to' if to else 'past'} {say_number(hour % 12 + 1 if to else hour)}"


def say_digits(digits: Iterable[int]) -> str:
    """One by one: 0, 7, 7 are "oh double seven"."""
    spoken = []
    for digit, group in itertools.groupby(digits):
        length, word = len(list(group)), _ONES[digit] if digit else "oh"
        spoken += [f"double {word}"] * (length // 2) + [word] * (length % 2)
    return " ".join(spoken)
