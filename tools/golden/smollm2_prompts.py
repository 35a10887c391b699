"""Real English for SmolLM2-135M-Instruct: open text, questions about two passages, chat.

Many prompts begin alike on purpose. The texts are our own; changing one changes the golden numbers.
"""

_LIGHTHOUSE = (
    "Passage: A lighthouse lens does not make light, it only gathers it. The lamp of an old tower was no brighter "
    "than a few dozen candles, but rings of glass prisms around it bent almost every ray towards the horizon. "
    "Sailors could see the beam from twenty miles away. The design is named after Augustin Fresnel, a French "
    "engineer who built the first one in 1823 for the tower of Cordouan at the mouth of the Gironde.\n\n"
)
_BREAD = (
    "Passage: Sourdough rises without any yeast from a packet. A starter of flour and water is left in a warm place "
    "for about a week, and wild yeasts and bacteria settle in it. The yeasts make gas, which lifts the dough; the "
    "bacteria make acids, which give the sour taste and keep mould away. A baker feeds the starter with fresh flour "
    "every day, and some starters have been kept alive for more than a hundred years.\n\n"
)
_ASK = "Question about the passage:"
_SYSTEM = "You are a helpful assistant who answers in one short sentence."


def _chat(*turns: str, system: str = _SYSTEM) -> str:
    """The model's chat template, with the turns of user and assistant in alternation."""
    text = f"<|im_start|>system\n{system}<|im_end|>\n"
    for index, turn in enumerate(turns):
        text += f"<|im_start|>{'assistant' if index % 2 else 'user'}\n{turn}<|im_end|>\n"
    return text + "<|im_start|>assistant\n"


TEXTS = {
    "bos": "<|im_start|>",
    "capital": "The capital of France is",
    "water": "The three states of water are ice,",
    "story": "Once upon a time, in a village between two rivers, there lived an old clockmaker who",
    "list": "Three things to pack for a walk in the rain:\n1.",
    "code": 'def greatest_common_divisor(a: int, b: int) -> int:\n    """Return the',
    "numbers": "In 1969 the crew of Apollo 11 travelled about 384,400 kilometres to the Moon, and",
    "accents": "The café in Málaga serves crème brûlée — “the best”, said the naïve tourist, who",
    "lens-name": _LIGHTHOUSE + _ASK + " Who is the lens named after?",
    "lens-prisms": _LIGHTHOUSE + _ASK + " What did the rings of glass prisms do?",
    "lens-year": _LIGHTHOUSE + _ASK + " In which year was the first lens built?",
    "lens-summary": _LIGHTHOUSE + "In one sentence, the passage says that",
    "bread-taste": _BREAD + _ASK + " What gives the bread its sour taste?",
    "bread-age": _BREAD + _ASK + " How long can a starter be kept alive?",
    "bread-summary": _BREAD + "In one sentence, the passage says that",
    "chat-ocean": _chat("What is the largest ocean?"),
    "chat-planet": _chat("Which planet is known as the red planet?"),
    "chat-turns": _chat("Which planet is known as the red planet?", "Mars.", "Does it have moons?"),
    "chat-lens": _chat(_LIGHTHOUSE + "Who built the first lens of this kind?"),
    "chat-bread": _chat(_BREAD + "Why does a starter not go mouldy?"),
}
# Prompts whose whole vocabulary of logits is stored at the last position.
FULL = ["capital", "story", "lens-name", "chat-turns"]
# The prompt whose every position is stored, for a spread of token ids.
EVERY_POSITION = "water"
