"""What convolutions take in, and convolutions beside and behind each other."""
