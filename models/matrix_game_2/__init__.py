"""Matrix-Game 2.0 behind the WorldModel protocol: network, sampler, VAE, memory and checkpoints.

Written from the specification of the published model (shared/matrix-game-2/spec.md, quoted below as "spec N"), not from
its source. One thread, the engine, drives a model; `wanted` is pure numpy and may run on any thread.
"""
