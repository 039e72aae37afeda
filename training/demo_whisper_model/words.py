"""The words that the model knows. They were chosen because they sound different."""

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WORDS = (
    *DIGITS,
    "about", "after", "animal", "apple", "autumn", "banana", "before", "bicycle", "bottle", "bridge",
    "butter", "camera", "carpet", "castle", "chocolate", "coffee", "dinner", "doctor", "dragon", "elephant",
    "finger", "flower", "forest", "garden", "guitar", "hello", "hospital", "island", "jacket", "kitchen",
    "lemon", "letter", "mountain", "music", "never", "orange", "paper", "pencil", "piano", "please",
    "question", "rabbit", "river", "science", "silver", "summer", "telephone", "thank", "tomorrow", "umbrella",
    "village", "window", "winter", "yellow",
)  # fmt: skip
