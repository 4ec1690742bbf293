"""Images in the prompts of language models that see: from files to the vectors that take the place of tokens."""
