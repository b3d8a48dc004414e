"""Language models: one protocol, and the adapters that speak to providers."""
