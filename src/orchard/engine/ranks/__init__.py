"""One model on several ranks: processes that each hold a shard of it and take the same steps."""
