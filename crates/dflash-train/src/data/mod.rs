//! Prompts and the target's greedy answers to them, in shards that survive an interruption.
