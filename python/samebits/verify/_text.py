"""Prompts and sentences: plain text, so that a checkpoint alone is enough for a run."""

from __future__ import annotations

TOPICS = (
    "a lighthouse that lost its keeper",
    "how rivers cut valleys into stone",
    "the first day in a new school",
    "baking bread at a high altitude",
    "why the sky turns red in the evening",
    "a bicycle repaired with parts of a clock",
    "trading spices along the coast",
    "the memory of crows",
    "a bridge that sings in the wind",
    "planting an orchard for grandchildren",
)
TASKS = (
    "Write a short story about {}. Begin: It was a quiet morning when",
    "List ten facts about {}, one a line, each beginning with a number.\n1. ",
    "Explain {} to a child, and then explain {} again in the same words, more slowly.",
    'Complete this table as JSON, one object a row: [{{"row": 1, "topic": "{}", "words": 3}}, {{"row": 2,',
    "Question: what is known about {}?\nAnswer:",
)
FILLER = (
    "The order in which numbers are added decides the last bits of their sum. A kernel that is chosen by the shape of "
    "the batch adds in the order that suits the shape, and so the same question gets another answer when it is asked "
    "beside other questions. Most readers never see it; those who compare two runs see nothing else. "
)
SENTENCES = (
    "Rain is expected in the north by Friday.",
    "The committee postponed its vote on the new harbour.",
    "How do I reset the password of my account?",
    "She plays the cello in a small orchestra.",
    "Interest rates rose by a quarter of a point.",
    "Yes.",
    "The recipe calls for two eggs, a cup of flour, a spoonful of sugar and some patience while the dough rests.",
    "Where can I park near the museum?",
    "A proof by induction has a base case and a step.",
    "He forgot his umbrella on the train.",
    "The battery lasts about nine hours when the screen is dimmed.",
    "Penguins cannot fly, but they swim well.",
    "My order has not arrived yet, and the number I was given to follow it is not known to the carrier.",
    "Turn left after the bridge.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "The last chapter was cut from the first edition.",
    "Can you recommend a quiet place to work?",
    "The two teams drew, three goals each, after a match that the reporters called the best of the year.",
    "Steel expands when it is heated.",
    "The museum is closed on Mondays.",
    "A cat slept on the warm bonnet of the car.",
    "Thank you for your letter of the third of May.",
)


def prompts(count: int) -> list[str]:
    """That many different prompts."""
    texts = [task.replace("{}", topic).replace("{{", "{").replace("}}", "}") for topic in TOPICS for task in TASKS]
    return [texts[i % len(texts)] + (f" ({i // len(texts) + 1})" if i >= len(texts) else "") for i in range(count)]
