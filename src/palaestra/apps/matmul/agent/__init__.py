"""The learning agent: TensorGame, network, tree search, demonstrations, training loop."""
