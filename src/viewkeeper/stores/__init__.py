"""Base stores: the contract, and one file a store."""
