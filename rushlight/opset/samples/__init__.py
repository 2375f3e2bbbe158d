"""Small inputs that drive the generated tests."""
