"""The serving model: pools of instances that prefill and decode, apart or together."""
