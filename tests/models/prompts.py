"""What the models of texts are asked, by the tests and by the script that makes the records."""

from pathlib import Path

LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text()

TOKENIZED = (
    "The quick brown fox jumps over the lazy dog.",
    "  two spaces,\ttabs\n\n\nand lines \n",
    "1984, 3.14159 and 1,000,000",
    "Müller's naïve café, Straße 東京 数学 привет мир שלום مرحبا हिन्दी 🍎🚀👩‍👩‍👧",
    "def f(x):\n    return {'a': x ** 2}  # don't\n",
    "<|im_start|>user\nHi<|im_end|>\n",
    "<start_of_turn>user\nHi<end_of_turn>",
    "e\u0301 \u200b\ufeff \x00\x7f",
    LICENSE[:3000],
)
"""Texts whose tokens are compared. Special tokens in them are read as such."""

QUESTIONS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Name three fruits.",
    "How many days are in a week?",
    "Say hello in Spanish.",
    "Why is the sky blue?",
    "What do bees make?",
    "Give a short definition of gravity.",
)

CONTINUED = (
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "Water boils at 100 degrees Celsius, and it freezes at",
    # Longer than the window of 512 tokens that most layers have.
    LICENSE[:3000],
)
"""Texts for a model that does not chat."""


def chat(question: str) -> str:
    """Return the prompt that SmolLM2's template makes of a question."""
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    turns = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n"
    return f"{turns}<|im_start|>assistant\n"
