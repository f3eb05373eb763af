"""What the algorithms are made of: their base class, hyperparameters, shared mathematics, and the registry."""
