"""The few things a rehearsal can answer: a capital, a sum, an echo, a fact that the prompt itself states."""

import re

_CAPITALS = {
    "france": "Paris",
    "germany": "Berlin",
    "italy": "Rome",
    "japan": "Tokyo",
    "spain": "Madrid",
    "england": "London",
}
_CAPITAL = re.compile(r"capital (?:city )?of (\w+)", re.IGNORECASE)
_SUM = re.compile(r"(-?\d+)\s*(\+|-|\*|×|x|times|plus|minus)\s*(-?\d+)", re.IGNORECASE)
_ECHO = re.compile(
    r"\b(?:reply|respond|answer|say)\b[^\n:.?]*?\b(?:exactly|only|just|verbatim)\b"
    r"(?: (?:this|with|and nothing else|text|the (?:word|text|following|string|phrase)))*"
    r"\s*:?\s*[\"'`]?(?P<what>[^\n\"'`]+?)[\"'`]?\s*$",
    re.IGNORECASE,
)
_SAY = re.compile(r"^\s*say:? [\"'`]?(?P<what>[^\n\"'`]{1,80}?)[\"'`]?[.!]?\s*$", re.IGNORECASE)
_NOUNS = (
    r"pass ?phrases?|passwords?|pass ?codes?|numbers?|code ?words?|codes?|keys?|secrets?|tokens?|phrases?|needles?"
    r"|words?|names?"
)
_STATED = re.compile(
    rf"\b(?P<subject>(?:the|my|a)\s+(?:[\w'-]+\s+){{0,5}}?(?P<noun>{_NOUNS})"
    r"(?:\s+(?:for|of|to|in)\s+[\w' -]{1,60}?)?)"
    r"\s+(?:is|are|=)\s*:?\s*[\"'`«]?(?P<value>[^\"'`»\n.?!]+(?:\.\d+)?)",
    re.IGNORECASE,
)
_NAMED = re.compile(
    rf"\b(?P<subject>(?:\b[a-z'-]+ ){{0,2}}(?P<noun>{_NOUNS})):? [\"'`]?(?P<value>[A-Z0-9][A-Z0-9-]{{3,}})\b"
)
_LETTER = re.compile(r"\w")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS = re.compile(r"[\w'-]{3,}")
_QUESTION_CHARACTERS = 600
_GARBAGE = "!"


def answer(conversation: str, question: str, prompt_tokens: int) -> str:
    """Answer a question from the conversation's own text, or say that no model was run."""
    asked = question[-_QUESTION_CHARACTERS:]
    found = _echo(asked) or _capital(asked) or _stated(conversation, _last_question(asked)) or _sum(asked)
    return found or f"This is a rehearsal: no model was run. Your prompt has {prompt_tokens} tokens."


def thoughts(question: str) -> str:
    """Return what a thinking model would put before its answer."""
    subject = " ".join(question.split()[:12])
    return (
        f'The user wrote: "{subject}". I look for the answer in the conversation, keep it short, and give it at once.'
    )


def garbage(count: int) -> list[str]:
    """Return a degenerate completion of this many tokens: the same token over and over."""
    return [_GARBAGE] * count


def _capital(asked: str) -> str | None:
    found = _CAPITAL.search(asked)
    city = _CAPITALS.get(found[1].lower()) if found else None
    return f"The capital of {found[1].capitalize()} is {city}." if found and city else None


def _sum(asked: str) -> str | None:
    found = _SUM.search(asked)
    if found is None:
        return None
    left, right = int(found[1]), int(found[3])
    sign = found[2].lower()
    if sign in {"+", "plus"}:
        return str(left + right)
    return str(left - right if sign in {"-", "minus"} else left * right)


def _echo(asked: str) -> str | None:
    found = _SAY.match(asked) or _ECHO.search(asked)
    if (
        found is None
        or found["what"].lower().startswith(("the ", "a ", "json", "one "))
        or not _LETTER.search(found["what"])
    ):
        return None
    return found["what"].strip()


def _last_question(asked: str) -> str:
    sentences = [sentence for sentence in _SENTENCE_END.split(asked.strip()) if sentence]
    questions = [sentence for sentence in sentences[-3:] if "?" in sentence]
    return questions[-1] if questions else (sentences or [""])[-1]


def _stated(conversation: str, asked: str) -> str | None:
    wanted = {word.lower() for word in _WORDS.findall(asked)}
    best: tuple[int, str] | None = None
    for found in (*_NAMED.finditer(conversation), *_STATED.finditer(conversation)):
        words = {word.lower() for word in _WORDS.findall(found["subject"])} - {"the"}
        if not wanted & {found["noun"].lower(), found["noun"].lower().rstrip("s")}:
            continue
        score = len(words & wanted)
        if best is None or score >= best[0]:
            best = (score, found["value"].strip())
    return best[1] if best else None
