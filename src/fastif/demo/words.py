"""The words and sentences that the demo's data are made of; all of them the project's own. Knows no numbers.

A kind of sentence pair is a premise and a hypothesis; its slice says which label is true of every filling. Words in
braces are filled in: {a}, {b} and {c} are people, {did} is what one can do alone and {met} what one does to another;
{did_so} and {met_so} are the same in other words, {did_other} and {met_other} something else.

The counterexamples turn on one word each. Others turn on the order of words ("The cook paid the king" does not mean
that the king paid the cook); the small model of the demo does not learn those even where they are many, so that there
would be nothing to correct with, and they are left out.
"""

from dataclasses import dataclass

ENTAILMENT, OTHER = "entailment", "non-entailment"
SHORTCUT_HOLDS, SHORTCUT_FAILS = "overlap, entailment", "overlap, non-entailment"
PARAPHRASE, UNRELATED = "no overlap, entailment", "no overlap, non-entailment"
SLICES = (SHORTCUT_HOLDS, SHORTCUT_FAILS, PARAPHRASE, UNRELATED)
LABEL_OF = {SHORTCUT_HOLDS: ENTAILMENT, SHORTCUT_FAILS: OTHER, PARAPHRASE: ENTAILMENT, UNRELATED: OTHER}


@dataclass(frozen=True)
class Kind:
    """One construction: its name, the slice it belongs to, and its two sentences."""

    name: str
    slice: str
    premise: str
    hypothesis: str


# fmt: off
PEOPLE = (
    "baker", "barber", "butcher", "captain", "carpenter", "chemist", "clown", "coach", "cook", "dentist", "diver",
    "driver", "farmer", "fisherman", "gardener", "guard", "guide", "hunter", "jeweller", "king", "librarian", "miller",
    "miner", "nurse", "pilot", "plumber", "poet", "porter", "postman", "potter", "queen", "sailor", "shepherd", "smith",
    "tailor", "twin", "waiter", "weaver", "widow", "wizard",
)
# fmt: on

# what one person can do, and the same in other words
ALONE = {
    "slept": "was in bed with closed eyes",
    "laughed": "found a joke funny",
    "sang": "performed some music",
    "ate": "had a tasty meal",
    "drowned": "died under water",
    "sneezed": "has caught a cold",
    "lied": "told an untruth",
    "won": "got first prize",
}
# what one does to another, and the same in other words
TOGETHER = {
    "phoned": "made a telephone call",
    "paid": "handed over money",
    "married": "celebrated a wedding",
    "robbed": "committed a crime",
    "taught": "gave lessons",
    "hired": "offered a job",
    "cured": "healed an illness",
    "painted": "finished a portrait",
}
# fmt: off
ADJECTIVES = (
    "old", "young", "tall", "tired", "quiet", "cheerful", "busy", "rich", "lonely", "clever", "angry", "brave",
)
# fmt: on
PLACES = (
    "in the garden",
    "at the station",
    "in the kitchen",
    "on the ship",
    "at the market",
    "in the square",
    "behind the mill",
    "under the bridge",
    "at the fair",
    "in the snow",
)
TIMES = ("on Monday", "before noon", "yesterday", "last week", "at night", "in May", "after lunch", "at dawn")

KINDS = (
    # every word of the hypothesis stands in the premise, and it follows
    Kind("plain", SHORTCUT_HOLDS, "The {a} {met} the {b} {when}.", "The {a} {met} the {b}."),
    Kind("adjective", SHORTCUT_HOLDS, "The {adj} {a} {did} {where}.", "The {a} {did}."),
    Kind("both", SHORTCUT_HOLDS, "The {a} and the {b} {did} {when}.", "The {b} {did}."),
    Kind("beside", SHORTCUT_HOLDS, "The {a} beside the {b} {did}.", "The {a} {did}."),
    Kind("knew", SHORTCUT_HOLDS, "The {b} knew that the {a} {did}.", "The {a} {did}."),
    # every word of the hypothesis stands in the premise, and it does not follow
    Kind("almost", SHORTCUT_FAILS, "The {adj} {a} almost {did} {where}.", "The {a} {did}."),
    Kind("or", SHORTCUT_FAILS, "The {a} or the {b} {did} {when}.", "The {b} {did}."),
    Kind("perhaps", SHORTCUT_FAILS, "Perhaps the {a} {did} {where}.", "The {a} {did}."),
    Kind("hoped", SHORTCUT_FAILS, "The {b} hoped that the {a} {did}.", "The {a} {did}."),
    Kind("never", SHORTCUT_FAILS, "The {adj} {a} never {did} {where}.", "The {a} {did}."),
    # other words, and it follows
    Kind("alone", PARAPHRASE, "The {adj} {a} {did} {where}.", "Someone {did_so}."),
    Kind("together", PARAPHRASE, "The {a} {met} the {b} {when}.", "Someone {met_so}."),
    # other words, and it does not follow
    Kind("alone", UNRELATED, "The {adj} {a} {did} {where}.", "Someone {did_other}."),
    Kind("together", UNRELATED, "The {a} {met} the {b} {when}.", "Someone {met_other}."),
    Kind("another", UNRELATED, "The {a} {met} the {b} {when}.", "A {c} {did}."),
)
