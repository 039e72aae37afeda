"""From logits to tokens: sampling, penalties, grammars, logprobs, thinking budgets."""
