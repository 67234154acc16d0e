"""The road of one message: validate, build, and turn a provider's answer into a settlement."""
