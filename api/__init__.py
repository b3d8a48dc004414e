"""The HTTP API: routes by noun, the wire's shapes, and the errors as clients know them."""
